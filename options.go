package timingwheel

import (
	"errors"
	"fmt"
	"time"
)

// DefaultConcurrency is how many callbacks of a wheel run at once unless
// Options.Concurrency says otherwise.
const DefaultConcurrency = 256

// Options say how a wheel works. The zero value is a good choice for timeouts of
// seconds and more.
type Options struct {
	// Tick is the resolution: a delay is rounded up to whole ticks. It must be
	// from 1ms to 1s and divide one second. 0 means one second.
	Tick time.Duration

	// Clock is where time comes from. The zero Clock is the system's monotonic
	// clock; ClockOf makes one of any other clock, real or fake.
	Clock Clock

	// Concurrency is how many callbacks run at once. While that many are
	// running, tasks that fall due wait in a queue, in order, can still be
	// cancelled, and are counted in Stats.Due. Goroutines are added one by one, and
	// only while less than two million callbacks a second start: more of them would
	// slow each other down. 0 means DefaultConcurrency.
	Concurrency int

	// MaxPending is how many tasks the wheel holds (see Len); adding more is
	// refused with ErrFull. 0 means no limit.
	MaxPending int

	// OnPanic is called when a callback has panicked, with the value and the
	// stack of the panic, on the goroutine of that callback; it may call the
	// wheel as the callback might. nil means a record of level Error through
	// log/slog, with the attributes panic (the value), task (its Task.String),
	// deadline (a time), stack and, for a task of Keyed, key. A panic in OnPanic
	// is recovered and logged, too.
	OnPanic func(value any, stack []byte)
}

// The reasons for which New, Add and their kind refuse. Each error they return
// wraps one of these and says what was wrong; nothing has changed then.
var (
	ErrStopped = errors.New("timingwheel: the wheel is stopped")
	ErrFull    = errors.New("timingwheel: the wheel is full")
	ErrNilFunc = errors.New("timingwheel: the callback is nil")
	ErrPeriod  = errors.New("timingwheel: the task would never recur, or too often")
	ErrOptions = errors.New("timingwheel: an option is out of range")
)

// A refusal says what was wrong in its own words, and is its reason to errors.Is.
type refusal struct {
	reason error
	text   string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.reason }

func refuse(reason error, format string, args ...any) error {
	return &refusal{reason, "timingwheel: " + fmt.Sprintf(format, args...)}
}

// withDefaults returns the options that a wheel works with, or says which of
// them cannot be.
func (o Options) withDefaults() (Options, error) {
	if o.Tick == 0 {
		o.Tick = time.Second
	}
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	switch {
	case o.Tick < time.Millisecond || o.Tick > time.Second:
		return o, refuse(ErrOptions, "Options.Tick %v is not from 1ms to 1s", o.Tick)
	case time.Second%o.Tick != 0:
		return o, refuse(ErrOptions, "Options.Tick %v does not divide one second", o.Tick)
	case o.Clock.isNil:
		return o, refuse(ErrOptions, "Options.Clock is ClockOf(nil), it needs a clock")
	case o.Concurrency < 0:
		return o, refuse(ErrOptions, "Options.Concurrency %d is negative", o.Concurrency)
	case o.MaxPending < 0:
		return o, refuse(ErrOptions, "Options.MaxPending %d is negative", o.MaxPending)
	}
	return o, nil
}

// ringSizes returns the wheels for a tick, finest first.
func ringSizes(tick time.Duration) []int {
	rings := []int{60, 60, 24}
	if n := int(time.Second / tick); n > 1 {
		rings = append([]int{n}, rings...)
	}
	return rings
}
