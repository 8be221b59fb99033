package durable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/fee15284/timingwheel"
)

// A delivery is a claimed timer until its outcome is stored.
type delivery struct {
	Claimed
	lost context.CancelCauseFunc

	// Guarded by the scheduler's lock:
	deadline  time.Time // on the wheel's clock: the lease has ended for sure
	tending   timingwheel.Task
	extending bool // an Extend is in the outbox
	over      bool // the handler has returned
	stale     bool // the store has said that the token is out of date
	missed    bool // counted in Stats.Lost
}

// start begins the delivery of a timer, for which a place is taken. It is called
// with the lock held.
func (s *Scheduler) start(ctx context.Context, c Claimed, now, asked time.Time) {
	ctx, lost := context.WithCancelCause(ctx)
	d := &delivery{Claimed: c, lost: lost}
	h := s.handlers[c.Topic]
	switch {
	case ctx.Err() != nil:
		s.conclude(d, Op{Kind: Retry, Uncounted: true})
		return
	case h == nil:
		if !s.unknown[c.Topic] {
			s.unknown[c.Topic] = true
			s.opts.Logger.Warn("durable: a topic has no handler, its timers are put off", "topic", c.Topic)
		}
		s.conclude(d, Op{Kind: Retry, Uncounted: true, Delay: unknownDelay})
		return
	case c.Attempt > s.opts.MaxAttempts:
		// The process died with each of them, or lost its lease.
		s.conclude(d, s.giveUp(d, fmt.Sprintf("%d attempts ended without an answer; the last error: %s",
			c.Attempt-1, c.LastError)))
		return
	}
	lateness := max(now.Sub(c.Due), 0)
	s.count.Delivered++
	s.count.Running++
	s.count.LastLateness = lateness
	s.count.MaxLateness = max(s.count.MaxLateness, lateness)
	d.deadline = asked.Add(s.opts.Lease)
	s.tendLater(d)
	s.handling.Add(1)
	go s.deliver(ctx, h, d, Delivery{c.Timer, c.Attempt, c.Due, lateness, c.LastError})
}

// deliver runs a handler.
func (s *Scheduler) deliver(ctx context.Context, h Handler, d *delivery, arg Delivery) {
	defer s.handling.Done()
	err := errGoexit
	defer func() {
		var stack []byte
		if value := recover(); value != nil {
			err, stack = fmt.Errorf("panic: %v", value), debug.Stack()
			s.opts.Logger.Error("durable: a handler panicked", "topic", d.Topic, "key", d.Key,
				"attempt", d.Attempt, "panic", value, "stack", string(stack))
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if stack != nil {
			s.count.Panicked++
		}
		s.count.Running--
		d.over = true
		s.w.Cancel(d.tending)
		s.conclude(d, s.verdict(ctx, d, err))
		d.lost(nil)
	}()
	err = answer(ctx, h(ctx, arg))
}

// A failure is what the scheduler needs of the error that a handler answers. Its
// methods are called where the handler is: they may panic, too.
type failure struct {
	text  string
	ended error // ctx.Err(), if it is what the error says
}

func answer(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	f := failure{text: err.Error()}
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		f.ended = ended
	}
	return f
}

func (f failure) Error() string { return f.text }
func (f failure) Unwrap() error { return f.ended }

var errGoexit = errors.New("the handler ended its goroutine")

// verdict returns the operation that follows from what a handler returned. It is
// called with the lock held.
func (s *Scheduler) verdict(ctx context.Context, d *delivery, err error) Op {
	switch {
	case err == nil:
		return Op{Kind: Ack}
	case ctx.Err() != nil && errors.Is(err, ctx.Err()) && !errors.Is(context.Cause(ctx), ErrLeaseLost):
		return Op{Kind: Retry, Uncounted: true} // Run ends
	case d.Attempt >= s.opts.MaxAttempts:
		return s.giveUp(d, err.Error())
	}
	return Op{Kind: Retry, Delay: s.backoff(d.Attempt), Error: cut(err.Error())}
}

func (s *Scheduler) giveUp(d *delivery, why string) Op {
	s.opts.Logger.Error("durable: a timer was given up", "topic", d.Topic, "key", d.Key,
		"attempts", d.Attempt, "error", why)
	return Op{Kind: Bury, Error: cut(why)}
}

// cut makes the text of an error short enough for a store.
func cut(text string) string { return text[:min(len(text), MaxError)] }

// backoff returns how long to wait after an attempt that failed.
func (s *Scheduler) backoff(attempt int) time.Duration {
	d := s.opts.MinBackoff
	for ; attempt > 1 && d < s.opts.MaxBackoff; attempt-- {
		d = min(2*d, s.opts.MaxBackoff)
	}
	if half := int64(d / 2); half > 0 {
		d -= time.Duration(rand.Int64N(half + 1))
	}
	return d
}

// tendLater sees to it that the lease is looked after, at its end at the latest. It
// is called with the lock held.
func (s *Scheduler) tendLater(d *delivery) {
	wait := min(s.opts.Lease/3, d.deadline.Sub(s.w.Now()))
	task, err := s.w.Add(wait, func() { s.tend(d) })
	if err != nil {
		s.abort(fmt.Errorf("durable: Run cannot extend leases: %w", err))
		return
	}
	d.tending = task
}

// tend extends the lease of a handler that is running, or ends its context if the
// lease is over. Time counts from before the last call that the store has
// answered, so that the store's own reckoning cannot end earlier.
func (s *Scheduler) tend(d *delivery) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.over || d.stale {
		return
	}
	if !s.w.Now().Before(d.deadline) {
		s.miss(d)
		return
	}
	if !d.extending {
		d.extending = true
		s.post(outcome{op: Op{Kind: Extend, Delay: s.opts.Lease}, d: d})
	}
	s.tendLater(d)
}

// miss notes that the lease of a delivery is lost, and ends its context. It is
// called with the lock held.
func (s *Scheduler) miss(d *delivery) {
	if !d.missed {
		d.missed = true
		s.count.Lost++
		d.lost(ErrLeaseLost)
	}
}
