package timingwheel_test

import (
	"context"
	"errors"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheeltest"
)

// The tests in this file are named for the rules of the package: what it promises
// about time, order, firing, cancelling, recurring tasks, stopping and testing.

// newWheel returns a wheel on a mock clock.
func newWheel(t testing.TB, opts timingwheel.Options) (*timingwheel.Wheel, *clock.Mock) {
	t.Helper()
	mock := clock.NewMock()
	opts.Clock = timingwheel.ClockOf(mock)
	w, err := timingwheel.New(opts)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w, mock
}

func add(t testing.TB, w *timingwheel.Wheel, d time.Duration, fn func()) timingwheel.Task {
	t.Helper()
	task, err := w.Add(d, fn)
	require.NoError(t, err)
	return task
}

// A recorder notes which callbacks ran, and when by the clock.
type recorder struct {
	mu    sync.Mutex
	now   func() time.Time
	names []string
	times []time.Duration // since the epoch of the mock clock
}

func (r *recorder) fn(name string) func() {
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.names = append(r.names, name)
		r.times = append(r.times, r.now().Sub(time.Unix(0, 0)))
	}
}

func (r *recorder) ran() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.names)
}

func nothing() {}

// A stepClock is a clock that only its owner moves, and that never calls a timer:
// what is due is found by Sync. So a jump is one step for the wheel, too.
type stepClock struct {
	now atomic.Int64 // nanoseconds since the epoch
	far *time.Time   // if set, the time, beyond what nanoseconds reach
}

type noTimer struct{}

func (noTimer) Stop() bool { return true }

func (c *stepClock) AfterFunc(time.Duration, func()) noTimer { return noTimer{} }
func (c *stepClock) Add(d time.Duration)                     { c.now.Add(int64(d)) }

func (c *stepClock) Now() time.Time {
	if c.far != nil {
		return *c.far
	}
	return time.Unix(0, c.now.Load())
}

func newStepWheel(t testing.TB, opts timingwheel.Options) (*timingwheel.Wheel, *stepClock) {
	t.Helper()
	c := new(stepClock)
	opts.Clock = timingwheel.ClockOf(c)
	w, err := timingwheel.New(opts)
	require.NoError(t, err)
	t.Cleanup(w.Stop) // a test may leave a schedule that is due again and again
	return w, c
}

var tickSizes = []time.Duration{time.Millisecond, 10 * time.Millisecond, 250 * time.Millisecond, time.Second}

func TestRule1DelaysAreRoundedUpToTicksCountedFromNew(t *testing.T) {
	for _, tick := range tickSizes {
		mock := clock.NewMock()
		mock.Set(time.Unix(1_000, 123_456_789)) // ticks do not begin with seconds of the clock
		start := mock.Now()
		w, err := timingwheel.New(timingwheel.Options{Tick: tick, Clock: timingwheel.ClockOf(mock)})
		require.NoError(t, err)
		for _, phase := range []time.Duration{0, 1, tick / 2, tick - 1} {
			mock.Set(start.Add(7*tick + phase))
			for _, d := range []time.Duration{1, tick - 1, tick, tick + 1, 59*tick + 3, 61 * tick, time.Hour, 90 * time.Hour} {
				due := (7*tick + phase + d + tick - 1) / tick
				at, ok := w.Deadline(add(t, w, d, nothing))
				require.True(t, ok)
				require.Equal(t, start.Add(due*tick), at, "tick %v, phase %v, delay %v", tick, phase, d)
			}
		}
	}
}

func TestRule2NeverEarlyNotByOneNanosecond(t *testing.T) {
	for _, tick := range tickSizes {
		for _, d := range []time.Duration{1, tick, 900 * time.Millisecond, 59 * time.Second, time.Minute, time.Hour, 25 * time.Hour} {
			w, mock := newWheel(t, timingwheel.Options{Tick: tick})
			mock.Add(tick / 3)
			var ran atomic.Bool
			task := add(t, w, d, func() { ran.Store(true) })
			at, ok := w.Deadline(task)
			require.True(t, ok)
			require.False(t, at.Before(mock.Now().Add(d)), "the deadline is before the delay has passed")
			mock.Set(at.Add(-1))
			w.Sync()
			require.False(t, ran.Load(), "tick %v, delay %v: early", tick, d)
			mock.Set(at)
			w.Sync()
			require.True(t, ran.Load(), "tick %v, delay %v: late", tick, d)
		}
	}
}

func TestRule3AtMostOneTickLate(t *testing.T) {
	for _, tick := range tickSizes {
		synctest.Test(t, func(t *testing.T) {
			w, err := timingwheel.New(timingwheel.Options{Tick: tick})
			require.NoError(t, err)
			for n := range 500 {
				d := time.Duration(n) * 37 * time.Millisecond
				want := time.Now().Add(d)
				add(t, w, d, func() {
					late := time.Since(want)
					assert.True(t, late >= 0 && late < tick, "delay %v: %v late", d, late)
				})
				time.Sleep(11 * time.Millisecond) // moves the bubble's clock
			}
			time.Sleep(time.Minute)
			assert.Zero(t, w.Len())
		})
	}
}

func TestRule4WhatIsDueAtOnceQueuesBehindWhatWasDueEarlier(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Concurrency: 1})
	r := &recorder{now: mock.Now}
	block := make(chan struct{})
	add(t, w, 0, func() { <-block })
	add(t, w, 2*time.Second, r.fn("due at 2s"))
	mock.Add(2500 * time.Millisecond)
	at, err := w.AddAt(time.Unix(0, 0), r.fn("in the past"))
	require.NoError(t, err)
	due, _ := w.Deadline(at)
	assert.Equal(t, 2*time.Second, due.Sub(time.Unix(0, 0)), "the tick that has begun")
	add(t, w, -time.Second, r.fn("negative"))
	add(t, w, math.MinInt64, r.fn("most negative"))
	add(t, w, 0, r.fn("zero"))
	assert.Empty(t, r.ran(), "nothing runs inside Add")
	close(block)
	w.Sync()
	assert.Equal(t, []string{"due at 2s", "in the past", "negative", "most negative", "zero"}, r.ran())
}

func TestRule4WhatIsDueAtOnceWaitsForNoAlarm(t *testing.T) {
	// This clock never calls, as one may that is late: Add must look by itself.
	w, c := newStepWheel(t, timingwheel.Options{Concurrency: 1})
	var got []string
	add(t, w, 2*time.Second, func() { got = append(got, "due at 2s") })
	c.Add(10 * time.Second)
	done := make(chan struct{})
	add(t, w, 0, func() { got = append(got, "at once"); close(done) })
	<-done
	assert.Equal(t, []string{"due at 2s", "at once"}, got)
}

func TestRule4AddAtATimeThatHasJustPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := timingwheel.New(timingwheel.Options{})
		require.NoError(t, err)
		time.Sleep(400 * time.Millisecond)
		for _, at := range []time.Time{time.Now(), time.Now().Round(0), time.Now().Add(-1), time.Now().Add(math.MinInt64)} {
			var ran atomic.Bool
			_, err = w.AddAt(at, func() { ran.Store(true) })
			require.NoError(t, err)
			synctest.Wait()
			require.True(t, ran.Load(), "at once, without waiting for a tick")
		}
	})
}

func TestRule5AnyDelayIsLegal(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Tick: 10 * time.Millisecond})
	r := &recorder{now: mock.Now}
	day := 24 * time.Hour
	far := []time.Duration{25 * time.Hour, 48 * time.Hour, 8*day + 3*time.Hour, 400 * day, 5 * 365 * day}
	for _, d := range far {
		add(t, w, d, r.fn(d.String()))
	}
	mock.Add(time.Second)
	var forever []timingwheel.Task
	for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - time.Second, math.MaxInt64 - 1} {
		forever = append(forever, add(t, w, d, r.fn("never")))
	}
	for _, d := range far {
		mock.Set(time.Unix(0, 0).Add(d - 1))
		w.Sync()
		require.NotContains(t, r.ran(), d.String())
		mock.Set(time.Unix(0, 0).Add(d))
		w.Sync()
		require.Contains(t, r.ran(), d.String())
	}
	mock.Set(time.Unix(0, 0).Add(math.MaxInt64))
	w.Sync()
	assert.NotContains(t, r.ran(), "never")
	for _, task := range forever {
		assert.True(t, w.Cancel(task))
	}
	assert.Zero(t, w.Len())
}

func TestRule6TheMonotonicReadingCounts(t *testing.T) {
	// A bubble's clock has monotonic readings. Stripping one from the argument of
	// AddAt leaves the wall clock, which agrees as long as nobody sets it.
	synctest.Test(t, func(t *testing.T) {
		w, err := timingwheel.New(timingwheel.Options{Tick: time.Millisecond})
		require.NoError(t, err)
		for _, at := range []time.Time{time.Now().Add(time.Hour), time.Now().Add(time.Hour).Round(0), time.Now().Add(time.Hour).UTC()} {
			task, err := w.AddAt(at, nothing)
			require.NoError(t, err)
			due, ok := w.Deadline(task)
			require.True(t, ok)
			assert.True(t, due.Equal(at), "%v, not %v", due, at)
		}
	})
}

func TestRule7AStepForwardFiresEverythingInOrderOnce(t *testing.T) {
	for _, step := range []time.Duration{7 * time.Second, time.Hour, 24 * time.Hour, 5 * 365 * 24 * time.Hour} {
		w, mock := newWheel(t, timingwheel.Options{Concurrency: 1})
		var got []int
		for n := range 200 {
			id := n * 7919 % 200
			add(t, w, step/200*time.Duration(id), func() { got = append(got, id) })
		}
		mock.Set(mock.Now().Add(step))
		w.Sync()
		require.Len(t, got, 200)
		tick := func(n int) int64 { return int64((step/200*time.Duration(n) + time.Second - 1) / time.Second) }
		require.True(t, slices.IsSortedFunc(got, func(a, b int) int { return int(tick(a) - tick(b)) }))
	}
}

func TestRule7AStepBackStandsStill(t *testing.T) {
	for _, back := range []time.Duration{1, time.Hour, 24 * time.Hour} {
		w, mock := newWheel(t, timingwheel.Options{})
		r := &recorder{now: mock.Now}
		mock.Add(2 * 24 * time.Hour)
		add(t, w, 5*time.Second, r.fn("before"))
		latest := w.Now()
		mock.Set(mock.Now().Add(-back))
		w.Sync()
		assert.Equal(t, latest, w.Now(), "the wheel's time stands still")
		at, _ := w.Deadline(add(t, w, 3*time.Second, r.fn("after")))
		assert.Equal(t, latest.Add(3*time.Second), at, "delays count from there")
		mock.Set(latest.Add(3*time.Second - 1))
		w.Sync()
		assert.Empty(t, r.ran())
		mock.Set(latest.Add(time.Minute))
		w.Sync()
		assert.Equal(t, []string{"after", "before"}, r.ran())
	}
}

func TestRule7AddAtWhileTheClockIsCenturiesBehind(t *testing.T) {
	for _, year := range []int{1, 1500, 1720, 1740, 1969} {
		w, c := newStepWheel(t, timingwheel.Options{})
		c.Add(time.Hour)
		w.Sync()
		at := c.Now().Add(24 * time.Hour)
		far := time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		c.far = &far
		task, err := w.AddAt(at, func() { t.Error("early") })
		require.NoError(t, err)
		w.Sync()
		due, ok := w.Deadline(task)
		require.True(t, ok)
		require.True(t, due.Equal(at), "%v, not %v", due, at)
	}
}

func TestAdvanceAfterTheClockWasSetBack(t *testing.T) {
	for _, back := range []time.Duration{1, time.Second, time.Minute, 1000 * time.Hour} {
		w, c := newStepWheel(t, timingwheel.Options{})
		var at time.Time
		add(t, w, time.Second, func() { at = c.Now() })
		c.Add(time.Second - 1)
		w.Sync()
		c.Add(-back)
		moves := 0
		wheeltest.Advance(w, func(d time.Duration) { moves++; c.Add(d) }, back+time.Minute)
		require.Equal(t, time.Unix(1, 0), at, "it sees its own instant")
		require.LessOrEqual(t, moves, 3)
		require.Zero(t, w.Behind())
	}
}

// A countingClock counts the timers that are armed on a mock clock.
type countingClock struct {
	*clock.Mock
	armed, started atomic.Int64
	shortest       atomic.Int64
}

type countedTimer struct {
	*clock.Timer
	c    *countingClock
	done *atomic.Bool
}

func (c *countingClock) AfterFunc(d time.Duration, f func()) countedTimer {
	c.started.Add(1)
	c.armed.Add(1)
	if s := c.shortest.Load(); s == 0 || int64(d) < s {
		c.shortest.Store(int64(d))
	}
	done := new(atomic.Bool)
	return countedTimer{c.Mock.AfterFunc(d, func() {
		if done.CompareAndSwap(false, true) {
			c.armed.Add(-1)
		}
		f()
	}), c, done}
}

func (t countedTimer) Stop() bool {
	if t.done.CompareAndSwap(false, true) {
		t.c.armed.Add(-1)
	}
	return t.Timer.Stop()
}

func TestRule8IdleCostsNothing(t *testing.T) {
	c := &countingClock{Mock: clock.NewMock()}
	w, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(c)})
	require.NoError(t, err)
	assert.Zero(t, c.armed.Load(), "nothing pending, nothing armed")

	far := add(t, w, time.Hour, nothing)
	assert.EqualValues(t, 1, c.armed.Load())
	c.Add(30 * time.Minute)
	w.Sync()
	assert.Zero(t, w.Stats().Wakeups, "no wake before the next occupied slot")

	add(t, w, 10*time.Second, nothing)
	assert.EqualValues(t, 1, c.armed.Load(), "an earlier task arms again, and one timer at a time")
	started := c.started.Load()
	add(t, w, 20*time.Second, nothing)
	assert.Equal(t, started, c.started.Load(), "a later one does not")

	c.Add(time.Minute)
	w.Sync()
	before := w.Stats().Wakeups
	started = c.started.Load()
	require.True(t, w.Cancel(far))
	assert.Equal(t, started, c.started.Load(), "a cancel touches no timer")
	wheeltest.Advance(w, c.Add, 48*time.Hour)
	assert.LessOrEqual(t, w.Stats().Wakeups, before+1, "one wake in vain at most")
	assert.Zero(t, c.armed.Load())
	assert.Positive(t, c.shortest.Load(), "no wait is asked for that is not positive")
}

func TestRule9TasksOfOneTickStartInTheOrderOfAdding(t *testing.T) {
	for _, tick := range []time.Duration{10 * time.Millisecond, time.Second} {
		w, mock := newWheel(t, timingwheel.Options{Tick: tick, Concurrency: 1})
		due := time.Unix(0, 0).Add(51*time.Hour + 23*time.Second)
		var want, got []int
		// From every distance: days, hours, minutes, seconds and the tick itself.
		for n, before := range []time.Duration{51 * time.Hour, 26 * time.Hour, 24 * time.Hour, 23*time.Hour + 59*time.Minute, 5 * time.Hour, time.Hour, 59 * time.Minute, 61 * time.Second, time.Minute, 59 * time.Second, time.Second, tick, 0} {
			mock.Set(due.Add(-before))
			if n%2 == 0 {
				w.Sync() // else the wheel's hand has not come so far
			}
			for k := range 3 {
				id := n*3 + k
				want = append(want, id)
				_, err := w.AddAt(due, func() { got = append(got, id) })
				require.NoError(t, err)
			}
		}
		mock.Set(due)
		w.Sync()
		assert.Equal(t, want, got)
	}
}

func TestRule10ASlowCallbackDelaysNothingButItsPlace(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Concurrency: 2})
	r := &recorder{now: mock.Now}
	block := make(chan struct{})
	running := make(chan struct{}, 2)
	for range 2 {
		add(t, w, time.Second, func() { running <- struct{}{}; <-block })
	}
	mock.Add(time.Second)
	<-running
	<-running
	late := add(t, w, time.Second, r.fn("cancelled while due"))
	add(t, w, time.Second, r.fn("waits for a place"))
	mock.Add(time.Second)
	for w.Stats().Due < 2 {
		runtime.Gosched() // the hands go on by themselves
	}
	assert.Equal(t, 2, w.Stats().Running)
	assert.True(t, w.Cancel(late), "a task that is due can still be cancelled")
	add(t, w, time.Hour, nothing)
	assert.Empty(t, r.ran())
	close(block)
	w.Sync()
	assert.Equal(t, []string{"waits for a place"}, r.ran())
	assert.Equal(t, 1, w.Len())
}

func TestRule10EveryMethodMayBeCalledFromACallback(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{})
	k := timingwheel.NewKeyed(w, func(string) {})
	other := add(t, w, time.Hour, nothing)
	var ran bool
	add(t, w, time.Second, func() {
		ran = true
		task, err := w.Add(time.Hour, nothing)
		assert.NoError(t, err)
		_, err = w.AddAt(w.Now().Add(time.Hour), nothing)
		assert.NoError(t, err)
		_, err = w.AddEvery(time.Hour, nothing)
		assert.NoError(t, err)
		assert.True(t, w.Reset(task, time.Minute))
		_, ok := w.Deadline(task)
		assert.True(t, ok)
		assert.True(t, w.Cancel(task))
		assert.True(t, w.Cancel(other))
		assert.NoError(t, k.Add("a", time.Hour))
		assert.True(t, k.Reset("a", time.Minute))
		assert.True(t, k.Cancel("a"))
		for task := range w.Pending() {
			w.Cancel(task)
		}
		_, ok = w.Next()
		assert.False(t, ok)
		assert.Zero(t, w.Len())
		assert.Equal(t, 1, w.Stats().Running)
		w.Stop()
	})
	mock.Add(time.Second)
	w.Sync()
	assert.True(t, ran)
}

func TestRule11APanicOrGoexitEndsThatCallbackOnly(t *testing.T) {
	var values []any
	var stacks []string
	w, mock := newWheel(t, timingwheel.Options{Concurrency: 1, OnPanic: func(value any, stack []byte) {
		values = append(values, value)
		stacks = append(stacks, string(stack))
	}})
	r := &recorder{now: mock.Now}
	add(t, w, time.Second, func() { panic("first") })
	add(t, w, time.Second, r.fn("after a panic"))
	add(t, w, time.Second, runtime.Goexit)
	add(t, w, time.Second, r.fn("after Goexit"))
	add(t, w, time.Second, func() { panicHere() })
	add(t, w, time.Second, r.fn("after the last"))
	mock.Add(time.Second)
	w.Sync()
	assert.Equal(t, []string{"after a panic", "after Goexit", "after the last"}, r.ran())
	assert.Equal(t, []any{"first", "second"}, values)
	assert.Contains(t, stacks[1], "panicHere", "the stack is that of the panic")
	s := w.Stats()
	assert.EqualValues(t, 2, s.Panicked)
	assert.EqualValues(t, 6, s.Fired)
	assert.Zero(t, s.Running)
}

func panicHere() { panic("second") }

func TestRule11APanicInOnPanicIsRecovered(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Concurrency: 1, OnPanic: func(any, []byte) { panic("again") }})
	r := &recorder{now: mock.Now}
	add(t, w, time.Second, func() { panic("first") })
	add(t, w, time.Second, r.fn("next"))
	mock.Add(time.Second)
	w.Sync()
	assert.Equal(t, []string{"next"}, r.ran())
	assert.EqualValues(t, 1, w.Stats().Panicked)
}

func TestRule12EachTaskEndsInExactlyOneWay(t *testing.T) {
	for _, concurrency := range []int{1, 2, 256} {
		w, err := timingwheel.New(timingwheel.Options{Tick: time.Millisecond, Concurrency: concurrency})
		require.NoError(t, err)
		const n = 20_000
		var ran, cancelled [n]atomic.Int32
		tasks := make(chan [2]any, 1_000)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for pair := range tasks {
					if w.Cancel(pair[1].(timingwheel.Task)) {
						cancelled[pair[0].(int)].Add(1)
					}
				}
			})
		}
		for i := range n {
			task, err := w.Add(time.Duration(i%3)*time.Millisecond, func() { ran[i].Add(1) })
			require.NoError(t, err)
			tasks <- [2]any{i, task}
			tasks <- [2]any{i, task}
		}
		close(tasks)
		all.Wait()
		for w.Len() > 0 {
			runtime.Gosched()
		}
		require.NoError(t, w.Shutdown(t.Context()))
		for i := range n {
			require.EqualValues(t, 1, ran[i].Load()+cancelled[i].Load(), "task %d", i)
		}
		s := w.Stats()
		assert.Equal(t, s.Added, s.Fired+s.Canceled)
	}
}

func TestRule13CancelFreesTheCallbackAtOnce(t *testing.T) {
	w, _ := newWheel(t, timingwheel.Options{})
	const n = 1_000
	var freed atomic.Int32
	tasks := make([]timingwheel.Task, n)
	for i := range tasks {
		order := new([64]byte)
		runtime.AddCleanup(order, func(int) { freed.Add(1) }, i)
		tasks[i] = add(t, w, time.Hour, func() { order[0]++ })
	}
	for _, task := range tasks {
		require.True(t, w.Cancel(task))
		require.False(t, w.Cancel(task))
	}
	for range 100 {
		if runtime.GC(); freed.Load() == n {
			break
		}
	}
	assert.EqualValues(t, n, freed.Load())
	assert.Zero(t, w.Len())
	for _, l := range w.Stats().Levels {
		assert.Zero(t, l.Tasks)
		assert.Zero(t, l.Occupied)
	}
}

func TestRule14AStaleTaskRefersToNothing(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{})
	other, _ := newWheel(t, timingwheel.Options{})
	var stale []timingwheel.Task
	fired := add(t, w, time.Second, nothing)
	mock.Add(time.Second)
	w.Sync()
	stale = append(stale, fired, timingwheel.Task{})
	cancelled := add(t, w, time.Second, nothing)
	require.True(t, w.Cancel(cancelled))
	foreign := add(t, other, time.Second, nothing)
	stale = append(stale, cancelled, foreign)
	for range 1_000 {
		task := add(t, w, time.Hour, nothing)
		for _, s := range stale {
			require.NotEqual(t, s, task)
			require.False(t, w.Cancel(s))
			require.False(t, w.Reset(s, time.Minute))
			_, ok := w.Deadline(s)
			require.False(t, ok)
		}
		require.True(t, w.Cancel(task))
	}
	assert.Equal(t, 1, other.Len())
	assert.True(t, other.Cancel(foreign))
}

func TestRule15ResetMovesAPendingTask(t *testing.T) {
	for _, from := range []time.Duration{time.Second, 30 * time.Second, 30 * time.Minute, 30 * time.Hour} {
		for _, to := range []time.Duration{-1, 0, 1, time.Second, 2 * time.Second, 59 * time.Second, time.Hour, 49 * time.Hour} {
			w, mock := newWheel(t, timingwheel.Options{})
			mock.Add(17 * time.Second)
			n := 0
			var at time.Time
			task := add(t, w, from, func() { n++; at = mock.Now() })
			mock.Add(500 * time.Millisecond)
			require.True(t, w.Reset(task, to))
			due := 17*time.Second + (500*time.Millisecond + to + time.Second - 1).Truncate(time.Second)
			if to <= 0 {
				due = 17 * time.Second
			}
			deadline, ok := w.Deadline(task)
			if to > 0 {
				require.True(t, ok)
				require.Equal(t, due, deadline.Sub(time.Unix(0, 0)))
			}
			wheeltest.Advance(w, mock.Add, 50*time.Hour)
			require.Equal(t, 1, n, "from %v to %v", from, to)
			require.Equal(t, max(due, 17*time.Second+500*time.Millisecond), at.Sub(time.Unix(0, 0)))
			require.False(t, w.Reset(task, time.Second), "it has run")
		}
	}
}

func TestRule15ResetTakesBackATaskThatIsDue(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Concurrency: 1})
	block := make(chan struct{})
	r := &recorder{now: mock.Now}
	var running timingwheel.Task
	started := make(chan struct{})
	running = add(t, w, time.Second, func() { close(started); <-block })
	due := add(t, w, time.Second, r.fn("due"))
	mock.Add(time.Second)
	<-started
	assert.False(t, w.Reset(running, time.Second), "it is running")
	for w.Stats().Due != 1 {
		runtime.Gosched()
	}
	assert.True(t, w.Reset(due, time.Minute))
	close(block)
	w.Sync()
	assert.Empty(t, r.ran())
	mock.Add(time.Minute)
	w.Sync()
	assert.Equal(t, []string{"due"}, r.ran())
	w.Stop()
	assert.False(t, w.Reset(due, time.Minute))
}

func TestRule16EveryRunIsOnTheGrid(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Tick: 100 * time.Millisecond})
	mock.Add(30 * time.Millisecond)
	period := 330 * time.Millisecond // not a multiple of the tick
	var got []time.Duration
	_, err := w.AddEvery(period, func() { got = append(got, mock.Now().Sub(time.Unix(0, 0))) })
	require.NoError(t, err)
	wheeltest.Advance(w, mock.Add, 1_000*period+100*time.Millisecond)
	require.Len(t, got, 1_000)
	for k, at := range got {
		due := 30*time.Millisecond + time.Duration(k+1)*period
		due = (due + 99*time.Millisecond).Truncate(100 * time.Millisecond)
		require.Equal(t, due, at, "run %d", k+1)
	}
}

func TestRule16PeriodsThatPassedAreMergedAndCounted(t *testing.T) {
	w, c := newStepWheel(t, timingwheel.Options{})
	runs := 0
	task, err := w.AddEvery(5*time.Second, func() { runs++ })
	require.NoError(t, err)
	c.Add(time.Hour + 2*time.Second)
	w.Sync()
	assert.Equal(t, 1, runs, "720 periods in one run")
	assert.EqualValues(t, 719, w.Stats().Skipped)
	due, ok := w.Deadline(task)
	require.True(t, ok)
	assert.Equal(t, time.Hour+5*time.Second, due.Sub(time.Unix(0, 0)), "back on the grid")
	require.True(t, w.Cancel(task))

	// A callback that lasts several periods.
	var began []time.Duration
	start := c.Now()
	_, err = w.AddEvery(10*time.Second, func() {
		if began = append(began, c.Now().Sub(start)); len(began) == 1 {
			c.Add(34 * time.Second)
		}
	})
	require.NoError(t, err)
	wheeltest.Advance(w, c.Add, 20*time.Second)
	assert.Equal(t, []time.Duration{10 * time.Second, 44 * time.Second, 50 * time.Second}, began,
		"those of 20, 30 and 40 seconds are one run")
	assert.EqualValues(t, 719+2, w.Stats().Skipped)
}

func TestRule16ARecurringTaskCountsWhileItRuns(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{MaxPending: 1})
	var task timingwheel.Task
	checked := 0
	task, err := w.AddEvery(time.Second, func() {
		checked++
		assert.Equal(t, 1, w.Len())
		_, err := w.Add(time.Second, nothing)
		assert.ErrorIs(t, err, timingwheel.ErrFull)
		assert.False(t, w.Reset(task, time.Minute), "it is running")
		if checked == 2 {
			w.Stop()
		}
	})
	require.NoError(t, err)
	wheeltest.Advance(w, mock.Add, 2*time.Second)
	assert.Equal(t, 2, checked)
	pending := maps.Collect(w.Pending())
	assert.Equal(t, map[timingwheel.Task]time.Time{task: time.Unix(3, 0)}, pending, "its next run is listed after Stop")

	_, err = w.AddEvery(time.Second-1, nothing)
	assert.ErrorIs(t, err, timingwheel.ErrPeriod)
	assert.EqualError(t, err, "timingwheel: AddEvery: period 999.999999ms is less than a tick of 1s")
}

type schedule func(time.Time) time.Time

func (s schedule) Next(t time.Time) time.Time { return s(t) }

func TestRule17AScheduleIsAskedAfterEachRun(t *testing.T) {
	w, mock := newStepWheel(t, timingwheel.Options{})
	var asked []time.Duration
	var ran []time.Duration
	hours := schedule(func(at time.Time) time.Time {
		asked = append(asked, at.Sub(time.Unix(0, 0)))
		if next := at.Truncate(time.Hour).Add(time.Hour); next.Before(time.Unix(0, 0).Add(5 * time.Hour)) {
			return next
		}
		return time.Time{}
	})
	mock.Add(20 * time.Minute)
	task, err := w.AddSchedule(hours, func() {
		ran = append(ran, mock.Now().Sub(time.Unix(0, 0)))
		if len(ran) == 2 {
			mock.Add(90 * time.Minute) // 3:00 passes while this run lasts
		}
	})
	require.NoError(t, err)
	wheeltest.Advance(w, mock.Add, 10*time.Hour)
	assert.Equal(t, []time.Duration{time.Hour, 2 * time.Hour, 4 * time.Hour}, ran)
	assert.Equal(t, []time.Duration{20 * time.Minute, time.Hour, 3*time.Hour + 30*time.Minute, 4 * time.Hour}, asked)
	assert.Zero(t, w.Len(), "the schedule has ended")
	assert.False(t, w.Cancel(task))

	for name, s := range map[string]schedule{
		"zero":      func(time.Time) time.Time { return time.Time{} },
		"not later": func(at time.Time) time.Time { return at },
		"earlier":   func(at time.Time) time.Time { return at.Add(-1) },
	} {
		_, err = w.AddSchedule(s, nothing)
		assert.ErrorIs(t, err, timingwheel.ErrPeriod, name)
	}
}

func TestRule17APanicInNextIsReportedAndEndsTheTask(t *testing.T) {
	var values []any
	w, mock := newWheel(t, timingwheel.Options{Concurrency: 1, OnPanic: func(v any, _ []byte) { values = append(values, v) }})
	first := true
	_, err := w.AddSchedule(schedule(func(at time.Time) time.Time {
		if first {
			first = false
			return at.Add(time.Second)
		}
		panic("no idea")
	}), nothing)
	require.NoError(t, err)
	r := &recorder{now: mock.Now}
	add(t, w, time.Second, r.fn("other"))
	mock.Add(time.Second)
	w.Sync()
	assert.Equal(t, []any{"no idea"}, values)
	assert.Equal(t, []string{"other"}, r.ran())
	assert.Zero(t, w.Len())
}

func TestRule17TheFirstTimeCountsHoweverLongItTookToNameIt(t *testing.T) {
	for _, lasts := range []time.Duration{0, time.Microsecond, 3 * time.Second, 10 * time.Second} {
		w, c := newStepWheel(t, timingwheel.Options{})
		task, err := w.AddSchedule(schedule(func(at time.Time) time.Time {
			c.Add(lasts)
			w.Now() // somebody looks at the clock meanwhile
			return at.Add(5 * time.Second)
		}), nothing)
		require.NoError(t, err)
		due, ok := w.Deadline(task)
		if lasts < 5*time.Second {
			require.True(t, ok)
			require.Equal(t, 5*time.Second, due.Sub(time.Unix(0, 0)), "after %v", lasts)
		}
		wheeltest.Advance(w, c.Add, 5*time.Second)
		require.Positive(t, w.Stats().Fired)
	}
}

func TestRule18CancelEndsASeries(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{})
	runs := 0
	var inside timingwheel.Task
	inside, err := w.AddEvery(time.Second, func() {
		if runs++; runs == 3 {
			assert.True(t, w.Cancel(inside))
			assert.False(t, w.Cancel(inside))
			assert.Zero(t, w.Len())
		}
	})
	require.NoError(t, err)
	wheeltest.Advance(w, mock.Add, time.Minute)
	assert.Equal(t, 3, runs)

	started, block := make(chan struct{}), make(chan struct{})
	outside, err := w.AddEvery(time.Second, func() { started <- struct{}{}; <-block })
	require.NoError(t, err)
	mock.Add(time.Second)
	<-started
	assert.True(t, w.Cancel(outside), "from outside, while it runs")
	close(block)
	wheeltest.Advance(w, mock.Add, time.Minute)
	assert.EqualValues(t, 4, w.Stats().Fired)
	assert.Zero(t, w.Len())
}

func TestRule19StopKeepsWhatHasNotStarted(t *testing.T) {
	c := &countingClock{Mock: clock.NewMock()}
	w, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(c), Concurrency: 1})
	require.NoError(t, err)
	keyed := timingwheel.NewKeyed(w, func(string) { t.Error("it ran after Stop") })
	require.NoError(t, keyed.Add("a", time.Hour))
	want := map[timingwheel.Task]time.Time{}
	for task, due := range w.Pending() {
		want[task] = due
	}
	started, block := make(chan struct{}), make(chan struct{})
	add(t, w, time.Second, func() { close(started); <-block })
	for _, d := range []time.Duration{time.Second, time.Minute, 30 * time.Hour} {
		task := add(t, w, d, func() { t.Error("it ran after Stop") })
		want[task], _ = w.Deadline(task)
	}
	c.Add(time.Second)
	<-started
	w.Stop()
	w.Stop()
	close(block)
	w.Sync()
	assert.Zero(t, c.armed.Load(), "the timer is disarmed")
	c.Add(100 * time.Hour)
	w.Sync()
	assert.Equal(t, want, maps.Collect(w.Pending()))
	assert.Equal(t, len(want), w.Len())
	assert.Equal(t, map[string]time.Time{"a": time.Unix(3_600, 0)}, maps.Collect(keyed.Pending()))
	_, ok := w.Next()
	assert.False(t, ok, "no work is left")
	_, err = w.Add(0, nothing)
	assert.ErrorIs(t, err, timingwheel.ErrStopped)
	assert.ErrorIs(t, keyed.Add("a", time.Minute), timingwheel.ErrStopped)
	assert.Equal(t, 1, keyed.Len(), "the old one stays listed")
	for task := range w.Pending() {
		assert.True(t, w.Cancel(task))
	}
	assert.Zero(t, keyed.Len())
}

func TestRule19AddRacingStopIsRefusedOrListed(t *testing.T) {
	for range 300 {
		w, _ := newWheel(t, timingwheel.Options{})
		var added, refused atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 20 {
					switch _, err := w.Add(time.Hour, nothing); {
					case err == nil:
						added.Add(1)
					case errors.Is(err, timingwheel.ErrStopped):
						refused.Add(1)
					}
				}
			})
		}
		all.Go(w.Stop)
		all.Wait()
		require.EqualValues(t, 80, added.Load()+refused.Load())
		require.EqualValues(t, added.Load(), len(maps.Collect(w.Pending())))
	}
}

func TestRule19AWheelThatIsDroppedIsCollected(t *testing.T) {
	var freed atomic.Bool
	func() {
		w, err := timingwheel.New(timingwheel.Options{})
		require.NoError(t, err)
		runtime.AddCleanup(w, func(int) { freed.Store(true) }, 0)
		add(t, w, time.Hour, nothing)
		w.Stop()
	}()
	for range 100 {
		if runtime.GC(); freed.Load() {
			break
		}
	}
	assert.True(t, freed.Load())
}

func TestRule20ShutdownWaitsForRunningCallbacks(t *testing.T) {
	idle, _ := newWheel(t, timingwheel.Options{})
	require.NoError(t, idle.Shutdown(t.Context()), "nothing runs")

	w, mock := newWheel(t, timingwheel.Options{Concurrency: 1})
	started, block := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	add(t, w, time.Second, func() { close(started); <-block; ended.Store(true) })
	add(t, w, time.Second, func() { t.Error("it ran after Shutdown") })
	mock.Add(time.Second)
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, w.Shutdown(ctx), context.Canceled)
	go close(block)
	assert.NoError(t, w.Shutdown(t.Context()))
	assert.True(t, ended.Load())
	assert.Equal(t, 1, w.Len())
}

func TestRule21SyncIncludesWhatCallbacksMakeDue(t *testing.T) {
	for _, concurrency := range []int{1, 2, 256} {
		w, mock := newWheel(t, timingwheel.Options{Concurrency: concurrency})
		var ran atomic.Int64
		for range 100 {
			add(t, w, 15*time.Minute, func() {
				ran.Add(1)
				_, _ = w.Add(0, func() {
					ran.Add(1)
					_, _ = w.AddAt(time.Unix(0, 0), func() { ran.Add(1) })
				})
			})
		}
		mock.Add(15 * time.Minute)
		w.Sync()
		require.EqualValues(t, 300, ran.Load())
	}
}

func TestRule21SyncDoesNotWaitForWhatIsNotDue(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Concurrency: 1})
	block, started := make(chan struct{}), make(chan struct{})
	add(t, w, time.Second, func() { close(started); <-block })
	stuck := add(t, w, time.Second, nothing)
	mock.Add(time.Second)
	<-started
	done := make(chan struct{})
	go func() {
		w.Sync()
		close(done)
	}()
	assert.True(t, w.Cancel(stuck))
	close(block)
	<-done
	w.Stop()
	w.Sync()
}

func TestRule22TheWheelWorksInABubble(t *testing.T) {
	t.Run("default clock, never stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, err := timingwheel.New(timingwheel.Options{})
			require.NoError(t, err)
			var ran atomic.Bool
			add(t, w, 15*time.Minute, func() { ran.Store(true) })
			add(t, w, 48*time.Hour, nothing)
			time.Sleep(15*time.Minute - 1)
			synctest.Wait()
			assert.False(t, ran.Load())
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			assert.True(t, ran.Load())
			assert.Equal(t, 1, w.Len())
		})
	})
	t.Run("mock", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, mock := newWheel(t, timingwheel.Options{})
			ran := false
			add(t, w, 15*time.Minute, func() { ran = true })
			mock.Add(15 * time.Minute)
			w.Sync()
			assert.True(t, ran)
		})
	})
}

func TestAdvanceShowsEachCallbackItsInstant(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Tick: 100 * time.Millisecond})
	r := &recorder{now: mock.Now}
	add(t, w, 1500*time.Millisecond, r.fn("a"))
	add(t, w, 25*time.Hour, r.fn("b"))
	add(t, w, time.Hour, func() {
		r.fn("c")()
		_, _ = w.Add(time.Minute, r.fn("d"))
		_, _ = w.Add(0, r.fn("e"))
	})
	wheeltest.Advance(w, mock.Add, 24*time.Hour)
	assert.Equal(t, []string{"a", "c", "e", "d"}, r.ran())
	wheeltest.Advance(w, mock.Add, time.Hour)
	assert.Equal(t, []time.Duration{1500 * time.Millisecond, time.Hour, time.Hour, time.Hour + time.Minute, 25 * time.Hour}, r.times)
	assert.Equal(t, time.Unix(0, 0).Add(25*time.Hour), mock.Now(), "it moved by exactly what was asked")
	w.Stop()
	wheeltest.Advance(w, mock.Add, time.Hour)
	assert.Equal(t, time.Unix(0, 0).Add(26*time.Hour), mock.Now(), "also on a stopped wheel")
}

func TestKeyedHoldsOneTaskPerKey(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{MaxPending: 2, Concurrency: 1})
	var expired []string
	var k *timingwheel.Keyed[string]
	k = timingwheel.NewKeyed(w, func(key string) {
		expired = append(expired, key)
		_, pending := k.Deadline(key)
		assert.False(t, pending, "while its callback runs a key is not pending")
	})
	require.NoError(t, k.Add("a", time.Minute))
	require.NoError(t, k.Add("b", time.Minute))
	assert.ErrorIs(t, k.Add("c", time.Minute), timingwheel.ErrFull)
	assert.NoError(t, k.Add("a", 2*time.Minute), "a pending key is replaced also on a full wheel")
	fresh, err := k.AddNew("a", time.Hour)
	assert.NoError(t, err)
	assert.False(t, fresh)
	assert.Equal(t, map[string]time.Time{"a": time.Unix(120, 0), "b": time.Unix(60, 0)}, maps.Collect(k.Pending()))
	assert.Len(t, maps.Collect(w.Pending()), 2)

	mock.Add(time.Minute)
	w.Sync()
	assert.Equal(t, []string{"b"}, expired)
	assert.True(t, k.Reset("a", 5*time.Minute))
	assert.False(t, k.Reset("b", time.Minute))
	at, ok := k.Deadline("a")
	assert.True(t, ok)
	assert.Equal(t, time.Unix(360, 0), at)
	assert.True(t, k.Cancel("a"))
	assert.False(t, k.Cancel("a"))
	assert.Zero(t, k.Len())
	assert.Zero(t, w.Len())
}

func TestKeyedFollowsTheWheel(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{})
	var mu sync.Mutex
	expired := map[int]time.Time{}
	k := timingwheel.NewKeyed(w, func(key int) {
		mu.Lock()
		defer mu.Unlock()
		expired[key] = mock.Now()
	})
	for n := range 1_000 {
		require.NoError(t, k.Add(n, time.Hour))
	}
	n := 0
	for task := range w.Pending() {
		switch n++; {
		case n <= 500:
			require.True(t, w.Cancel(task))
			require.Equal(t, 1_000-n, k.Len())
		case n <= 600:
			require.True(t, w.Reset(task, time.Minute))
		}
	}
	mock.Add(time.Minute)
	w.Sync()
	assert.Len(t, expired, 100)
	assert.Equal(t, 400, k.Len())
	wheeltest.Advance(w, mock.Add, time.Hour)
	assert.Len(t, expired, 500)
	assert.Zero(t, k.Len())
	assert.Zero(t, w.Len())
}

func TestKeyedReplacingIsOneAtomicStep(t *testing.T) {
	w, err := timingwheel.New(timingwheel.Options{Tick: time.Millisecond})
	require.NoError(t, err)
	defer w.Stop()
	k := timingwheel.NewKeyed(w, func(string) {})
	require.NoError(t, k.Add("a", time.Hour))
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for n := range 20_000 {
			assert.NoError(t, k.Add("a", time.Hour+time.Duration(n)*time.Millisecond))
		}
		close(stop)
	})
	for done := false; !done; {
		select {
		case <-stop:
			done = true
		default:
		}
		_, pending := k.Deadline("a")
		require.True(t, pending)
		require.Equal(t, 1, w.Len())
	}
	all.Wait()
}

func TestBadInputIsNamedAndChangesNothing(t *testing.T) {
	for text, opts := range map[string]timingwheel.Options{
		"timingwheel: Options.Tick 7ms does not divide one second":     {Tick: 7 * time.Millisecond},
		"timingwheel: Options.Tick 999µs is not from 1ms to 1s":        {Tick: 999 * time.Microsecond},
		"timingwheel: Options.Tick -1s is not from 1ms to 1s":          {Tick: -time.Second},
		"timingwheel: Options.Tick 2s is not from 1ms to 1s":           {Tick: 2 * time.Second},
		"timingwheel: Options.Concurrency -1 is negative":              {Concurrency: -1},
		"timingwheel: Options.MaxPending -5 is negative":               {MaxPending: -5},
		"timingwheel: Options.Clock is ClockOf(nil), it needs a clock": {Clock: timingwheel.ClockOf[*clock.Timer](nil)},
	} {
		w, err := timingwheel.New(opts)
		assert.Nil(t, w)
		assert.EqualError(t, err, strings.TrimSpace(text))
		assert.ErrorIs(t, err, timingwheel.ErrOptions)
	}

	w, _ := newWheel(t, timingwheel.Options{MaxPending: 1})
	_, err := w.Add(time.Second, nil)
	assert.EqualError(t, err, "timingwheel: Add: fn is nil")
	assert.ErrorIs(t, err, timingwheel.ErrNilFunc)
	_, err = w.AddAt(time.Now(), nil)
	assert.ErrorIs(t, err, timingwheel.ErrNilFunc)
	_, err = w.AddEvery(time.Second, nil)
	assert.ErrorIs(t, err, timingwheel.ErrNilFunc)
	_, err = w.AddSchedule(schedule(func(at time.Time) time.Time { return at.Add(1) }), nil)
	assert.ErrorIs(t, err, timingwheel.ErrNilFunc)
	_, err = w.AddSchedule(nil, nothing)
	assert.ErrorIs(t, err, timingwheel.ErrPeriod)
	assert.ErrorIs(t, timingwheel.NewKeyed[string](w, nil).Add("a", 0), timingwheel.ErrNilFunc)
	assert.ErrorIs(t, timingwheel.NewKeyed(nil, func(string) {}).Add("a", 0), timingwheel.ErrStopped)
	assert.ErrorContains(t, timingwheel.NewKeyed(w, func(float64) {}).Add(math.NaN(), 0), "key NaN does not equal itself")
	assert.Zero(t, w.Len())
	add(t, w, time.Hour, nothing)
	_, err = w.Add(time.Hour, nothing)
	assert.EqualError(t, err, "timingwheel: Add: 1 tasks are pending, Options.MaxPending is 1")
	assert.ErrorIs(t, err, timingwheel.ErrFull)
	assert.EqualValues(t, 8, w.Stats().Rejected)
	assert.EqualValues(t, 1, w.Stats().Added)
}

func TestAKeyThatNoMapTakesIsRefused(t *testing.T) {
	w, _ := newWheel(t, timingwheel.Options{})
	type loose struct{ a [2]any }
	bad := loose{[2]any{1, []int{1}}}
	k := timingwheel.NewKeyed(w, func(loose) {})
	assert.ErrorIs(t, k.Add(bad, time.Hour), timingwheel.ErrOptions)
	assert.ErrorContains(t, k.Add(bad, time.Hour), "cannot be compared")
	_, err := k.AddNew(bad, time.Hour)
	assert.ErrorIs(t, err, timingwheel.ErrOptions)
	assert.False(t, k.Cancel(bad))
	assert.False(t, k.Reset(bad, time.Hour))
	_, ok := k.Deadline(bad)
	assert.False(t, ok)
	_, ok = k.Locate(bad)
	assert.False(t, ok)
	assert.Zero(t, w.Len())
	assert.NoError(t, k.Add(loose{[2]any{1, "fine"}}, time.Hour))
	assert.True(t, k.Cancel(loose{[2]any{1, "fine"}}))
}

func TestAddingCancellingAndMovingAllocateNothing(t *testing.T) {
	w, c := newWheel(t, timingwheel.Options{})
	k := timingwheel.NewKeyed(w, func(string) {})
	other, err := w.Add(time.Hour, nothing)
	require.NoError(t, err)
	require.NoError(t, k.Add("other", time.Hour))
	at := c.Now().Add(time.Minute)
	for name, act := range map[string]func() bool{
		"Add": func() bool {
			task, err := w.Add(time.Minute, nothing)
			return err == nil && w.Cancel(task)
		},
		"AddAt": func() bool {
			task, err := w.AddAt(at, nothing)
			return err == nil && w.Cancel(task)
		},
		"Reset":        func() bool { return w.Reset(other, time.Hour) && w.Reset(other, 2*time.Minute) },
		"Keyed.Add":    func() bool { return k.Add("key", time.Minute) == nil && k.Cancel("key") },
		"Keyed.AddNew": func() bool { added, err := k.AddNew("key", time.Minute); return added && err == nil && k.Cancel("key") },
		"replacing":    func() bool { return k.Add("other", time.Minute) == nil && k.Add("other", time.Hour) == nil },
		"Keyed.Reset":  func() bool { return k.Reset("other", time.Hour) && k.Reset("other", 2*time.Minute) },
		"looking": func() bool {
			_, one := w.Deadline(other)
			_, two := k.Deadline("other")
			_, three := w.Next()
			return one && two && three && w.Len() == 2 && k.Len() == 1
		},
	} {
		require.True(t, act(), name)
		assert.Zero(t, testing.AllocsPerRun(100, func() { act() }), name)
	}
}

// reachable returns the bytes that are reachable.
func reachable() int64 {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestAnIdleWheelIsSmallerThan16KiB(t *testing.T) {
	const n = 50
	for _, tick := range []time.Duration{time.Millisecond, 10 * time.Millisecond, time.Second} {
		for name, use := range map[string]func(*timingwheel.Wheel, *timingwheel.Keyed[int]) error{
			"new": func(*timingwheel.Wheel, *timingwheel.Keyed[int]) error { return nil },
			"Add": func(w *timingwheel.Wheel, _ *timingwheel.Keyed[int]) error {
				task, err := w.Add(time.Hour, nothing)
				w.Cancel(task)
				return err
			},
			"AddEvery": func(w *timingwheel.Wheel, _ *timingwheel.Keyed[int]) error {
				task, err := w.AddEvery(time.Hour, nothing)
				w.Cancel(task)
				return err
			},
			"a burst of keys": func(_ *timingwheel.Wheel, k *timingwheel.Keyed[int]) error {
				for i := range 2_000 {
					if err := k.Add(i, time.Hour); err != nil {
						return err
					}
				}
				for i := range 2_000 {
					k.Cancel(i)
				}
				return nil
			},
		} {
			var wheels [n]*timingwheel.Wheel
			var keyed [n]*timingwheel.Keyed[int]
			before := reachable()
			for i := range wheels {
				w, err := timingwheel.New(timingwheel.Options{Tick: tick})
				require.NoError(t, err)
				wheels[i], keyed[i] = w, timingwheel.NewKeyed(w, func(int) {})
				require.NoError(t, use(w, keyed[i]))
			}
			assert.Less(t, (reachable()-before)/n, int64(16<<10), "bytes of a wheel with a tick of %v after %s", tick, name)
			runtime.KeepAlive(keyed)
			for _, w := range wheels {
				w.Stop()
			}
		}
	}
}

func TestMemoryGoesBackAfterABurstThoughOneKeyIsLeft(t *testing.T) {
	w, _ := newWheel(t, timingwheel.Options{})
	k := timingwheel.NewKeyed(w, func(int) {})
	const n = 200_000
	before := reachable()
	for i := range n {
		require.NoError(t, k.Add(i, time.Hour))
	}
	full := reachable() - before
	for i := range n - 1 {
		require.True(t, k.Cancel(i))
	}
	assert.Less(t, reachable()-before, full/50, "of %d bytes", full)
	_, pending := k.Deadline(n - 1)
	assert.True(t, pending)
	runtime.KeepAlive(k)
}

func TestStatsDescribeTheWheel(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Tick: 500 * time.Millisecond})
	for _, d := range []time.Duration{500 * time.Millisecond, 30 * time.Second, 15 * time.Minute, 15 * time.Minute, 5 * time.Hour, 50 * time.Hour} {
		add(t, w, d, nothing)
	}
	s := w.Stats()
	assert.Equal(t, []timingwheel.LevelStats{
		{Name: "ticks", Slots: 2, Occupied: 1, Tasks: 1},
		{Name: "seconds", Slots: 60, Occupied: 1, Tasks: 1},
		{Name: "minutes", Slots: 60, Occupied: 1, Tasks: 2},
		{Name: "hours", Slots: 24, Occupied: 2, Tasks: 2},
	}, s.Levels)
	assert.Equal(t, 6, s.Pending)
	wheeltest.Advance(w, mock.Add, 26*time.Hour+3*time.Minute+4500*time.Millisecond)
	s = w.Stats()
	hands := []int{}
	for _, l := range s.Levels {
		hands = append(hands, l.Hand)
	}
	assert.Equal(t, []int{1, 4, 3, 2}, hands)
	assert.Equal(t, 1, s.Pending)
	assert.EqualValues(t, 5, s.Fired)
	assert.Positive(t, s.Moved)
	assert.Zero(t, s.MaxLateness, "Advance stops at each instant")
}

func TestStatsKnowHowLateCallbacksStart(t *testing.T) {
	w, c := newStepWheel(t, timingwheel.Options{Concurrency: 1})
	add(t, w, time.Second, func() { c.Add(3 * time.Second) })
	add(t, w, 2*time.Second, nothing)
	add(t, w, 3*time.Second, nothing)
	c.Add(3 * time.Second)
	w.Sync()
	s := w.Stats()
	assert.Equal(t, 4*time.Second, s.MaxLateness, "the second, due at 2s, starts at 6s")
	assert.Equal(t, 3*time.Second, s.LastLateness)
}
