package durable

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// pause is how long Run leaves the store alone after an error.
	pause = time.Second

	// unknownDelay is how long a timer is put off whose topic has no handler.
	unknownDelay = time.Minute

	// drainTime is how long the end of Run may take once the handlers have returned.
	drainTime = 10 * time.Second
)

// Run claims timers whose time has come and runs their handlers, on goroutines of
// its own, until ctx ends. Then it claims no more, ends the context of the
// handlers that are running, waits for them to return, stores what came of them,
// and returns nil. Timers that were overdue when it began run in the order in which
// they were due, as all others do.
//
// An error of the store that may pass, such as a lost connection, is logged,
// counted and tried again after a second. One that will not (ErrFailed, ErrClosed)
// ends Run, with that error, as does a wheel that is stopped or full. It wraps
// ErrRunning if Run is under way already. After it has returned Run may be called
// again. Handlers must not call it.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if err := s.begin(cancel); err != nil {
		return err
	}
	// What came of handlers is stored also when ctx has ended.
	storing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	settled := make(chan struct{})
	go func() {
		defer close(settled)
		s.settle(storing)
	}()
	s.consume(ctx)
	s.handling.Wait()
	s.close()
	late := time.AfterFunc(drainTime, stop)
	defer late.Stop()
	<-settled
	return s.end()
}

func (s *Scheduler) begin(cancel context.CancelCauseFunc) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running {
		return ErrRunning
	}
	s.running, s.cancel, s.fatal = true, cancel, nil
	s.taken, s.more, s.kicked, s.asleep = 0, false, false, false
	s.pausing, s.closing = false, false
	return nil
}

// close tells settle that no outcome will come any more.
func (s *Scheduler) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing, s.pausing = true, false
	ring(s.outbell)
}

func (s *Scheduler) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.cancel = false, nil
	if s.armed {
		s.w.Cancel(s.alarm)
		s.armed = false
	}
	for done := range s.waiters {
		s.letGo(done)
	}
	return s.fatal
}

// Sync waits until Run is under way and has nothing left to do at the time of the
// store's clock: what is due has been claimed, the handlers have returned, and what
// came of them is stored. With a fake clock, test code needs it once, to know that
// Run has begun:
//
//	go s.Run(ctx)
//	s.Sync()
//	wheeltest.Advance(w, mock.Add, 48*time.Hour) // handlers run on their way
//
// since the wheel's own Sync and wheeltest.Advance wait in the same way each time
// the scheduler wakes; they give up on a handler that takes longer than a quarter
// of Options.Lease, in real time. Handlers must not call it.
func (s *Scheduler) Sync() {
	s.mu.Lock()
	s.kick()
	done := s.wait()
	s.mu.Unlock()
	<-done
}

// consume is the loop that claims.
func (s *Scheduler) consume(ctx context.Context) {
	for ctx.Err() == nil {
		if n := s.reserve(); n > 0 {
			s.claim(ctx, n)
		}
		if s.sleepy() {
			select {
			case <-s.bell:
			case <-s.store.Wake():
			case <-ctx.Done():
			}
			s.awake()
		}
	}
}

// reserve takes places for the timers of a claim.
func (s *Scheduler) reserve() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(s.opts.Concurrency-s.taken, MaxBatch)
	s.taken += n
	s.more = n == 0
	return n
}

// claim starts a handler for each of up to n timers that are due.
func (s *Scheduler) claim(ctx context.Context, n int) {
	asked := s.w.Now()
	b, err := s.store.Claim(ctx, n, s.opts.Lease)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken -= n - len(b.Claimed)
	if err != nil {
		s.failed(ctx, "Claim", err)
		return
	}
	for _, c := range b.Claimed {
		s.start(ctx, c, b.Now, asked)
	}
	switch {
	case len(b.Claimed) < n && !b.Next.IsZero():
		s.wakeIn(b.Next.Sub(b.Now))
	case len(b.Claimed) == n && s.taken < s.opts.Concurrency:
		s.kicked = true
	case len(b.Claimed) == n:
		s.more = true
	}
}

// failed deals with an error of the store.
func (s *Scheduler) failed(ctx context.Context, what string, err error) {
	if ctx.Err() != nil {
		return
	}
	s.count.StoreErrors++
	if errors.Is(err, ErrFailed) || errors.Is(err, ErrClosed) || errors.Is(err, ErrInvalid) {
		s.abort(fmt.Errorf("durable: Run: %w", err))
		return
	}
	s.opts.Logger.Warn("durable: the store had an error and is tried again", "call", what, "error", err)
	s.wakeIn(pause)
}

// The rest is called with the lock held, unless it says otherwise.

// abort ends Run with an error.
func (s *Scheduler) abort(err error) {
	if s.fatal == nil {
		s.fatal = err
	}
	s.cancel(err)
}

// sleepy reports whether consume may wait; it is called without the lock.
func (s *Scheduler) sleepy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kicked {
		s.heard()
		return false
	}
	s.asleep = true
	s.release()
	return true
}

// awake is called without the lock.
func (s *Scheduler) awake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asleep = false
	s.heard()
}

func (s *Scheduler) heard() {
	s.kicked = false
	select {
	case <-s.bell:
	default:
	}
}

// kick makes consume look again.
func (s *Scheduler) kick() {
	s.kicked, s.asleep = true, false
	ring(s.bell)
}

// ring sends a signal that is not lost, and need not be heard twice.
func ring(bell chan struct{}) {
	select {
	case bell <- struct{}{}:
	default:
	}
}

// wakeIn sets the alarm for d from now, if it is not set for earlier.
func (s *Scheduler) wakeIn(d time.Duration) {
	if !s.running {
		return
	}
	at := s.w.Now().Add(d)
	if s.armed {
		if !at.Before(s.alarmAt) {
			return
		}
		s.w.Cancel(s.alarm)
	}
	task, err := s.w.Add(d, s.alarmed)
	if err != nil {
		s.armed = false
		s.abort(fmt.Errorf("durable: Run cannot sleep: %w", err))
		return
	}
	s.armed, s.alarm, s.alarmAt = true, task, at
}

// alarmed is what the wheel calls. It waits until everything that is due has been
// dealt with, so that the wheel's Sync, and a fake clock that is moved in steps,
// wait for that too. One call at a time waits, and not for long, since it takes a
// place of the wheel's; it is called without the lock.
func (s *Scheduler) alarmed() {
	s.mu.Lock()
	s.armed = false
	if !s.running {
		s.mu.Unlock()
		return
	}
	s.letGo(s.ringing)
	s.pausing = false
	ring(s.outbell)
	s.kick()
	done := s.wait()
	s.ringing = done
	s.mu.Unlock()
	patience := time.NewTimer(s.opts.Lease / 4)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.letGo(done)
	}
}

// wait returns a channel that is closed when all is settled.
func (s *Scheduler) wait() chan struct{} {
	done := make(chan struct{})
	s.waiters[done] = true
	s.release()
	return done
}

func (s *Scheduler) letGo(done chan struct{}) {
	if s.waiters[done] {
		delete(s.waiters, done)
		close(done)
	}
}

// release lets those go who wait for all to be settled, if so.
func (s *Scheduler) release() {
	if !s.running || !s.asleep || s.count.Running > 0 || s.sending > 0 || len(s.outbox) > 0 && !s.pausing {
		return
	}
	for done := range s.waiters {
		s.letGo(done)
	}
}
