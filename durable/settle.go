package durable

import (
	"context"
	"runtime"
	"time"
)

// An outcome is an operation on a claimed timer that waits to be applied.
type outcome struct {
	op Op
	d  *delivery
}

// settle is the loop that stores outcomes. While it waits for the store others
// gather, and go together.
func (s *Scheduler) settle(ctx context.Context) {
	for {
		batch, ops := s.unpost()
		if len(batch) == 0 {
			s.mu.Lock()
			closing := s.closing
			s.mu.Unlock()
			if closing {
				return
			}
			<-s.outbell
			continue
		}
		asked := s.w.Now()
		statuses, err := s.store.Apply(ctx, ops)
		s.answer(ctx, batch, statuses, err, asked)
	}
}

// conclude stores how a delivery ended, and gives its place back then. It is
// called with the lock held.
func (s *Scheduler) conclude(d *delivery, op Op) {
	if d.stale {
		s.vacate()
		return
	}
	s.post(outcome{op: op, d: d})
}

// post is called with the lock held.
func (s *Scheduler) post(o outcome) {
	o.op.Topic, o.op.Key, o.op.Token = o.d.Topic, o.d.Key, o.d.Token
	s.outbox = append(s.outbox, o)
	if !s.pausing {
		ring(s.outbell)
	}
}

// linger gives handlers that are about to return the time to, as long as each look
// finds more outcomes than the one before: one call then stores them all, instead
// of the first alone and the others after it.
func (s *Scheduler) linger() {
	for before, n := 0, 1; n > before && n < MaxBatch; {
		runtime.Gosched()
		s.mu.Lock()
		before, n = n, len(s.outbox)
		s.mu.Unlock()
	}
}

// unpost takes the first outcomes out of the outbox.
func (s *Scheduler) unpost() ([]outcome, []Op) {
	s.linger()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pausing {
		return nil, nil
	}
	n := min(len(s.outbox), MaxBatch)
	batch := s.outbox[:n:n]
	s.outbox = append([]outcome(nil), s.outbox[n:]...)
	s.sending = n
	ops := make([]Op, n)
	for i := range batch {
		ops[i] = batch[i].op
	}
	return batch, ops
}

// answer deals with what the store said to a batch of outcomes.
func (s *Scheduler) answer(ctx context.Context, batch []outcome, statuses []Status, err error, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sending = 0
	if err != nil {
		s.unanswered(ctx, batch, err)
	} else {
		for i, o := range batch {
			s.stored(o, statuses[i], asked)
		}
	}
	s.release()
}

// unanswered keeps outcomes for another try, unless there is none: then their
// timers come back when the leases end.
func (s *Scheduler) unanswered(ctx context.Context, batch []outcome, err error) {
	s.failed(ctx, "Apply", err)
	if !s.closing && s.fatal == nil {
		s.outbox = append(batch, s.outbox...)
		s.pausing = true
		return
	}
	if s.fatal == nil {
		s.opts.Logger.Warn("durable: Run has ended without storing what came of some handlers, "+
			"their timers will be delivered again", "timers", len(batch), "error", err)
	}
	for _, o := range batch {
		if o.op.Kind != Extend {
			s.vacate()
		}
	}
}

// stored deals with the answer to one outcome.
func (s *Scheduler) stored(o outcome, status Status, asked time.Time) {
	stale := status != Done
	if o.op.Kind == Extend {
		o.d.extending = false
		switch {
		case stale && !o.d.over:
			o.d.stale = true
			s.miss(o.d)
		case !stale:
			o.d.deadline = asked.Add(s.opts.Lease)
		}
		return
	}
	switch {
	case stale:
		s.miss(o.d)
	case o.op.Kind == Ack:
		s.count.Succeeded++
	case o.op.Kind == Bury:
		s.count.Died++
	case !o.op.Uncounted:
		s.count.Retried++
	case o.op.Delay > 0:
		s.count.Unknown++
	default:
		s.count.Interrupted++
	}
	if !stale && o.op.Kind == Retry {
		s.wakeIn(o.op.Delay)
	}
	o.d.lost(nil)
	s.vacate()
}

// vacate gives a place back.
func (s *Scheduler) vacate() {
	s.taken--
	if s.more {
		s.more = false
		s.kick()
	}
	s.release()
}
