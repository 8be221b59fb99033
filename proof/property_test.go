package proof

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fee15284/timingwheel"
	"pgregory.net/rapid"
)

// A still clock moves when the test says so and never calls its alarms: what
// happens, happens because a method was called or Sync waited for it.
type still struct {
	mu  sync.Mutex
	now time.Time
}

type noAlarm struct{}

func (noAlarm) Stop() bool { return true }

func (c *still) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *still) AfterFunc(time.Duration, func()) noAlarm { return noAlarm{} }

func (c *still) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// A deed is what a callback does when it runs.
type deed struct {
	kind   int // 0: add, 1: cancel, 2: reset, 3: add a key, 4: cancel a key
	d      time.Duration
	victim int
}

// A line is a pending task in the model.
type line struct {
	task   timingwheel.Task
	key    string
	due    time.Duration // the instant of its due tick, since the start
	rank   int
	moved  bool // by Reset: its place within its tick is free
	period time.Duration
	next   time.Duration
	deeds  []deed
	busy   bool
}

// A machine is a wheel with one worker beside a list. All fields are guarded by
// mu, which operations hold and callbacks take; the test waits for the callbacks
// after each operation, so that a program has one outcome.
type machine struct {
	w     *timingwheel.Wheel
	k     *timingwheel.Keyed[string]
	c     *still
	start time.Time
	tick  time.Duration
	limit int

	mu      sync.Mutex
	lines   []*line
	latest  time.Duration
	rank    int
	stopped bool
	skipped uint64
	err     error
}

func newMachine(t *rapid.T) *machine {
	m := &machine{
		tick:  rapid.SampledFrom([]time.Duration{time.Second, 200 * time.Millisecond, time.Millisecond}).Draw(t, "tick"),
		limit: rapid.SampledFrom([]int{0, 0, 10}).Draw(t, "limit"),
		start: time.Unix(1_774_749_599, 987_654_321),
	}
	m.c = &still{now: m.start}
	w, err := timingwheel.New(timingwheel.Options{
		Tick: m.tick, Clock: timingwheel.ClockOf(m.c), Concurrency: 1, MaxPending: m.limit,
	})
	if err != nil {
		t.Fatal(err)
	}
	m.w = w
	m.k = timingwheel.NewKeyed(w, func(key string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if l := m.byKey(key); l != nil {
			m.ran(l)
		} else {
			m.fail("key %q ran, but is not pending", key)
		}
	})
	return m
}

func (m *machine) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

func (m *machine) up(d time.Duration) time.Duration {
	if d > math.MaxInt64-m.tick {
		return math.MaxInt64
	}
	return (d + m.tick - 1) / m.tick * m.tick
}

func (m *machine) down(d time.Duration) time.Duration { return d / m.tick * m.tick }

func (m *machine) read() { m.latest = max(m.latest, m.c.Now().Sub(m.start)) }

func (m *machine) after(d time.Duration) time.Duration {
	if d > math.MaxInt64-m.latest {
		return math.MaxInt64
	}
	return m.latest + max(d, 0)
}

func (m *machine) dueAfter(d time.Duration) time.Duration {
	if d <= 0 {
		return m.down(m.latest)
	}
	return m.up(m.after(d))
}

func (m *machine) byKey(key string) *line {
	for _, l := range m.lines {
		if l.key == key {
			return l
		}
	}
	return nil
}

func (m *machine) drop(l *line) {
	m.lines = slices.DeleteFunc(m.lines, func(other *line) bool { return other == l })
}

func (m *machine) enter(l *line, due time.Duration) {
	m.rank++
	l.rank, l.due, l.moved = m.rank, due, false
	m.lines = append(m.lines, l)
}

// ran is called by the callback of a line, with mu held.
func (m *machine) ran(l *line) {
	m.read()
	for _, other := range m.lines {
		if other == l || other.busy {
			continue
		}
		if other.due < l.due || other.due == l.due && !other.moved && !l.moved && other.rank < l.rank {
			m.fail("number %d, due at %v, ran before number %d, due at %v", l.rank, l.due, other.rank, other.due)
		}
	}
	switch {
	case !slices.Contains(m.lines, l):
		m.fail("number %d ran, but is not pending", l.rank)
	case l.due > m.latest:
		m.fail("number %d, due at %v, ran early, at %v", l.rank, l.due, m.latest)
	case m.stopped:
		m.fail("number %d ran after Stop", l.rank)
	}
	if l.period == 0 {
		m.drop(l)
		m.act(l.deeds)
		return
	}
	merged := max(0, m.down(m.latest)-l.next) / l.period
	m.skipped += uint64(merged)
	if l.next += merged * l.period; l.period > math.MaxInt64-l.next {
		l.next = math.MaxInt64
	} else {
		l.next += l.period
	}
	l.busy, l.due = true, m.up(l.next)
	m.act(l.deeds)
	if l.busy = false; slices.Contains(m.lines, l) {
		m.drop(l)
		m.enter(l, max(m.up(l.next), m.down(m.latest)))
	}
}

// act does what a callback does to the wheel.
func (m *machine) act(deeds []deed) {
	for _, a := range deeds {
		switch victim := m.victim(a.victim); {
		case a.kind == 0:
			m.add(a.d, nil)
		case a.kind == 3:
			m.addKey("k"+fmt.Sprint(a.victim%3), a.d)
		case a.kind == 4:
			m.cancelKey("k" + fmt.Sprint(a.victim%3))
		case victim == nil || victim.key != "":
		case a.kind == 1:
			m.cancel(victim)
		case a.kind == 2:
			m.reset(victim, a.d)
		}
	}
}

func (m *machine) victim(n int) *line {
	if len(m.lines) == 0 {
		return nil
	}
	return m.lines[n%len(m.lines)]
}

func (m *machine) refused(err error) bool {
	var want error
	switch {
	case m.stopped:
		want = timingwheel.ErrStopped
	case m.limit > 0 && len(m.lines) >= m.limit:
		want = timingwheel.ErrFull
	}
	if !errors.Is(err, want) {
		m.fail("adding to %d tasks returned %v, not %v", len(m.lines), err, want)
	}
	return want != nil
}

func (m *machine) callback(l *line) func() {
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.ran(l)
	}
}

func (m *machine) add(d time.Duration, deeds []deed) {
	l := &line{deeds: deeds}
	m.read()
	var err error
	if l.task, err = m.w.Add(d, m.callback(l)); !m.refused(err) {
		m.enter(l, m.dueAfter(d))
	}
}

func (m *machine) addAt(d time.Duration) {
	l := &line{}
	m.read()
	at := m.start.Add(m.latest).Add(d)
	if at.Sub(m.start.Add(m.latest)) != d {
		return // not representable
	}
	var err error
	if l.task, err = m.w.AddAt(at, m.callback(l)); !m.refused(err) {
		m.enter(l, m.dueAfter(d))
	}
}

func (m *machine) addEvery(period time.Duration, deeds []deed) {
	l := &line{period: period, deeds: deeds}
	m.read()
	task, err := m.w.AddEvery(period, m.callback(l))
	if period < m.tick {
		if !errors.Is(err, timingwheel.ErrPeriod) {
			m.fail("a period of %v returned %v", period, err)
		}
		return
	}
	if !m.refused(err) {
		l.task, l.next = task, m.after(period)
		m.enter(l, m.dueAfter(period))
	}
}

func (m *machine) cancel(l *line) {
	if !m.w.Cancel(l.task) {
		m.fail("Cancel of number %d returned false", l.rank)
	}
	m.drop(l)
	if m.w.Cancel(l.task) || m.w.Reset(l.task, 0) {
		m.fail("number %d can be cancelled or reset twice", l.rank)
	}
}

func (m *machine) reset(l *line, d time.Duration) {
	m.read()
	want := !m.stopped && !l.busy
	if got := m.w.Reset(l.task, d); got != want {
		m.fail("Reset of number %d returned %v", l.rank, got)
	}
	if want {
		l.due, l.next, l.moved = m.dueAfter(d), m.after(d), true
	}
}

func (m *machine) addKey(key string, d time.Duration) {
	m.read()
	old := m.byKey(key)
	err := m.k.Add(key, d)
	if old != nil && !m.stopped {
		if err != nil {
			m.fail("replacing key %q returned %v", key, err)
		}
		m.drop(old)
		m.enter(&line{key: key}, m.dueAfter(d))
		return
	}
	if !m.refused(err) {
		m.enter(&line{key: key}, m.dueAfter(d))
	}
}

func (m *machine) cancelKey(key string) {
	l := m.byKey(key)
	if m.k.Cancel(key) != (l != nil) {
		m.fail("Cancel of key %q, pending: %v", key, l != nil)
	}
	if l != nil {
		m.drop(l)
	}
}

// check compares all that can be seen; nothing runs meanwhile.
func (m *machine) check(t *rapid.T) {
	m.w.Sync()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read()
	if m.err != nil {
		t.Fatal(m.err)
	}
	deadlines := map[timingwheel.Task]time.Time{}
	for task, at := range m.w.Pending() {
		deadlines[task] = at
	}
	earliest, keys := time.Duration(math.MaxInt64), 0
	for _, l := range m.lines {
		earliest = min(earliest, l.due)
		if l.due <= m.latest && !m.stopped {
			t.Fatalf("number %d, due at %v, has not run by %v", l.rank, l.due, m.latest)
		}
		at, ok := m.w.Deadline(l.task)
		if l.key != "" {
			keys++
			at, ok = m.k.Deadline(l.key)
		} else if listed, in := deadlines[l.task]; !in || !listed.Equal(at) {
			t.Fatalf("number %d, due at %v, is listed as %v", l.rank, l.due, listed)
		}
		if !ok || !at.Equal(m.start.Add(l.due)) {
			t.Fatalf("number %d, due at %v, has the deadline %v", l.rank, l.due, at)
		}
	}
	if len(deadlines) != len(m.lines) || m.w.Len() != len(m.lines) || m.k.Len() != keys {
		t.Fatalf("%d tasks, %d keys; Pending %d, Len %d, Keyed.Len %d", len(m.lines), keys, len(deadlines), m.w.Len(), m.k.Len())
	}
	next, ok := m.w.Next()
	if ok != (len(m.lines) > 0 && !m.stopped) || ok && next.After(m.start.Add(earliest)) {
		t.Fatalf("Next is %v, %v; the earliest of %d is due at %v", next, ok, len(m.lines), earliest)
	}
	if !m.w.Now().Equal(m.start.Add(m.latest)) || m.w.Stats().Skipped != m.skipped {
		t.Fatalf("Now %v, %d periods skipped, not %d", m.w.Now(), m.w.Stats().Skipped, m.skipped)
	}
}

func delays(m *machine) *rapid.Generator[time.Duration] {
	edges := []time.Duration{0, 1, m.tick, time.Second, time.Minute, time.Hour, 24 * time.Hour}
	return rapid.OneOf(
		rapid.Map(rapid.IntRange(-2, 130), func(n int) time.Duration { return time.Duration(n) * m.tick }),
		rapid.Custom(func(t *rapid.T) time.Duration {
			edge := rapid.SampledFrom(edges).Draw(t, "edge")
			return edge*time.Duration(rapid.IntRange(0, 3).Draw(t, "times")) + time.Duration(rapid.IntRange(-1, 1).Draw(t, "off"))
		}),
		rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(400*24*time.Hour)).Draw(t, "any"))
		}),
		rapid.SampledFrom([]time.Duration{math.MinInt64, math.MaxInt64, math.MaxInt64 - 1}),
	)
}

func TestAnyProgramAgreesWithTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newMachine(t)
		defer m.w.Stop()
		delay := delays(m)
		deeds := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) deed {
			return deed{rapid.IntRange(0, 4).Draw(t, "deed"), delay.Draw(t, "delay"), rapid.IntRange(0, 20).Draw(t, "victim")}
		}), 0, 3)
		key := rapid.SampledFrom([]string{"k0", "k1", "k2", ""})
		locked := func(f func(t *rapid.T)) func(t *rapid.T) {
			return func(t *rapid.T) {
				m.mu.Lock()
				defer m.mu.Unlock()
				f(t)
			}
		}
		move := func(t *rapid.T) {
			d := min(delay.Draw(t, "step"), 400*24*time.Hour)
			if d < 0 {
				d = max(d, -time.Hour)
			}
			if m.c.Now().Sub(m.start) < 250*365*24*time.Hour {
				m.c.move(d)
			}
		}
		some := func(f func(t *rapid.T, l *line)) func(t *rapid.T) {
			return locked(func(t *rapid.T) {
				if l := m.victim(rapid.IntRange(0, 50).Draw(t, "which")); l != nil && l.key == "" {
					f(t, l)
				}
			})
		}
		t.Repeat(map[string]func(*rapid.T){
			"":         m.check,
			"add":      locked(func(t *rapid.T) { m.add(delay.Draw(t, "delay"), deeds.Draw(t, "deeds")) }),
			"add late": locked(func(t *rapid.T) { move(t); m.add(delay.Draw(t, "delay"), deeds.Draw(t, "deeds")) }),
			"add at":   locked(func(t *rapid.T) { m.addAt(delay.Draw(t, "delay")) }),
			"every":    locked(func(t *rapid.T) { m.addEvery(delay.Draw(t, "period"), deeds.Draw(t, "deeds")) }),
			"cancel":   some(func(t *rapid.T, l *line) { m.cancel(l) }),
			"reset":    some(func(t *rapid.T, l *line) { m.reset(l, delay.Draw(t, "delay")) }),
			"key":      locked(func(t *rapid.T) { m.addKey("k"+key.Draw(t, "key"), delay.Draw(t, "delay")) }),
			"new key": locked(func(t *rapid.T) {
				k, d := "k"+key.Draw(t, "key"), delay.Draw(t, "delay")
				m.read()
				old := m.byKey(k)
				added, err := m.k.AddNew(k, d)
				if old != nil && !m.stopped {
					if added || err != nil {
						m.fail("AddNew of a pending key returned %v, %v", added, err)
					}
				} else if !m.refused(err) {
					m.enter(&line{key: k}, m.dueAfter(d))
				}
			}),
			"reset key": locked(func(t *rapid.T) {
				k, d := "k"+key.Draw(t, "key"), delay.Draw(t, "delay")
				m.read()
				l := m.byKey(k)
				if want := l != nil && !m.stopped; m.k.Reset(k, d) != want {
					m.fail("Reset of key %q is not %v", k, want)
				} else if want {
					l.due, l.moved = m.dueAfter(d), true
				}
			}),
			"cancel key": locked(func(t *rapid.T) { m.cancelKey("k" + key.Draw(t, "key")) }),
			"move":       locked(move),
			"move again": locked(move),
			"stop": locked(func(t *rapid.T) {
				if rapid.IntRange(0, 30).Draw(t, "sure") == 0 {
					m.w.Stop()
					m.stopped = true
				}
			}),
		})
	})
}
