package timingwheel_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
)

// A standIn is a clock that tests move, with the habits that fakes and hosts
// have. It fails the test if it is asked for a wait that is not positive.
type standIn struct {
	t     *testing.T
	start time.Time

	mu      sync.Mutex
	now     time.Time
	alarms  []*standInAlarm
	perRead time.Duration // the clock moves so far at each reading
	reads   int
	armed   int    // calls of AfterFunc
	onArm   func() // called by AfterFunc before the alarm is set, without the lock

	silent bool // alarms never call
	held   bool // alarms call with the clock's lock held
	calls  int  // how often an alarm calls; 0: once
	early  bool // alarms call at every move of the clock, due or not, and stay
}

type standInAlarm struct {
	clock *standIn
	at    time.Time
	f     func()
}

func newStandIn(t *testing.T) *standIn {
	epoch := time.Date(2026, 3, 29, 1, 59, 59, 987654321, time.UTC)
	return &standIn{t: t, start: epoch, now: epoch}
}

func (c *standIn) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reads++; c.reads > 10_000_000 {
		panic("the wheel reads the clock for ever")
	}
	c.now = c.now.Add(c.perRead)
	return c.now
}

func (c *standIn) AfterFunc(d time.Duration, f func()) *standInAlarm {
	if d <= 0 {
		c.t.Errorf("the clock was asked for a wait of %v", d)
	}
	if c.onArm != nil {
		c.onArm()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed++
	a := &standInAlarm{clock: c, at: c.now.Add(d), f: f}
	c.alarms = append(c.alarms, a)
	return a
}

func (a *standInAlarm) Stop() bool {
	a.clock.mu.Lock()
	defer a.clock.mu.Unlock()
	return a.clock.drop(a)
}

func (c *standIn) drop(a *standInAlarm) bool {
	for k, other := range c.alarms {
		if other == a {
			c.alarms = append(c.alarms[:k], c.alarms[k+1:]...)
			return true
		}
	}
	return false
}

// move sets the clock forward or back and calls the alarms as this clock does.
func (c *standIn) move(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	var calls []func()
	for _, a := range append([]*standInAlarm{}, c.alarms...) {
		if c.silent || !c.early && a.at.After(c.now) {
			continue
		}
		if !a.at.After(c.now) {
			c.drop(a)
		}
		for range max(c.calls, 1) {
			calls = append(calls, a.f)
		}
	}
	if c.held {
		defer c.mu.Unlock()
	} else {
		c.mu.Unlock()
	}
	for _, f := range calls {
		f()
	}
}

// alarm returns when the one armed alarm will call, as time since the start.
func (c *standIn) alarm() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	require.LessOrEqual(c.t, len(c.alarms), 1, "more than one alarm is armed")
	if len(c.alarms) == 0 {
		return 0, false
	}
	return c.alarms[0].at.Sub(c.start), true
}

func (c *standIn) since() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now.Sub(c.start)
}

// A journal notes which callbacks ran, in which order and when.
type journal struct {
	mu    sync.Mutex
	names []int
	times []time.Duration
	since func() time.Duration
}

func (j *journal) note(name int) func() {
	return func() {
		at := time.Duration(0)
		if j.since != nil {
			at = j.since()
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.names = append(j.names, name)
		j.times = append(j.times, at)
	}
}

func (j *journal) runs() []int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]int{}, j.names...)
}

func (j *journal) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.names)
}

// stage is a wheel with one worker on a standIn, and a journal.
func stage(t *testing.T, tick time.Duration, change ...func(*timingwheel.Options)) (*timingwheel.Wheel, *standIn, *journal) {
	t.Helper()
	c := newStandIn(t)
	opts := timingwheel.Options{Tick: tick, Clock: timingwheel.ClockOf(c), Concurrency: 1}
	for _, f := range change {
		f(&opts)
	}
	w, err := timingwheel.New(opts)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	return w, c, &journal{since: c.since}
}

func mustAdd(t *testing.T, w *timingwheel.Wheel, d time.Duration, fn func()) timingwheel.Task {
	t.Helper()
	task, err := w.Add(d, fn)
	require.NoError(t, err)
	return task
}

// upTo returns 0, 1, ... n-1.
func upTo(n int) []int {
	all := make([]int, n)
	for k := range all {
		all[k] = k
	}
	return all
}

// roundUp is the first tick that does not begin before d, as a duration.
func roundUp(d, tick time.Duration) time.Duration {
	if d > math.MaxInt64-tick {
		return math.MaxInt64
	}
	return (d + tick - 1) / tick * tick
}
