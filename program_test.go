package timingwheel

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A handClock moves when the test says so, and calls its alarms when told.
type handClock struct {
	mu     sync.Mutex
	now    time.Time
	alarms map[*handAlarm]bool
	wrong  error
}

type handAlarm struct {
	c    *handClock
	at   time.Time
	f    func()
	come bool // its time: it rings, even if the clock is set back before it does
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) AfterFunc(d time.Duration, f func()) *handAlarm {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d <= 0 {
		c.wrong = fmt.Errorf("the clock was asked for a wait of %v", d)
	}
	a := &handAlarm{c: c, at: c.now.Add(d), f: f}
	c.alarms[a] = true
	return a
}

func (a *handAlarm) Stop() bool {
	a.c.mu.Lock()
	defer a.c.mu.Unlock()
	defer delete(a.c.alarms, a)
	return a.c.alarms[a]
}

func (c *handClock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for a := range c.alarms {
		a.come = a.come || !a.at.After(c.now)
	}
}

// ring calls the alarms whose time has come and reports whether there were any.
func (c *handClock) ring() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	rang := false
	for a := range c.alarms {
		if a.come {
			delete(c.alarms, a)
			rang = true
			a.f()
		}
	}
	return rang
}

// A job is what the model knows of a task of a Wheel.
type job struct {
	task    Task
	key     int // of Keyed, else -1
	due     int64
	rank    int  // order of adding
	moved   bool // by Reset: its place within its tick is free
	period  time.Duration
	next    time.Duration // when it recurs
	rounds  int           // of a schedule, else 0
	running bool
	handle  bool // task is known
}

// A world runs a program on a Wheel with one worker and on a list of jobs. It
// lives in a bubble. Callbacks run while the main goroutine waits, and are part
// of the program.
type world struct {
	w     *Wheel
	c     *handClock
	s     source
	keyed *Keyed[int]
	in    inspector

	mu     sync.Mutex // held by each operation, and by callbacks
	jobs   []*job
	stale  []Task
	latest time.Duration
	rank   int
	depth  int
	expect Stats // the counters
	stop   bool
	err    error
	log    []string
}

const keys = 4

func newWorld(s source) *world {
	tick := []time.Duration{time.Second, time.Second, 500 * time.Millisecond, 100 * time.Millisecond, time.Millisecond}[s.intn(5)]
	c := &handClock{now: time.Date(2026, 3, 29, 1, 59, 59, 999_999_999, time.UTC), alarms: map[*handAlarm]bool{}}
	w, err := New(Options{Tick: tick, Clock: ClockOf(c), Concurrency: 1, MaxPending: []int{0, 0, 0, 8}[s.intn(4)]})
	x := &world{w: w, c: c, s: s, err: err}
	x.keyed = NewKeyed(w, func(key int) {
		x.mu.Lock()
		defer x.mu.Unlock()
		for _, j := range x.jobs {
			if j.key == key {
				x.ran(j)
				return
			}
		}
		x.fail("key %d ran, but is not pending", key)
	})
	return x
}

func (x *world) note(format string, args ...any) {
	x.log = append(x.log, strings.Repeat("  ", x.depth)+fmt.Sprintf(format, args...))
}

// tell is note without mu held.
func (x *world) tell(what string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.note("%s", what)
}

func (x *world) fail(format string, args ...any) {
	if x.err == nil {
		log := x.log[max(0, len(x.log)-50):]
		x.err = fmt.Errorf("%s\ntick %v, after %d operations, the last of them:\n%s",
			fmt.Sprintf(format, args...), x.w.tick, len(x.log), strings.Join(log, "\n"))
	}
}

// The model's arithmetic, by the words of the contract.

func (x *world) elapsed() time.Duration { return x.c.Now().Sub(x.w.start) }
func (x *world) read()                  { x.latest = max(x.latest, x.elapsed()) }
func (x *world) floor(d time.Duration) int64 {
	return int64(d) / int64(x.w.tick)
}
func (x *world) ceil(d time.Duration) int64 {
	n := int64(d) / int64(x.w.tick)
	if int64(d)%int64(x.w.tick) != 0 {
		n++
	}
	return n
}
func (x *world) plus(d time.Duration) time.Duration {
	if sum := x.latest + d; sum >= x.latest {
		return sum
	}
	return math.MaxInt64
}
func (x *world) dueAfter(d time.Duration) int64 {
	if d <= 0 {
		return x.floor(x.latest)
	}
	return x.ceil(x.plus(d))
}
func (x *world) instant(due int64) time.Time {
	if due > math.MaxInt64/int64(x.w.tick) {
		return x.w.start.Add(math.MaxInt64)
	}
	return x.w.start.Add(time.Duration(due) * x.w.tick)
}

func (x *world) drop(j *job) {
	x.jobs = slices.DeleteFunc(x.jobs, func(other *job) bool { return other == j })
	if j.handle {
		x.stale = append(x.stale, j.task)
	}
}

// ran is called by the callback of a job, with mu held.
func (x *world) ran(j *job) {
	x.note("ran: due %d, added as %d", j.due, j.rank)
	known := false
	for _, other := range x.jobs {
		known = known || other == j
		switch {
		case other == j:
		case !other.running && other.due < j.due:
			x.fail("one due at %d ran before one due at %d", j.due, other.due)
		case !other.running && other.due == j.due && !other.moved && !j.moved && other.rank < j.rank:
			x.fail("both due at %d: %d ran before %d", j.due, j.rank, other.rank)
		}
	}
	x.read()
	switch {
	case !known:
		x.fail("a task ran that is not pending")
	case j.running:
		x.fail("two runs of one task at once")
	case j.due > x.floor(x.latest):
		x.fail("due at %d, ran early, at %v", j.due, x.latest)
	case x.stop:
		x.fail("a task ran after Stop")
	}
	x.expect.Fired++
	if j.period == 0 && j.rounds == 0 {
		x.drop(j)
		x.nested()
		return
	}
	j.running = true
	if j.period > 0 {
		merged := int64(0)
		if late := time.Duration(x.floor(x.latest))*x.w.tick - j.next; late > 0 {
			merged = int64(late / j.period)
		}
		x.expect.Skipped += uint64(merged)
		j.next += time.Duration(merged) * j.period
		if j.next > math.MaxInt64-j.period {
			j.next = math.MaxInt64
		} else {
			j.next += j.period
		}
		j.due = x.ceil(j.next)
	}
	x.nested()
	x.ended(j)
}

// ended is the end of a run of a recurring job.
func (x *world) ended(j *job) {
	if !slices.Contains(x.jobs, j) {
		return // it was cancelled while it ran
	}
	if j.period == 0 {
		if j.rounds--; j.rounds == 0 {
			x.drop(j)
			return
		}
		j.next = x.plus(scheduled)
	}
	x.rank++
	j.running, j.moved, j.rank = false, false, x.rank
	j.due = max(x.ceil(j.next), x.floor(x.latest))
}

const scheduled = 7*time.Second + 1

// A countdown is a schedule of a few times, each a fixed time after the last.
type countdown int

func (c *countdown) Next(t time.Time) time.Time {
	if *c--; *c < 0 {
		return time.Time{}
	}
	return t.Add(scheduled)
}

// nested lets a callback call the wheel now and then.
func (x *world) nested() {
	x.depth++
	for x.depth < 4 && x.s.intn(4) == 0 {
		x.operation()
	}
	x.depth--
}

func (x *world) delay() time.Duration {
	tick := x.w.tick
	units := []time.Duration{tick, time.Second, time.Minute, time.Hour, 24 * time.Hour}
	unit := units[x.s.intn(len(units))]
	switch x.s.intn(8) {
	case 0:
		return 0
	case 1:
		return tick * time.Duration(x.s.intn(5))
	case 2:
		return unit*time.Duration(x.s.intn(3)) + time.Duration(x.s.intn(3)) - 1
	case 3: // to the next boundary of a slot
		return unit - x.latest%unit + tick*time.Duration(x.s.intn(3)-1) + time.Duration(x.s.intn(3)-1)
	case 4: // to the deadline of another
		if len(x.jobs) > 0 {
			return x.instant(x.jobs[x.s.intn(len(x.jobs))].due).Sub(x.c.Now()) + time.Duration(x.s.intn(3)-1)
		}
		return unit
	case 5:
		return time.Duration(x.s.intn(256)) * unit
	case 6:
		return []time.Duration{-1, math.MinInt64, math.MaxInt64, math.MaxInt64 - x.latest, 366 * 24 * time.Hour}[x.s.intn(5)]
	default:
		return time.Duration(x.s.intn(100)) * tick
	}
}

func (x *world) pick() *job {
	if len(x.jobs) == 0 {
		return nil
	}
	return x.jobs[x.s.intn(len(x.jobs))]
}

func (x *world) byKey(key int) *job {
	for _, j := range x.jobs {
		if j.key == key {
			return j
		}
	}
	return nil
}

// refused reports whether an add must fail, and compares.
func (x *world) refused(err error) bool {
	var want error
	switch full := x.w.opts.MaxPending > 0 && len(x.jobs) >= x.w.opts.MaxPending; {
	case x.stop:
		want = ErrStopped
	case full:
		want = ErrFull
	}
	if !errors.Is(err, want) {
		x.fail("adding to %d tasks returned %v, not %v", len(x.jobs), err, want)
	}
	if want != nil {
		x.expect.Rejected++
	}
	return want != nil
}

func (x *world) enter(j *job) {
	x.rank++
	x.expect.Added++
	j.rank = x.rank
	x.jobs = append(x.jobs, j)
}

// operation is one call of a method, with mu held.
func (x *world) operation() {
	switch op := x.s.intn(20); {
	case op < 6:
		x.addOne(op)
	case op < 8:
		x.addSeries(op)
	case op < 11:
		x.cancelOne(op)
	case op < 14:
		x.resetOne()
	case op < 18:
		x.useKey(op)
	case op == 18:
		x.peek()
	default:
		if x.s.intn(10) == 0 && x.depth == 0 {
			x.note("stop")
			x.w.Stop()
			x.stop = true
		}
	}
}

func (x *world) addOne(op int) {
	d := x.delay()
	x.note("add %v", d)
	j := &job{key: -1, handle: true}
	fn := func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ran(j)
		if x.s.intn(16) == 0 {
			runtime.Goexit()
		}
	}
	x.read()
	var err error
	if at := x.w.start.Add(x.latest).Add(d); op == 0 && at.Sub(x.w.start.Add(x.latest)) == d {
		j.task, err = x.w.AddAt(at, fn)
	} else {
		j.task, err = x.w.Add(d, fn)
	}
	if x.refused(err) {
		return
	}
	j.due = x.dueAfter(d)
	x.enter(j)
}

func (x *world) addSeries(op int) {
	j := &job{key: -1, handle: true}
	fn := func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.ran(j)
	}
	x.read()
	var err error
	if op == 6 {
		j.period = max(x.delay(), x.w.tick)
		x.note("add every %v", j.period)
		j.task, err = x.w.AddEvery(j.period, fn)
	} else {
		j.rounds = 1 + x.s.intn(3)
		left := countdown(j.rounds)
		x.note("add a schedule of %d", left)
		j.task, err = x.w.AddSchedule(&left, fn)
	}
	if x.refused(err) {
		return
	}
	d := j.period
	if d == 0 {
		d = scheduled
	}
	j.next = x.plus(d)
	j.due = x.dueAfter(d)
	x.enter(j)
}

func (x *world) cancelOne(op int) {
	if op == 8 && len(x.stale) > 0 {
		task := x.stale[x.s.intn(len(x.stale))]
		if _, ok := x.w.Deadline(task); ok || x.w.Cancel(task) || x.w.Reset(task, 0) {
			x.fail("a stale handle is accepted")
		}
		x.read()
		return
	}
	j := x.pick()
	if j == nil {
		return
	}
	x.note("cancel the one due at %d", j.due)
	if !x.w.Cancel(x.handle(j)) {
		x.fail("Cancel of a pending task returned false")
	}
	x.expect.Canceled++
	x.drop(j)
}

// handle returns the handle of a job; that of a key is not for users, but Pending
// shows it.
func (x *world) handle(j *job) Task {
	if j.key < 0 {
		return j.task
	}
	x.w.mu.Lock()
	defer x.w.mu.Unlock()
	i, ok := x.keyed.keys.find(j.key)
	if !ok {
		return Task{}
	}
	return x.w.handle(i)
}

func (x *world) resetOne() {
	j := x.pick()
	if j == nil {
		return
	}
	d := x.delay()
	x.note("reset the one due at %d to %v", j.due, d)
	x.read()
	if moved := x.w.Reset(x.handle(j), d); moved != (!j.running && !x.stop) {
		x.fail("Reset returned %v", moved)
	}
	x.moved(j, d)
}

func (x *world) moved(j *job, d time.Duration) {
	if j.running || x.stop {
		return
	}
	j.moved, j.due = true, x.dueAfter(d)
	j.next = x.plus(max(d, 0))
}

func (x *world) useKey(op int) {
	key := x.s.intn(keys)
	j := x.byKey(key)
	x.read()
	switch what := x.s.intn(5); {
	case what == 0:
		x.note("cancel key %d", key)
		if x.keyed.Cancel(key) != (j != nil) {
			x.fail("Cancel of key %d, pending: %v", key, j != nil)
		}
		if j != nil {
			x.expect.Canceled++
			x.drop(j)
		}
	case what == 1:
		d := x.delay()
		x.note("reset key %d to %v", key, d)
		if x.keyed.Reset(key, d) != (j != nil && !x.stop) {
			x.fail("Reset of key %d, pending: %v", key, j != nil)
		}
		if j != nil {
			x.moved(j, d)
		}
	case what == 2:
		d := x.delay()
		x.note("add key %d if new, %v", key, d)
		added, err := x.keyed.AddNew(key, d)
		if j != nil && !x.stop {
			if added || err != nil {
				x.fail("AddNew of a pending key returned %v, %v", added, err)
			}
			return
		}
		if !x.refused(err) {
			x.enter(&job{key: key, due: x.dueAfter(d)})
		} else if added {
			x.fail("AddNew was refused and says that it added")
		}
	default:
		d := x.delay()
		x.note("add key %d, %v", key, d)
		err := x.keyed.Add(key, d)
		if j != nil && !x.stop {
			if err != nil {
				x.fail("Add of a pending key returned %v", err)
			}
			x.expect.Canceled++
			x.drop(j)
			x.enter(&job{key: key, due: x.dueAfter(d)})
			return
		}
		if !x.refused(err) {
			x.enter(&job{key: key, due: x.dueAfter(d)})
		}
	}
}

// peek compares what can be seen at any time, also from callbacks.
func (x *world) peek() {
	x.read()
	if got, want := x.w.Now(), x.w.start.Add(x.latest); !got.Equal(want) {
		x.fail("Now is %v, not %v", got, want)
	}
	if got := x.w.Len(); got != len(x.jobs) {
		x.fail("Len is %d, not %d", got, len(x.jobs))
	}
	inKeyed := 0
	for _, j := range x.jobs {
		at, ok := x.w.Deadline(x.handle(j))
		if listed := !j.running || j.period > 0; ok != listed || ok && !at.Equal(x.instant(j.due)) {
			x.fail("the deadline of one due at %d is %v, %v", j.due, at, ok)
		}
		if j.key < 0 {
			continue
		}
		inKeyed++
		if at, ok := x.keyed.Deadline(j.key); !ok || !at.Equal(x.instant(j.due)) {
			x.fail("the deadline of key %d, due at %d, is %v, %v", j.key, j.due, at, ok)
		}
	}
	if got := x.keyed.Len(); got != inKeyed {
		x.fail("Keyed.Len is %d, not %d", got, inKeyed)
	}
}

// check compares everything while nothing runs.
func (x *world) check() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.peek()
	earliest, waiting := int64(never), false
	want := map[Task]time.Time{}
	for _, j := range x.jobs {
		earliest, waiting = min(earliest, j.due), true
		want[x.handle(j)] = x.instant(j.due)
		if j.due <= x.floor(x.latest) && !x.stop {
			x.fail("due at %d, has not run by %v", j.due, x.latest)
		}
	}
	for task, at := range x.w.Pending() {
		if !at.Equal(want[task]) {
			x.fail("Pending shows %v, which is not pending, or due at another time", at)
		}
		delete(want, task)
	}
	if len(want) > 0 {
		x.fail("Pending leaves out %v", want)
	}
	for key, at := range x.keyed.Pending() {
		if j := x.byKey(key); j == nil || !at.Equal(x.instant(j.due)) {
			x.fail("Keyed.Pending shows key %d at %v", key, at)
		}
	}
	switch next, ok := x.w.Next(); {
	case x.stop && ok:
		x.fail("a stopped wheel has Next %v", next)
	case !x.stop && ok != waiting:
		x.fail("Next says %v", ok)
	case ok && next.After(x.instant(earliest)):
		x.fail("Next is %v, but a task is due at %d", next, earliest)
	}
	x.compareStats()
	if err := sound(x.w, &x.in); err != nil {
		x.fail("%v", err)
	}
	if x.c.wrong != nil {
		x.fail("%v", x.c.wrong)
	}
	if len(x.c.alarms) > 1 {
		x.fail("%d alarms are armed", len(x.c.alarms))
	}
}

func (x *world) compareStats() {
	s, want := x.w.Stats(), &x.expect
	if s.Added != want.Added || s.Fired != want.Fired || s.Canceled != want.Canceled ||
		s.Rejected != want.Rejected || s.Skipped != want.Skipped || s.Panicked != 0 {
		x.fail("Stats are %+v, but wanted %+v", s, *want)
	}
	if s.Pending+s.Due+s.Running != len(x.jobs) || s.Running != 0 {
		x.fail("%d pending, %d due, %d running, of %d", s.Pending, s.Due, s.Running, len(x.jobs))
	}
}

// shift moves the clock.
func (x *world) shift() {
	x.mu.Lock()
	defer x.mu.Unlock()
	d := x.delay()
	switch x.s.intn(12) {
	case 0:
		d = -max(d, 0)
	case 1:
		if next, ok := x.w.Next(); ok {
			d = next.Sub(x.c.Now()) + time.Duration(x.s.intn(3)-1)
		}
	}
	d = min(d, 366*24*time.Hour)
	if back := x.elapsed(); d < 0 && (d < -366*24*time.Hour || back < 0) {
		return
	}
	x.note("move the clock by %v", d)
	x.c.move(d)
}

// settle lets run what is due, by Sync or because the alarm calls.
func (x *world) settle() {
	synctest.Wait() // callbacks that run at once make choices, too
	if x.s.intn(2) == 0 {
		x.tell("sync")
		x.w.Sync()
		synctest.Wait()
		x.mu.Lock()
		x.read()
		x.mu.Unlock()
	} else {
		x.tell("let the alarm ring")
	}
	for x.c.ring() {
		x.mu.Lock()
		x.read() // it wakes the wheel
		x.mu.Unlock()
		synctest.Wait()
	}
	synctest.Wait()
}

// run executes a program of n steps.
func (x *world) run(n int) error {
	for step := 0; step < n && x.err == nil; step++ {
		if x.s.intn(3) > 0 {
			x.shift()
		}
		if x.s.intn(6) == 0 {
			x.blocked()
		} else {
			x.mu.Lock()
			x.operation()
			x.mu.Unlock()
		}
		x.settle()
		x.check()
	}
	return x.err
}

// blocked does several operations while the only worker is blocked, so that what
// falls due waits in the queue, can be cancelled there, and may be seen.
func (x *world) blocked() {
	block := make(chan struct{})
	x.settle()
	x.mu.Lock()
	x.note("block the worker")
	x.read()
	_, err := x.w.Add(0, func() { <-block })
	refused := x.refused(err)
	if !refused {
		x.expect.Added++
		x.expect.Fired++
	}
	x.mu.Unlock()
	if refused {
		return
	}
	synctest.Wait()
	for range 1 + x.s.intn(6) {
		if x.s.intn(2) == 0 {
			x.shift()
		}
		if x.s.intn(2) == 0 && x.c.ring() {
			x.mu.Lock()
			x.read()
			x.mu.Unlock()
		}
		synctest.Wait()
		x.mu.Lock()
		x.operation()
		x.peek()
		x.mu.Unlock()
		synctest.Wait()
	}
	x.tell("unblock the worker")
	close(block)
	synctest.Wait()
}

func TestProgramsOnAWheelAgreeWithAList(t *testing.T) {
	from, to := seeds(t, 2000)
	for seed := from; seed < to; seed++ {
		var err error
		synctest.Test(t, func(t *testing.T) {
			x := newWorld(random{rand.New(rand.NewPCG(seed, 3))})
			err = x.run(60)
			x.w.Stop()
		})
		require.NoError(t, err, "replay with TIMINGWHEEL_SEED=%d", seed)
	}
}
