package durable

import (
	"log/slog"
	"time"
)

// The values of Options that are used where a field is 0.
const (
	DefaultConcurrency = 64
	DefaultLease       = 30 * time.Second
	DefaultMaxAttempts = 10
	DefaultMinBackoff  = time.Second
	DefaultMaxBackoff  = 5 * time.Minute
)

// Options say how a Scheduler works. The zero value is a good choice.
type Options struct {
	// Concurrency is how many handlers run at once. No more timers are claimed than
	// there are places free, so what one process has no hands for is left to
	// others. 0 means DefaultConcurrency.
	Concurrency int

	// Lease is how long a claim lasts: when a process dies, its timers come back
	// after that. It is extended while a handler runs, at a third of its length, so
	// it should be some ticks of the wheel long; it is from 10ms to MaxLease. 0
	// means DefaultLease.
	Lease time.Duration

	// MaxAttempts is how often a timer is delivered before it is given up. Attempts
	// that ended with their process count. 0 means DefaultMaxAttempts.
	MaxAttempts int

	// MinBackoff is the wait after the first failed attempt; it doubles with each
	// further one, up to MaxBackoff. A random part of up to a half is taken off, so
	// that what failed together is not tried again together. 0 means
	// DefaultMinBackoff and DefaultMaxBackoff.
	MinBackoff, MaxBackoff time.Duration

	// Logger gets a record of each panic of a handler, each timer that was given up
	// and each error of the store. nil means slog.Default().
	Logger *slog.Logger
}

// withDefaults returns the options that a scheduler works with, or says which of
// them cannot be.
func (o Options) withDefaults() (Options, error) {
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.Lease == 0 {
		o.Lease = DefaultLease
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = DefaultMaxAttempts
	}
	if o.MinBackoff == 0 {
		o.MinBackoff = DefaultMinBackoff
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = max(DefaultMaxBackoff, o.MinBackoff)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case o.Concurrency < 0:
		return o, invalid("Options.Concurrency %d is negative", o.Concurrency)
	case o.Lease < shortestLease || o.Lease > MaxLease:
		return o, invalid("Options.Lease %v is not from %v to %v", o.Lease, shortestLease, MaxLease)
	case o.MaxAttempts < 0:
		return o, invalid("Options.MaxAttempts %d is negative", o.MaxAttempts)
	case o.MinBackoff < 0:
		return o, invalid("Options.MinBackoff %v is negative", o.MinBackoff)
	case o.MaxBackoff < o.MinBackoff:
		return o, invalid("Options.MaxBackoff %v is less than MinBackoff %v", o.MaxBackoff, o.MinBackoff)
	}
	return o, nil
}

// shortestLease leaves room for an extension on the finest tick of a wheel.
const shortestLease = 10 * time.Millisecond
