package timingwheel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// An account of tasks: how often each ran, was cancelled and is pending.
type account struct {
	mu       sync.Mutex
	w        *Wheel
	tasks    []Task
	ran      []int
	canceled []int
	order    []int
}

// open makes a line for a new task and returns its number and callback.
func (a *account) open() (int, func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.tasks)
	a.tasks = append(a.tasks, Task{})
	a.ran = append(a.ran, 0)
	a.canceled = append(a.canceled, 0)
	return n, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.ran[n]++
		a.order = append(a.order, n)
	}
}

func (a *account) add(d time.Duration) int {
	n, fn := a.open()
	task, err := a.w.Add(d, fn)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tasks[n] = task; err != nil {
		a.canceled[n]++ // it was refused, so it must not run
	}
	return n
}

func (a *account) cancel(n int) {
	a.mu.Lock()
	task := a.tasks[n]
	a.mu.Unlock()
	done := a.w.Cancel(task)
	a.mu.Lock()
	defer a.mu.Unlock()
	if done {
		a.canceled[n]++
	}
}

// balanced checks that each task ended in exactly one way, or is pending.
func (a *account) balanced() error {
	pending := map[Task]int{}
	for task := range a.w.Pending() {
		pending[task]++
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for n, task := range a.tasks {
		if sum := a.ran[n] + a.canceled[n] + pending[task]; sum != 1 {
			return fmt.Errorf("task %d ran %d times, was cancelled %d times, is pending %d times", n, a.ran[n], a.canceled[n], pending[task])
		}
		delete(pending, task)
	}
	if len(pending) > 0 {
		return fmt.Errorf("%d unknown tasks are pending", len(pending))
	}
	return nil
}

// A doorClock is a handClock that acts at one of its next readings, unless the
// wheel's lock is held there.
type doorClock struct {
	*handClock
	w     *Wheel
	count int
	at    int // which reading; 0: none
	act   func()
}

func (c *doorClock) Now() time.Time {
	now := c.handClock.Now()
	c.mu.Lock()
	c.count++
	act := c.act
	if c.at == 0 || c.count < c.at || act == nil || !c.w.mu.mutex.TryLock() {
		c.mu.Unlock()
		return now
	}
	c.w.mu.Unlock()
	c.act = nil
	c.mu.Unlock()
	act()
	return now
}

// Between a method's or a worker's reading of the clock and its taking of the
// lock anything may happen. Here everything does, at each such place in turn.
func TestWhateverHappensBetweenReadingAndLockingNoTaskIsLostOrDoubled(t *testing.T) {
	type scene struct {
		*account
		c     *doorClock
		keyed *Keyed[int]
	}
	acts := map[string]func(*scene){
		"an add without delay":   func(s *scene) { s.add(0) },
		"an earlier add":         func(s *scene) { s.add(1) },
		"a cancel of the first":  func(s *scene) { s.cancel(0) },
		"a cancel of all":        func(s *scene) { s.cancel(0); s.cancel(1); s.cancel(2) },
		"a reset to now":         func(s *scene) { s.w.Reset(s.tasks[1], 0) },
		"a reset to later":       func(s *scene) { s.w.Reset(s.tasks[0], 5*time.Second) },
		"a stop":                 func(s *scene) { s.w.Stop() },
		"a step of the clock":    func(s *scene) { s.c.move(3 * time.Second) },
		"a step back":            func(s *scene) { s.c.move(-2 * time.Hour) },
		"another catching up":    func(s *scene) { s.w.catchUp() },
		"an alarm out of place":  func(s *scene) { s.w.wake() },
		"a replacement of a key": func(s *scene) { _ = s.keyed.Add(1, time.Second) },
		"a cancel of a key":      func(s *scene) { s.keyed.Cancel(1) },
	}
	scenes := map[string]func(*scene){
		"Add":           func(s *scene) { s.add(time.Second) },
		"Add, at once":  func(s *scene) { s.add(0) },
		"Reset":         func(s *scene) { s.w.Reset(s.tasks[2], time.Second) },
		"Reset to now":  func(s *scene) { s.w.Reset(s.tasks[2], 0) },
		"Keyed.Add":     func(s *scene) { _ = s.keyed.Add(1, 2*time.Second) },
		"Keyed.Reset":   func(s *scene) { s.keyed.Reset(1, 0) },
		"Sync":          func(s *scene) { s.c.move(2 * time.Second); s.w.Sync() },
		"the alarm":     func(s *scene) { s.c.move(2 * time.Second); s.c.ring() },
		"a long wait":   func(s *scene) { s.c.move(3 * time.Hour); s.c.ring(); s.w.Sync() },
		"Now and Stats": func(s *scene) { s.c.move(time.Second); s.w.Now(); s.w.Stats() },
	}
	for doing, do := range scenes {
		for what, act := range acts {
			for reading := 1; reading <= 7; reading++ {
				for _, concurrency := range []int{1, 2} {
					var err error
					synctest.Test(t, func(*testing.T) {
						c := &doorClock{handClock: &handClock{now: time.Unix(1e9, 0), alarms: map[*handAlarm]bool{}}}
						w, e := New(Options{Clock: ClockOf(c), Concurrency: concurrency})
						if err = e; err != nil {
							return
						}
						c.w = w
						s := &scene{account: &account{w: w}, c: c}
						keyRan := 0
						s.keyed = NewKeyed(w, func(int) { s.mu.Lock(); keyRan++; s.mu.Unlock() })
						for _, d := range []time.Duration{time.Second, 2 * time.Second, time.Hour} {
							s.add(d)
						}
						err = s.keyed.Add(1, 2*time.Second)
						series, runs := 0, 0
						if _, e := w.AddEvery(2*time.Second, func() { s.mu.Lock(); runs++; s.mu.Unlock() }); e == nil {
							series = 1
						}
						c.mu.Lock()
						c.act, c.count, c.at = func() { act(s) }, 0, reading
						c.mu.Unlock()
						do(s)
						synctest.Wait()
						var in inspector
						if err == nil {
							err = sound(w, &in)
						}
						c.mu.Lock()
						c.at = 0
						c.mu.Unlock()
						c.move(48 * time.Hour)
						for c.ring() {
							synctest.Wait()
						}
						synctest.Wait()
						w.Sync()
						stopped := w.stopped
						left := 0
						for range w.Pending() {
							left++
						}
						if err == nil && !stopped && left != series {
							err = fmt.Errorf("%d tasks are left, %d recur", left, series)
						}
						if err == nil && left != w.Len() {
							err = fmt.Errorf("%d listed, Len is %d", left, w.Len())
						}
						w.Stop()
						// The series and the key have no line in the account.
						if n := s.keyed.Len(); err == nil && keyRan+n > 3 {
							err = fmt.Errorf("the key ran %d times", keyRan)
						}
						for task := range w.Pending() {
							if !slices.Contains(s.tasks, task) {
								w.Cancel(task)
							}
						}
						if err == nil {
							err = s.balanced()
						}
						if err == nil {
							err = sound(w, &in)
						}
					})
					require.NoError(t, err, "%s, and at reading %d %s; concurrency %d", doing, reading, what, concurrency)
				}
			}
		}
	}
}

// A drain of many tasks lets go of the lock in its middle. What is added, moved
// and cancelled there must not change the order of the others.
func TestWhateverHappensWhileACascadeLetsGoOfTheLockTheOrderStays(t *testing.T) {
	const many = 3 * batch
	due := 2*time.Hour + 17*time.Second // by way of an hour slot and a minute slot
	acts := map[string]func(*account, *handClock, int){
		"nothing":                     func(*account, *handClock, int) {},
		"adds to the same tick":       func(a *account, c *handClock, n int) { a.add(due - c.Now().Sub(a.w.start)) },
		"adds at once":                func(a *account, _ *handClock, n int) { a.add(0) },
		"adds of the next tick":       func(a *account, _ *handClock, n int) { a.add(time.Second) },
		"cancels from the front":      func(a *account, _ *handClock, n int) { a.cancel(n); a.cancel(n + 1) },
		"cancels from the back":       func(a *account, _ *handClock, n int) { a.cancel(many - 1 - n); a.cancel(many - 2 - n) },
		"a cancel of the cursor":      cancelCursor,
		"a cancel of all":             func(a *account, _ *handClock, n int) { cancelAll(a) },
		"resets to later":             func(a *account, _ *handClock, n int) { a.w.Reset(a.tasks[5*n], 5*time.Hour) },
		"resets to now":               func(a *account, _ *handClock, n int) { a.w.Reset(a.tasks[5*n+many/2], 0) },
		"another catching up":         func(a *account, _ *handClock, n int) { a.w.catchUp() },
		"a step of the clock":         func(a *account, c *handClock, n int) { c.move(time.Second); a.w.wake() },
		"a step back":                 func(a *account, c *handClock, n int) { c.move(-time.Minute) },
		"a day, and another catch up": func(a *account, c *handClock, n int) { c.move(24 * time.Hour); a.w.catchUp() },
		"looks at all that can be seen": func(a *account, c *handClock, n int) {
			a.w.Len()
			a.w.Next()
			a.w.Stats()
			for range a.w.Pending() {
			}
		},
	}
	for what, act := range acts {
		synctest.Test(t, func(t *testing.T) {
			c := &handClock{now: time.Unix(1e9, 0), alarms: map[*handAlarm]bool{}}
			w, err := New(Options{Clock: ClockOf(c), Concurrency: 1})
			require.NoError(t, err)
			a := &account{w: w}
			for n := range many {
				a.add(due)
				if n%100 == 99 {
					c.move(time.Second)
					due -= time.Second
				}
			}
			due += many / 100 * time.Second
			var pauses atomic.Int64
			var busy atomic.Bool // a pause that the act itself or a wake came by
			var in inspector
			w.pause = func() {
				if busy.CompareAndSwap(false, true) {
					act(a, c, int(pauses.Add(1)-1))
					busy.Store(false)
				}
			}
			c.move(due - c.Now().Sub(w.start))
			synctest.Wait()
			w.Sync()
			require.Positive(t, pauses.Load(), what)
			require.NoError(t, sound(w, &in), what)
			c.move(48 * time.Hour)
			w.Sync()
			require.NoError(t, a.balanced(), what)
			require.NoError(t, sound(w, &in), what)
			require.Zero(t, w.Len(), what)
			first := slices.DeleteFunc(slices.Clone(a.order), func(n int) bool { return n >= many })
			if what != "resets to later" && what != "resets to now" {
				require.True(t, slices.IsSorted(first), "%s: the order is not that of adding", what)
			}
			added := slices.DeleteFunc(slices.Clone(a.order), func(n int) bool { return n < many })
			require.True(t, slices.IsSorted(added), what)
			if what == "adds to the same tick" || what == "adds of the next tick" {
				require.True(t, slices.IsSorted(a.order), "%s: they run last", what)
			}
		})
	}
}

func cancelCursor(a *account, _ *handClock, _ int) {
	a.w.mu.Lock()
	cursor := a.w.wheels.cursor
	var task Task
	if cursor != 0 {
		task = a.w.handle(cursor)
	}
	a.w.mu.Unlock()
	a.mu.Lock()
	n := slices.Index(a.tasks, task)
	a.mu.Unlock()
	if cursor != 0 {
		a.cancel(n)
	}
}

func cancelAll(a *account) {
	for n := range a.tasks {
		a.cancel(n)
	}
}

func TestStopWhileACascadeLetsGoOfTheLockLeavesTheRestListed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &handClock{now: time.Unix(1e9, 0), alarms: map[*handAlarm]bool{}}
		w, err := New(Options{Clock: ClockOf(c), Concurrency: 2})
		require.NoError(t, err)
		a := &account{w: w}
		for range 3 * batch {
			a.add(3 * time.Hour)
		}
		w.pause = w.Stop
		c.move(3 * time.Hour)
		w.Sync()
		require.NoError(t, w.Shutdown(context.Background()))
		require.NoError(t, a.balanced())
		require.Greater(t, w.Len(), batch)
		_, err = w.Add(0, func() {})
		require.True(t, errors.Is(err, ErrStopped))
		var in inspector
		require.NoError(t, sound(w, &in))
		cancelAll(a)
		require.Zero(t, w.Len())
		require.NoError(t, sound(w, &in))
	})
}

// A kick catches up without an alarm. There may be a second one after the first,
// and the alarm must be set for what comes later.
func TestAWheelWhoseAlarmIsLateIsKickedEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &handClock{now: time.Unix(1e9, 0), alarms: map[*handAlarm]bool{}}
		w, err := New(Options{Clock: ClockOf(c), Concurrency: 1})
		require.NoError(t, err)
		a := &account{w: w}
		for round := range 10 {
			a.add(time.Second)
			a.add(time.Hour)
			c.move(5 * time.Second) // and no alarm rings
			a.add(0)
			synctest.Wait()
			require.Equal(t, []int{0, 2}, a.order, "round %d", round)
			next, ok := w.Next()
			require.True(t, ok)
			require.Len(t, c.alarms, 1)
			for alarm := range c.alarms {
				require.False(t, alarm.at.After(next), "the alarm is set for what comes next")
				require.True(t, alarm.at.After(c.Now()), "it is not the old one")
			}
			a.cancel(1)
			a.tasks, a.ran, a.canceled, a.order = nil, nil, nil, nil
		}
	})
}

// The clock is set back between Add's reading of it and the arming: the wheel's
// time stands at the latest reading, and what is due by then runs at once.
func TestAStepBackWhileArmingHoldsUpNothingThatIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &doorClock{handClock: &handClock{now: time.Unix(1e9, 0), alarms: map[*handAlarm]bool{}}}
		w, err := New(Options{Clock: ClockOf(c), Concurrency: 1})
		require.NoError(t, err)
		c.w = w
		a := &account{w: w}
		c.move(100 * time.Second)
		a.add(30 * time.Second)
		c.move(35 * time.Second) // the alarm is late
		c.act, c.count, c.at = func() { c.move(-time.Minute) }, 0, 1
		a.add(30 * time.Second) // in a minute slot that comes round before the first task
		synctest.Wait()
		require.Equal(t, []int{0}, a.order)
		require.Equal(t, time.Unix(1e9+135, 0), w.Now())
	})
}

// One worker at a time is on its way to its first task: it hires the next one
// itself if it leaves others behind.
func TestTasksThatFallDueTogetherAreMetByOneWorkerAtFirst(t *testing.T) {
	w, err := New(Options{})
	require.NoError(t, err)
	w.mu.Lock()
	for range 5 {
		w.schedule(w.tasks.add(func() {}, nil, 0), 0, 0)
	}
	workers := len(w.crew)
	w.mu.Unlock()
	require.Equal(t, 1, workers)
	w.Sync()
	require.Zero(t, w.Len())
}
