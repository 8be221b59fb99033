package timingwheel

import (
	"math"
	"reflect"
	"time"
)

// A Clock is where a wheel gets its time from. The zero Clock is the system's
// monotonic clock; any other is made by ClockOf.
type Clock struct {
	now   func() time.Time
	after func(time.Duration, func()) Stopper
	isNil bool // ClockOf was given a nil Source
}

// A Stopper is a timer that was started by a Source. The wheel stops it when it
// wants to be called at another instant; it makes nothing of the result.
type Stopper interface{ Stop() bool }

// A Source is the part of a clock package's clock that a wheel needs. It is
// satisfied as they are by the clocks of github.com/benbjohnson/clock and
// github.com/jonboulle/clockwork, by those of k8s.io/utils/clock that have
// AfterFunc, and by most others.
//
// The wheel calls AfterFunc with d > 0 only, and one timer at a time is armed. A
// call of f is a hint to look at Now, nothing more: it may come late, early,
// twice, or while the clock holds a lock of its own. The wheel calls Now,
// AfterFunc and Stop with its own lock held, so they must not call the wheel.
type Source[T Stopper] interface {
	Now() time.Time
	AfterFunc(d time.Duration, f func()) T
}

// ClockOf makes a Clock of a clock package's clock, real or fake. T is inferred:
//
//	mock := clock.NewMock()
//	w, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(mock)})
//
// A clock that steps forward makes everything due fire, in order, each task once.
// A clock that steps back makes the wheel's time stand still until it has caught
// up. New refuses the Clock of a nil Source.
func ClockOf[T Stopper](s Source[T]) Clock {
	if v := reflect.ValueOf(s); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return Clock{isNil: true}
	}
	return Clock{
		now:   s.Now,
		after: func(d time.Duration, f func()) Stopper { return s.AfterFunc(d, f) },
	}
}

// A timeline counts the time of one clock in ticks from a start. It is the only
// place where durations become ticks, always rounded up, and ticks become times.
type timeline struct {
	clock Clock
	start time.Time
	tick  time.Duration
}

// reading returns the clock's time.
func (t *timeline) reading() time.Time {
	if t.clock.now == nil {
		return time.Now()
	}
	return t.clock.now()
}

// elapsed returns the clock's time since the start. On the system clock this
// reads the monotonic clock alone, at half the cost of time.Now. Sub keeps to the
// monotonic reading where there is one, so that a step of the wall clock changes
// nothing.
func (t *timeline) elapsed() time.Duration {
	if t.clock.now == nil {
		return time.Since(t.start)
	}
	return t.clock.now().Sub(t.start)
}

// locate returns the elapsed time of an instant, and a reading to compare it with.
// Both are cut off at the ends of time.
func (t *timeline) locate(at time.Time) (elapsed, now time.Duration) {
	if t.clock.now != nil || at != at.Round(0) {
		return at.Sub(t.start), t.elapsed()
	}
	// Without a monotonic reading, at means what the wall clock shows now, which
	// need not have gone on since the start as the monotonic clock has.
	reading := t.reading()
	now = reading.Sub(t.start)
	return after(now, at.Sub(reading)), now
}

// floor returns the tick that has begun at an elapsed time.
func (t *timeline) floor(elapsed time.Duration) int64 { return int64(elapsed / t.tick) }

// ceil returns the first tick that does not begin before an elapsed time. The
// latest time that can be represented lies within a tick, so the tick of a sum
// that was cut off there never begins.
func (t *timeline) ceil(elapsed time.Duration) int64 {
	n := elapsed / t.tick
	if n*t.tick != elapsed {
		n++
	}
	return int64(n)
}

// offset returns the elapsed time at which a tick begins.
func (t *timeline) offset(tick int64) time.Duration {
	if tick > int64(math.MaxInt64/t.tick) {
		return math.MaxInt64
	}
	return time.Duration(tick) * t.tick
}

// instant returns the time at which a tick begins.
func (t *timeline) instant(tick int64) time.Time { return t.start.Add(t.offset(tick)) }

// after returns elapsed + d, where elapsed is not negative, cut off at the end of
// time.
func after(elapsed, d time.Duration) time.Duration {
	if d > math.MaxInt64-elapsed {
		return math.MaxInt64
	}
	return elapsed + d
}
