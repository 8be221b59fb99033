package timingwheel

import (
	"context"
	"iter"
	"math"
	"sync/atomic"
	"time"
)

// A Wheel runs callbacks when their time has come. Make one with New; all its
// methods may be called from several goroutines at once, and from callbacks
// unless they say otherwise.
type Wheel struct {
	timeline // never changes
	id       uint32
	opts     Options

	mu      lock // guards all below
	latest  time.Duration
	tickEnd time.Duration // when the tick after the hand's begins
	tasks   table
	wheels  hierarchy
	due     queue
	stopped bool

	// The alarm is the one armed timer. armed is the tick it is set for, or
	// never; what comes later than that needs no other timer.
	armed  int64
	timer  *time.Timer // on the system clock: made once, then reset
	alarm  Stopper     // on any other clock: made anew each time
	kicked bool        // a goroutine is on its way to catch up

	crew     []*worker     // worker goroutines
	starting bool          // one of them has not come to take its first task yet
	taken    atomic.Uint64 // for it, while it has not: count.Fired
	waiters  []waiter
	pause    func() // of tests: called by breathe while the lock is free

	count Stats // the counters of it, and Running
	late  histogram

	oldest   *worker   // those that run a callback, in the order in which
	newest   *worker   // they began; nil: none
	searches []*search // see running
}

const (
	never = math.MaxInt64

	// batch is how many tasks are moved or found due before the lock is let go.
	batch = 512
)

var wheels atomic.Uint32

// New returns a running wheel. It owns no goroutine: while tasks are pending one
// timer is armed, and goroutines exist only while callbacks run. A wheel that was not
// stopped can be collected once nothing is pending and its timer has called, which
// it may still do once for a task that was cancelled.
//
// The error wraps ErrOptions and names the field, the value and the rule.
func New(opts Options) (*Wheel, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Wheel{opts: opts, armed: never}
	for w.id == 0 {
		w.id = wheels.Add(1)
	}
	w.timeline = timeline{clock: opts.Clock, tick: opts.Tick}
	w.start = w.reading()
	w.tickEnd = w.tick
	w.wheels.init(&w.tasks, ringSizes(opts.Tick), 0)
	return w, nil
}

// Add runs fn once after d, on a goroutine of the wheel: never earlier by the
// wheel's clock, and at most one tick later, as long as no more than
// Options.Concurrency callbacks are running. If d is not positive, fn is due at
// once, behind everything due earlier. Any d is legal; one that reaches beyond
// the end of time (292 years) never fires, and can be cancelled like any other.
//
// Tasks start in the order of their due ticks, and within a tick in the order in
// which they were added.
//
// It costs O(1) and allocates nothing in steady state. The error wraps ErrNilFunc,
// ErrStopped or ErrFull. Callbacks may call it.
func (w *Wheel) Add(d time.Duration, fn func()) (Task, error) {
	if fn == nil {
		return Task{}, w.reject(refuse(ErrNilFunc, "Add: fn is nil"))
	}
	now := w.elapsed()
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refusal("Add"); err != nil {
		return Task{}, err
	}
	i := w.tasks.add(fn, nil, w.group(now, d))
	w.count.Added++
	w.schedule(i, now, d)
	return w.handle(i), nil
}

// AddAt is Add(t.Sub(w.Now()), fn): a time that has passed is due at once. On the
// system clock a t without a monotonic reading means what the wall clock shows now.
func (w *Wheel) AddAt(t time.Time, fn func()) (Task, error) {
	if fn == nil {
		return Task{}, w.reject(refuse(ErrNilFunc, "AddAt: fn is nil"))
	}
	at, now := w.locate(t)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refusal("AddAt"); err != nil {
		return Task{}, err
	}
	i := w.tasks.add(fn, nil, w.group(at, 0))
	w.count.Added++
	w.scheduleAt(i, w.observe(now), at)
	return w.handle(i), nil
}

// Cancel takes a pending task back and reports whether this call made sure that
// its callback will not start; for a recurring task, not start again, also while
// it runs. It returns false for a task that has started, was cancelled before, or
// belongs to another wheel. On a stopped wheel it removes a task from Pending.
//
// It costs O(1) and frees the callback for the garbage collector at once.
// Callbacks may call it.
func (w *Wheel) Cancel(t Task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.find(t)
	if e == nil {
		return false
	}
	w.discard(t.index, e)
	return true
}

// Reset makes a pending task due at d from now, earlier or later than before,
// and reports whether it did: the callback then runs once, at the new time, in
// some place among the tasks of that tick. For a recurring task it moves the next
// run, and further runs follow in periods from there. It returns false, and does
// nothing, for a task that is running, has run, was cancelled, or belongs to
// another wheel, and on a stopped wheel.
//
// It costs O(1) and allocates nothing. Callbacks may call it.
func (w *Wheel) Reset(t Task, d time.Duration) bool {
	now := w.elapsed()
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.find(t)
	if e == nil || w.stopped || e.place() == placeRunning {
		return false
	}
	w.reset(t.index, e, now, d)
	return true
}

// Deadline returns the instant at which a pending task is due, which is the
// beginning of a tick; for a task of AddEvery that is running, that of its next
// run. It returns false for a task that has no such instant: one that is stale,
// or belongs to another wheel, or is of AddSchedule and running. Callbacks may
// call it.
//
// On the system clock an instant counts from that of New by the monotonic clock, and
// does not know by how much the wall clock was set since. To keep one beyond the end
// of the process, save time.Now().Round(0).Add(time.Until(deadline)).
func (w *Wheel) Deadline(t Task) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.find(t); e != nil && w.listed(t.index, e) {
		return w.instant(e.due), true
	}
	return time.Time{}, false
}

// Len returns the number of tasks that the wheel holds: those that have not
// started, and recurring ones also while they run. Callbacks may call it.
func (w *Wheel) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tasks.used
}

// Now returns the time by the wheel's clock, which stands still while that clock
// is behind an earlier reading of it. Callbacks may call it.
func (w *Wheel) Now() time.Time {
	reading := w.reading()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clamp(reading)
}

// Behind returns by how much the clock is behind the wheel's time: zero, unless the
// clock was set back. Work that is due at a time t comes when the clock has moved by
// t.Sub(w.Now()) + w.Behind(). Callbacks may call it.
func (w *Wheel) Behind() time.Duration {
	now := w.elapsed()
	w.mu.Lock()
	defer w.mu.Unlock()
	return after(w.observe(now)-max(now, 0), max(0, -max(now, -math.MaxInt64)))
}

// Next returns the next instant at which the wheel has work to do: a task falls
// due, or a slot of a coarser wheel comes round. It is never later than the
// earliest deadline, and in the past if that has not been looked after yet. It
// returns false if nothing is waiting, and on a stopped wheel. Callbacks may call
// it.
func (w *Wheel) Next() (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if tick, ok := w.next(); ok {
		return w.instant(tick), true
	}
	return time.Time{}, false
}

// Pending iterates over the tasks that the wheel holds with their deadlines, in
// no particular order. It takes the tasks in groups and holds no lock while the
// loop body runs, so the body may call any method; tasks that are added, started
// or cancelled meanwhile may or may not be seen. A task of AddSchedule is left
// out while it runs, since its next time is not known yet. Callbacks may call it.
func (w *Wheel) Pending() iter.Seq2[Task, time.Time] {
	return func(yield func(Task, time.Time) bool) {
		var tasks [chunkRows]Task
		var due [chunkRows]int64
		for c := 0; ; c++ {
			n, more := w.list(c, &tasks, &due)
			for k := range n {
				if !yield(tasks[k], w.instant(due[k])) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// list copies the tasks of chunk c and reports whether there are later chunks.
func (w *Wheel) list(c int, tasks *[chunkRows]Task, due *[chunkRows]int64) (n int, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c >= len(w.tasks.chunks) {
		return 0, false
	}
	if w.tasks.chunks[c] == nil {
		return 0, true
	}
	for row := range w.tasks.chunks[c].rows {
		i := uint32(c<<8 | row + 1)
		if e := w.tasks.at(i); e.id != 0 && w.listed(i, e) {
			tasks[n], due[n] = w.handle(i), e.due
			n++
		}
	}
	return n, true
}

// Sync reads the clock, brings the wheel up to that reading, and returns when
// every callback that was due by then has returned, including those that such
// callbacks made due by then. After moving a fake clock it makes a test exact:
//
//	mock.Add(15 * time.Minute)
//	w.Sync()
//
// Callbacks must not call it: it would wait for its caller. A callback that
// keeps adding tasks without delay on a clock that stands still keeps Sync busy
// for ever. On a stopped wheel it waits for the running callbacks only.
func (w *Wheel) Sync() {
	tick := w.catchUp()
	if done := w.wait(tick); done != nil {
		<-done
	}
}

// Stop stops the wheel: from now on no callback starts, and adding is refused
// with ErrStopped. It does not wait for callbacks that are running; Shutdown
// does. What has not started stays listed by Pending and can be cancelled. Stop
// may be called more than once, and by callbacks.
func (w *Wheel) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.disarm()
	w.release()
}

// Shutdown is Stop, and then waits until the running callbacks have returned. If
// ctx ends before that, it returns the error of ctx; the wheel is stopped all the
// same. Callbacks must not call it: it would wait for its caller.
func (w *Wheel) Shutdown(ctx context.Context) error {
	w.Stop()
	done := w.wait(never)
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		w.forget(done)
		return ctx.Err()
	}
}

// The rest is called with the lock held, unless it says otherwise.

// next returns the next tick at which the wheel has work, as Next.
func (w *Wheel) next() (tick int64, ok bool) {
	switch {
	case w.stopped:
		return 0, false
	case !w.due.empty():
		return w.tasks.at(w.due.head).due, true
	}
	return w.wheels.next()
}

func (w *Wheel) handle(i uint32) Task {
	return Task{seq: w.tasks.at(i).seq(), index: i, wheel: w.id}
}

// find returns the entry of a task that is pending or recurring, else nil.
func (w *Wheel) find(t Task) *entry {
	if t.wheel != w.id {
		return nil
	}
	return w.tasks.find(t.index, t.seq)
}

// refusal returns why no task can be added, if so.
func (w *Wheel) refusal(method string) error {
	if !w.stopped && (w.opts.MaxPending == 0 || w.tasks.used < w.opts.MaxPending) {
		return nil
	}
	w.count.Rejected++
	if w.stopped {
		return refuse(ErrStopped, "%s: the wheel is stopped", method)
	}
	return refuse(ErrFull, "%s: %d tasks are pending, Options.MaxPending is %d",
		method, w.tasks.used, w.opts.MaxPending)
}

// reject counts an error; it is called without the lock.
func (w *Wheel) reject(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count.Rejected++
	return err
}

// observe takes note of a reading and returns the wheel's time: the latest
// reading so far. A reading that another goroutine's has overtaken on the way to
// the lock counts as that one.
func (w *Wheel) observe(elapsed time.Duration) time.Duration {
	w.latest = max(w.latest, elapsed)
	return w.latest
}

// clamp is observe for a time. A reading that is behind is moved forward: its wall
// clock may have been set since the start, which must not come back.
func (w *Wheel) clamp(t time.Time) time.Time {
	elapsed := t.Sub(w.start)
	latest := w.observe(elapsed)
	if elapsed < latest-math.MaxInt64 {
		return w.start.Add(latest) // too far behind for a Duration
	}
	return t.Add(latest - elapsed)
}

// schedule makes task i, which is in no list, due at d after a reading.
func (w *Wheel) schedule(i uint32, now, d time.Duration) {
	if now = w.observe(now); d > 0 {
		w.enter(i, now, w.ceil(after(now, d)))
	} else {
		w.enter(i, now, w.floor(now))
	}
}

// scheduleAt is schedule for an elapsed time. One that has passed is due at once,
// but for the end of time, which stands for all that lies beyond it.
func (w *Wheel) scheduleAt(i uint32, now, at time.Duration) {
	if at <= now && at < math.MaxInt64 {
		w.enter(i, now, w.floor(now))
	} else {
		w.enter(i, now, w.ceil(at))
	}
}

// enter puts task i into its slot, or into the due queue if it is due and
// nothing that is due before it is still in a slot.
func (w *Wheel) enter(i uint32, now time.Duration, due int64) {
	if now >= w.tickEnd {
		w.wheels.skip(w.floor(now))
		w.turned()
	}
	behind := now >= w.tickEnd // the alarm is late
	w.tasks.at(i).due = due
	if due <= w.wheels.hand && w.wheels.stage == 0 {
		w.due.push(&w.tasks, i)
		w.hire()
		return
	}
	stop := w.wheels.put(i, false)
	switch {
	case w.stopped:
	case behind && w.wheels.stage == 0 && w.offset(due) <= now:
		w.kick() // it is due at once, after others that have not been looked after
	case stop < w.armed:
		w.arm(stop)
	}
}

// group returns with which tasks one that is due at d after a reading will be
// walked, if the table wants to know.
func (w *Wheel) group(now, d time.Duration) int {
	if w.tasks.hasFree() {
		return 0
	}
	return w.wheels.group(w.ceil(after(max(now, w.latest), max(d, 0))))
}

// turned follows the hand, so that enter need not divide to see that it is there.
func (w *Wheel) turned() { w.tickEnd = w.offset(w.wheels.hand + 1) }

// leave takes task i out of its list. Sync may have been waiting for that, so it
// is followed by release once the change is complete.
func (w *Wheel) leave(i uint32, e *entry) {
	switch e.place() {
	case placeRunning:
	case placeDue:
		w.due.remove(&w.tasks, i)
	default:
		w.wheels.remove(i)
	}
}

// discard cancels task i.
func (w *Wheel) discard(i uint32, e *entry) {
	w.leave(i, e)
	if e.hooked() {
		if keys := w.tasks.hook(i).keys; keys != nil {
			keys.drop(i)
		}
	}
	w.tasks.remove(i)
	w.count.Canceled++
	w.release()
}

// reset makes pending task i due at d after a reading.
func (w *Wheel) reset(i uint32, e *entry, now, d time.Duration) {
	if e.hooked() {
		if s := w.tasks.hook(i).series; s != nil {
			s.move(after(w.observe(now), max(d, 0)))
		}
	}
	if d > 0 && e.place() >= placeSlots {
		if due := w.ceil(after(w.observe(now), d)); due >= e.due {
			w.wheels.delay(i, due)
			return
		}
	}
	w.leave(i, e)
	w.schedule(i, now, d)
	w.release()
}

// listed reports whether entry e, which is in use, has a next due tick.
func (w *Wheel) listed(i uint32, e *entry) bool {
	return e.place() != placeRunning || w.tasks.hook(i).series.period > 0
}

// wake is what the alarm calls, on a goroutine of its own; without the lock.
func (w *Wheel) wake() {
	w.mu.Lock()
	w.count.Wakeups++
	w.armed = never
	w.mu.Unlock()
	w.catchUp()
}

// hint is what the alarm of a clock that is not the system's calls. Some fakes
// call it with a lock of their own held, which wake would need to read the clock.
func (w *Wheel) hint() { go w.wake() }

// kick catches up without an alarm: something in a slot is due already.
func (w *Wheel) kick() {
	if w.kicked {
		return
	}
	w.kicked = true
	go func() {
		w.mu.Lock()
		w.kicked = false
		w.armed = never
		w.mu.Unlock()
		w.catchUp()
	}()
}

// catchUp brings the hand to the clock's reading, finds workers for what is due,
// and sets the alarm for what comes next. It returns the tick of the reading. It
// is called without the lock; several goroutines may be in it.
func (w *Wheel) catchUp() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	tick := w.floor(w.observe(w.elapsed()))
	for !w.stopped && !w.wheels.advance(tick, &w.due, batch) {
		w.hire()
		w.breathe()
	}
	w.turned()
	w.hire()
	if !w.stopped && w.wheels.stage == 0 {
		if next, ok := w.wheels.next(); ok && next < w.armed {
			w.arm(next)
		}
	}
	return tick
}

// arm sets the alarm for a tick. A goroutine can lose the processor between
// reading the clock and starting the timer, and the timer would then be late by
// as much; so the clock is read again afterwards.
func (w *Wheel) arm(tick int64) {
	const tries = 4 // a clock that moves with each reading never stands still
	if tick > w.floor(math.MaxInt64) {
		return // it lies beyond the end of time, even if the clock stands there
	}
	w.armed = tick
	now := w.elapsed()
	for range tries {
		if max(now, w.latest) >= w.offset(tick) {
			w.kick()
			return
		}
		w.setAlarm(after(w.offset(tick)-max(now, 0), max(-now, 0)))
		before := now
		if now = w.elapsed(); now-before <= w.tick/8 {
			return
		}
	}
}

func (w *Wheel) setAlarm(d time.Duration) {
	switch {
	case w.clock.now != nil:
		if w.alarm != nil {
			w.alarm.Stop()
		}
		w.alarm = w.clock.after(d, w.hint)
	case w.timer == nil:
		w.timer = time.AfterFunc(d, w.wake)
	default:
		w.timer.Reset(d)
	}
}

func (w *Wheel) disarm() {
	w.armed = never
	if w.alarm != nil {
		w.alarm.Stop()
		w.alarm = nil
	}
	if w.timer != nil {
		w.timer.Stop()
		w.timer = nil
	}
}
