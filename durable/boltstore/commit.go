package boltstore

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

// A request is a call of Apply or Claim that waits for its commit.
type request struct {
	ops      []durable.Op // nil: a claim
	statuses []durable.Status

	max   int
	lease time.Duration
	batch durable.Batch

	err  error
	done chan struct{}
}

// most is how many requests share a commit at most: it bounds the size of a
// transaction, not the throughput.
const most = 4096

// do has the writer carry out a request.
func (s *Store) do(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if err := s.refusal(); err != nil {
		s.mu.Unlock()
		return err
	}
	s.queue = append(s.queue, r)
	if len(s.queue) == 1 {
		select {
		case s.bell <- struct{}{}:
		default:
		}
	}
	s.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
	}
	if s.withdraw(r) {
		return ctx.Err()
	}
	<-r.done
	return r.err
}

// withdraw takes a request back that the writer has not begun.
func (s *Store) withdraw(r *request) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, queued := range s.queue {
		if queued == r {
			s.queue = append(s.queue[:i], s.queue[i+1:]...)
			return true
		}
	}
	return false
}

// write is the goroutine that makes all changes. While it waits for the disk
// requests gather, and the next commit takes all of them.
func (s *Store) write() {
	defer close(s.done)
	for range s.bell {
		for batch := s.take(); len(batch) > 0; batch = s.take() {
			s.serve(batch)
		}
	}
	s.serve(s.take()) // what came in before Close
}

// take returns the requests of the next commit. Callers whose commit has just
// ended are about to come back with more: it lets them in as long as each look
// finds more than the one before, instead of leaving most of them to the commit
// after this one.
func (s *Store) take() []*request {
	for seen := 0; ; runtime.Gosched() {
		s.mu.Lock()
		if n := len(s.queue); n > seen && n < most && !s.closed {
			seen = n
			s.mu.Unlock()
			continue
		}
		n := min(len(s.queue), most)
		batch := s.queue[:n:n]
		s.queue = append([]*request(nil), s.queue[n:]...)
		s.mu.Unlock()
		return batch
	}
}

// serve carries out requests in one commit and answers them.
func (s *Store) serve(batch []*request) {
	s.mu.Lock()
	err := s.failed
	s.mu.Unlock()
	if err == nil && len(batch) > 0 {
		if err = guard(func() error { return s.change(batch) }); err != nil {
			err = s.fail(err)
		}
	}
	s.mu.Lock()
	s.counts = s.state.counts()
	s.mu.Unlock()
	for _, r := range batch {
		r.err = err
		close(r.done)
	}
}

// change makes one transaction of requests. Once it has begun to change the state
// in memory, an error means that the store has failed.
func (s *Store) change(batch []*request) error {
	tx, err := s.db.Begin(true)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after a commit
	c := s.state.begin(tx, s.now())
	for _, r := range batch {
		if r.ops == nil {
			err = c.claim(r)
		} else {
			err = c.apply(r)
		}
		if err != nil {
			return err
		}
	}
	if !c.dirty {
		return nil
	}
	if err := c.seal(); err != nil {
		return err
	}
	if err := s.commit(tx); err != nil {
		return err
	}
	if c.sooner() {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return nil
}

// fail makes the store refuse everything from now on, and returns the reason.
// After a failed sync nobody knows what is on disk: a second try that succeeds
// proves nothing, since the kernel may have dropped the pages. So there is none,
// nor after any other error of a commit; to open the file anew finds out what is
// there.
func (s *Store) fail(cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = fmt.Errorf("boltstore: writing %s: %w: %w: what was acknowledged is kept; "+
			"see that the disk is well and has room, then open the file again", s.path, durable.ErrFailed, cause)
	}
	return s.failed
}

// guard turns a panic of bbolt, or a fault in its mapped memory, into an error:
// both mean that the file changed or rotted after Open had checked it.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("%w: %v", ErrDamaged, value)
		}
	}()
	return f()
}
