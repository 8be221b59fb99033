package timingwheel

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"
)

// A stillClock moves when the test moves it, and calls nobody: Sync is all that
// brings the wheel up.
type stillClock struct{ nanos atomic.Int64 }

type noTimer struct{}

func (noTimer) Stop() bool { return true }

func (c *stillClock) Now() time.Time                              { return time.Unix(0, c.nanos.Load()) }
func (c *stillClock) AfterFunc(_ time.Duration, _ func()) noTimer { return noTimer{} }

// walked counts the tasks of each slot the long way, along the links.
func (w *Wheel) walked() [][]uint32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all [][]uint32
	for k := range w.wheels.levels {
		l := &w.wheels.levels[k]
		counts := make([]uint32, len(l.slots))
		for n, s := range l.slots {
			for i := s.head; i != 0; {
				counts[n]++
				if i = w.tasks.at(i).next; i == s.head {
					break
				}
			}
		}
		all = append(all, counts)
	}
	return all
}

// Whatever happens, also between the steps of the first count, the snapshot says
// how many tasks are in each slot.
func TestSnapshotCountsTheTasksOfEachSlot(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		still := &stillClock{}
		w, err := New(Options{Clock: ClockOf(still), Tick: 100 * time.Millisecond, Concurrency: 1})
		require.NoError(t, err)
		var tasks []Task
		change := func() {
			switch n := rnd.IntN(10); {
			case n < 6 || len(tasks) == 0:
				task, err := w.Add(time.Duration(rnd.Int64N(int64(1)<<(30+rnd.IntN(18)))), func() {})
				require.NoError(t, err)
				tasks = append(tasks, task)
			case n < 8:
				w.Cancel(tasks[rnd.IntN(len(tasks))])
			default:
				w.Reset(tasks[rnd.IntN(len(tasks))], time.Duration(rnd.Int64N(int64(2*time.Hour))))
			}
		}
		for range rnd.IntN(5000) {
			change()
		}
		if seed%2 == 0 { // chunks go back, and leave holes
			for _, task := range tasks {
				if c := task.index >> 8; 1 <= c && c <= 5 {
					w.Cancel(task)
				}
			}
		}
		w.pause = func() {
			change()
			if rnd.IntN(4) == 0 {
				still.nanos.Add(rnd.Int64N(int64(time.Minute)))
			}
		}
		require.Equal(t, len(w.walked()), len(w.Snapshot().Slots))
		w.pause = nil
		for range 20 {
			for range 20 {
				change()
			}
			still.nanos.Add(rnd.Int64N(int64(time.Hour)))
			w.Sync()
			s := w.Snapshot()
			require.Equal(t, w.walked(), s.Slots, "seed %d", seed)
			require.Equal(t, still.Now(), s.Now)
		}
		for _, task := range tasks {
			w.Cancel(task)
		}
		for k, counts := range w.Snapshot().Slots {
			require.Equal(t, make([]uint32, len(counts)), counts, "level %d, seed %d", k, seed)
		}
	}
}

func TestSnapshotSaysHowTheWheelIsSet(t *testing.T) {
	mock := clock.NewMock()
	w, err := New(Options{Clock: ClockOf(mock), Tick: 10 * time.Millisecond, Concurrency: 3, MaxPending: 9})
	require.NoError(t, err)
	s := w.Snapshot()
	require.Equal(t, 10*time.Millisecond, s.Tick)
	require.Equal(t, 3, s.Concurrency)
	require.Equal(t, 9, s.MaxPending)
	require.True(t, s.Next.IsZero(), "nothing is pending")
	require.Zero(t, s.LongestRun)
	require.Equal(t, mock.Now(), s.Start)
	_, err = w.Add(30*time.Millisecond, func() {})
	require.NoError(t, err)
	require.Equal(t, mock.Now().Add(30*time.Millisecond), w.Snapshot().Next)
	require.False(t, w.Snapshot().Stopped)
	w.Stop()
	s = w.Snapshot()
	require.True(t, s.Stopped)
	require.True(t, s.Next.IsZero(), "it will do nothing any more")
	require.Equal(t, 1, s.Pending)
}

// One task of each kind, from the slot to the end of its callback.
func TestLocateFollowsATask(t *testing.T) {
	mock := clock.NewMock()
	w, err := New(Options{Clock: ClockOf(mock), Concurrency: 1})
	require.NoError(t, err)
	began, goOn := make(chan struct{}), make(chan struct{})
	block := func() { began <- struct{}{}; <-goOn }
	keys := NewKeyed(w, func(string) { block() })

	task, err := w.Add(90*time.Second, block)
	require.NoError(t, err)
	require.NoError(t, keys.Add("order", 90*time.Second))
	deadline := mock.Now().Add(90 * time.Second)
	atTask := func() (Place, bool) { return w.Locate(task) }
	atKey := func() (Place, bool) { return keys.Locate("order") }
	same := func(want Place, found bool, at ...func() (Place, bool)) {
		t.Helper()
		for _, locate := range at {
			p, ok := locate()
			require.Equal(t, found, ok)
			require.Equal(t, want, p)
		}
	}

	same(Place{Deadline: deadline, Level: 1, Slot: 1}, true, atTask, atKey)
	mock.Add(60 * time.Second)
	w.Sync()
	same(Place{Deadline: deadline, Level: 0, Slot: 30}, true, atTask, atKey)

	mock.Add(32 * time.Second)
	<-began
	p, ok := w.Locate(task)
	require.True(t, ok)
	since := p.Since
	same(Place{Deadline: deadline, Level: -1, Slot: -1, Since: since}, true, atTask)
	require.False(t, since.Before(deadline))
	same(Place{Deadline: deadline, Level: -1, Slot: -1}, true, atKey)
	require.Equal(t, mock.Now().Sub(since), w.Snapshot().LongestRun)

	goOn <- struct{}{}
	<-began
	same(Place{}, false, atTask)
	p, ok = keys.Locate("order")
	require.True(t, ok)
	require.False(t, p.Since.IsZero(), "no longer pending, but running")
	goOn <- struct{}{}
	w.Sync()
	same(Place{}, false, atTask, atKey)
	require.NoError(t, keys.Add("order", time.Hour))
	require.True(t, keys.Cancel("order"))
	same(Place{}, false, atKey)
}

func TestKeyedKnowsItsWheel(t *testing.T) {
	w, err := New(Options{})
	require.NoError(t, err)
	require.Same(t, w, NewKeyed(w, func(int) {}).Wheel())
	none := NewKeyed(nil, func(int) {})
	require.Nil(t, none.Wheel())
	_, ok := none.Locate(1)
	require.False(t, ok)
}

func TestLocateFindsRecurringTasksWhileTheyRun(t *testing.T) {
	mock := clock.NewMock()
	w, err := New(Options{Clock: ClockOf(mock)})
	require.NoError(t, err)
	began, goOn := make(chan struct{}), make(chan struct{})
	task, err := w.AddEvery(time.Minute, func() { began <- struct{}{}; <-goOn })
	require.NoError(t, err)
	first := mock.Now().Add(time.Minute)
	mock.Add(time.Minute)
	<-began
	p, ok := w.Locate(task)
	require.True(t, ok)
	require.Equal(t, first, p.Deadline, "of the run that is on")
	require.False(t, p.Since.IsZero())
	goOn <- struct{}{}
	w.Sync()
	p, ok = w.Locate(task)
	require.True(t, ok)
	require.Equal(t, first.Add(time.Minute), p.Deadline)
	other, err := New(Options{})
	require.NoError(t, err)
	_, ok = other.Locate(task)
	require.False(t, ok)
}

// A crowd is a wheel on which so many callbacks run that looking through them lets go
// of the lock.
type crowd struct {
	*Wheel
	still *stillClock
	end   map[Task]chan struct{}
	began chan struct{}
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{still: new(stillClock), end: map[Task]chan struct{}{}, began: make(chan struct{})}
	w, err := New(Options{Clock: ClockOf(c.still), Concurrency: 4 * batch})
	require.NoError(t, err)
	c.Wheel = w
	return c
}

// run lets so many callbacks begin and stay, beside others that are due in a tick.
func (c *crowd) run(t *testing.T, n, others int) {
	for range n {
		end := make(chan struct{})
		task, err := c.Add(c.tick, func() { c.began <- struct{}{}; <-end })
		require.NoError(t, err)
		c.end[task] = end
	}
	c.still.nanos.Add(int64(c.tick))
	c.catchUp()
	for range n + others {
		<-c.began
	}
}

// seats returns how many workers there are.
func (c *crowd) seats() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.crew)
}

// seated returns the task that runs in a seat, or in the last one.
func (c *crowd) seated(seat int) Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.crew[min(seat, len(c.crew)-1)].task()
}

// dismiss ends the run of a task and waits until its worker has left.
func (c *crowd) dismiss(task Task) {
	left := c.seats() - 1
	close(c.end[task])
	for c.seats() != left {
		runtime.Gosched()
	}
}

// Whoever leaves the crew gives a seat to another worker, and that one must be found
// all the same.
func TestLocateFindsATaskThatRunsWhileOthersEnd(t *testing.T) {
	c := newCrowd(t)
	const runs = 3 * batch
	c.run(t, runs, 0)
	pauses := 0
	for _, seat := range []int{0, 1, batch - 1, batch, batch + 1, 2 * batch, runs} {
		sought := c.seated(seat)
		c.pause = func() {
			pauses++
			for _, seat := range []int{0, batch, runs} {
				if task := c.seated(seat); task != sought {
					c.dismiss(task)
				}
			}
		}
		_, ok := c.Locate(sought)
		require.True(t, ok, "the task in seat %d", seat)
	}
	require.Positive(t, pauses)

	sought := c.seated(0)
	c.pause = func() { // fewer stay than there were to be looked at
		for c.seats() > 3 {
			c.dismiss(c.seated(runs))
		}
	}
	_, ok := c.Locate(sought)
	require.True(t, ok)
	c.pause = nil
	for c.seats() > 0 {
		c.dismiss(c.seated(0))
	}
}

// A run may end while Locate looks for it, and the task wait for its next one, or be
// in it already.
func TestLocateFindsATaskWhoseRunEndsMeanwhile(t *testing.T) {
	type task struct {
		locate func() (Place, bool)
		again  func() error // makes it due for the second time
		end    chan struct{}
	}
	for name, prepare := range map[string]func(*crowd) task{
		"recurring": func(c *crowd) task {
			end := make(chan struct{})
			recurring, err := c.AddEvery(c.tick, func() { c.began <- struct{}{}; <-end })
			require.NoError(t, err)
			return task{func() (Place, bool) { return c.Locate(recurring) }, func() error { return nil }, end}
		},
		"of a key": func(c *crowd) task {
			end := make(chan struct{})
			k := NewKeyed(c.Wheel, func(int) { c.began <- struct{}{}; <-end })
			require.NoError(t, k.Add(1, c.tick))
			return task{func() (Place, bool) { return k.Locate(1) }, func() error { return k.Add(1, c.tick) }, end}
		},
	} {
		for _, runs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, runs again: %v", name, runs), func(t *testing.T) {
				c := newCrowd(t)
				sought := prepare(c) // it is the first to run, and so the last to be looked at
				c.run(t, 2*batch, 1)
				left := c.seats() - 1
				pauses := 0
				c.pause = func() {
					if pauses++; pauses > 1 {
						return
					}
					require.NoError(t, sought.again())
					sought.end <- struct{}{}
					for c.seats() != left {
						runtime.Gosched()
					}
					if runs {
						c.run(t, 0, 1)
					}
				}
				p, ok := sought.locate()
				require.True(t, ok)
				require.Equal(t, runs, !p.Since.IsZero())
				require.Equal(t, c.start.Add(2*c.tick), p.Deadline)
				require.Positive(t, pauses)
				require.Empty(t, c.searches)
				c.pause = nil
				c.Stop()
				if runs {
					sought.end <- struct{}{}
				}
				for _, end := range c.end {
					close(end)
				}
				require.NoError(t, c.Shutdown(t.Context()))
			})
		}
	}
}

// The longest run is that of the callback that began first and has not returned.
func TestSnapshotKnowsTheLongestRun(t *testing.T) {
	c := newCrowd(t)
	var order []Task // in which they began; the zero Task has returned
	begin := func() {
		c.run(t, 1, 0)
		order = append(order, c.seated(batch))
	}
	check := func() {
		t.Helper()
		longest := time.Duration(0)
		if first := slices.IndexFunc(order, func(t Task) bool { return t != Task{} }); first >= 0 {
			longest = time.Duration(len(order)-1-first) * c.tick
		}
		require.Equal(t, longest, c.Snapshot().LongestRun, "of %v", order)
	}
	for range 5 {
		begin()
		check()
	}
	for _, n := range []int{4, 2, 0, 7, 1, 3, 5, 6, 9, 8} { // the last, from within, the first, ...
		c.dismiss(order[n])
		order[n] = Task{}
		check()
		if len(order) < 10 {
			begin()
			check()
		}
	}
	require.Nil(t, c.oldest)
	require.Nil(t, c.newest)
}

// What a viewer costs: Add and Cancel before anyone has looked, and after.
func BenchmarkAddCancelWatched(b *testing.B) {
	for _, watched := range []bool{false, true} {
		name := "unwatched"
		if watched {
			name = "watched"
		}
		b.Run(name, func(b *testing.B) {
			w, err := New(Options{Tick: time.Millisecond})
			require.NoError(b, err)
			fn := func() {}
			for i := range 1_000_000 {
				_, err = w.Add(10*time.Minute+time.Duration(i)*3*time.Millisecond, fn)
				require.NoError(b, err)
			}
			if watched {
				w.Snapshot()
			}
			var ring [1024]Task
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := i & 1023
				w.Cancel(ring[k])
				ring[k], _ = w.Add(15*time.Minute+time.Duration(k)*time.Second, fn)
			}
		})
	}
}

func BenchmarkSnapshot(b *testing.B) {
	w, err := New(Options{Tick: time.Millisecond})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		w.Snapshot()
	}
}
