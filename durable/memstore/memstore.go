// Package memstore keeps durable timers in memory: for tests, and as the shortest
// description of what a durable.Store does. Nothing survives the process.
package memstore

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

// A Store is a durable.Store in memory. Make one with New.
type Store struct {
	now  func() time.Time
	wake chan struct{}

	mu     sync.Mutex // guards all below
	timers map[name]*timer
	live   queue // all but the dead
	dead   int
	next   time.Time // what the last Claim said
	latest time.Time // the clock has been there
	closed bool
}

type name struct{ topic, key string }

type state uint8

const (
	pending state = iota
	inFlight
	dead
)

type timer struct {
	durable.Timer
	state    state
	id       uint64    // of the operation that put it
	look     time.Time // when somebody must look next: due, or the end of the lease
	due      time.Time
	died     time.Time
	attempts int
	token    string
	err      string
	seat     int // place in the queue
}

// New returns an empty store. now is the clock, nil means time.Now; if it steps
// back, the store's time stands still until it has caught up. It is called with the
// store's lock held.
func New(now func() time.Time) *Store {
	if now == nil {
		now = time.Now
	}
	return &Store{now: now, wake: make(chan struct{}, 1), timers: make(map[name]*timer)}
}

// Wake implements durable.Store.
func (s *Store) Wake() <-chan struct{} { return s.wake }

// Close implements durable.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

// enter locks the store for a call, and reads the clock, unless it must refuse.
func (s *Store) enter(ctx context.Context, invalid error) error {
	if invalid != nil {
		return invalid
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("memstore: %w", durable.ErrClosed)
	}
	if now := s.now(); now.After(s.latest) {
		s.latest = now
	}
	return nil
}

// Count implements durable.Store.
func (s *Store) Count(ctx context.Context) (durable.Counts, error) {
	if err := s.enter(ctx, nil); err != nil {
		return durable.Counts{}, err
	}
	defer s.mu.Unlock()
	return durable.Counts{Live: len(s.live), Dead: s.dead}, nil
}

// Dead implements durable.Store, in the order of topics and keys. It costs
// O(n log n).
func (s *Store) Dead(ctx context.Context, skip, max int) ([]durable.DeadTimer, error) {
	if err := s.enter(ctx, durable.CheckDead(skip, max)); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var all []durable.DeadTimer
	for _, t := range s.timers {
		if t.state == dead {
			d := durable.DeadTimer{Timer: t.Timer, Died: t.died, Attempts: t.attempts, LastError: t.err}
			d.Payload = slices.Clone(d.Payload)
			all = append(all, d)
		}
	}
	slices.SortFunc(all, func(a, b durable.DeadTimer) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Key, b.Key))
	})
	all = all[min(skip, len(all)):]
	return all[:min(max, len(all))], nil
}

// Claim implements durable.Store.
func (s *Store) Claim(ctx context.Context, max int, lease time.Duration) (durable.Batch, error) {
	if err := s.enter(ctx, durable.CheckClaim(max, lease)); err != nil {
		return durable.Batch{}, err
	}
	defer s.mu.Unlock()
	b := durable.Batch{Now: s.latest}
	for len(b.Claimed) < max && len(s.live) > 0 && !s.live[0].look.After(s.latest) {
		t := s.live[0]
		t.state, t.token = inFlight, fmt.Sprintf("%016x", rand.Uint64())
		t.attempts++
		s.move(t, lease)
		c := durable.Claimed{Timer: t.Timer, Token: t.token, Due: t.due, Attempt: t.attempts, LastError: t.err}
		c.Payload = slices.Clone(c.Payload)
		b.Claimed = append(b.Claimed, c)
	}
	if len(s.live) > 0 {
		b.Next = s.live[0].look
	}
	s.next = b.Next
	return b, nil
}

// Apply implements durable.Store.
func (s *Store) Apply(ctx context.Context, ops []durable.Op) ([]durable.Status, error) {
	if err := s.enter(ctx, durable.CheckOps(ops)); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	statuses := make([]durable.Status, len(ops))
	for i := range ops {
		statuses[i] = s.apply(&ops[i])
	}
	if len(s.live) > 0 && (s.next.IsZero() || s.live[0].look.Before(s.next)) {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return statuses, nil
}

// The rest is called with the lock held.

func (s *Store) apply(op *durable.Op) durable.Status {
	t := s.timers[name{op.Topic, op.Key}]
	switch op.Kind {
	case durable.Put, durable.PutNew:
		return s.put(t, op)
	case durable.Cancel:
		return s.cancel(t)
	case durable.Redrive:
		if t == nil || t.state != dead {
			return durable.NotFound
		}
		t.attempts = 0
		s.revive(t, op.Delay)
		return durable.Done
	}
	if t == nil || t.state != inFlight || t.token != op.Token {
		return durable.Stale
	}
	s.settle(t, op)
	return durable.Done
}

func (s *Store) put(t *timer, op *durable.Op) durable.Status {
	status := durable.Created
	if t != nil {
		switch {
		case t.state == pending && t.id == op.ID && op.ID != 0:
			return durable.Created
		case op.Kind == durable.PutNew:
			return [...]durable.Status{pending: durable.Exists, inFlight: durable.InFlight, dead: durable.Dead}[t.state]
		}
		s.remove(t)
		status = durable.Replaced
	}
	t = &timer{Timer: durable.Timer{Topic: op.Topic, Key: op.Key, Payload: slices.Clone(op.Payload)}, id: op.ID}
	s.timers[name{op.Topic, op.Key}] = t
	t.look = s.after(op.Delay)
	t.due = t.look
	heap.Push(&s.live, t)
	return status
}

func (s *Store) cancel(t *timer) durable.Status {
	if t == nil {
		return durable.NotFound
	}
	s.remove(t)
	if t.state == inFlight {
		return durable.InFlight
	}
	return durable.Canceled
}

// settle carries out what the holder of a claim decided.
func (s *Store) settle(t *timer, op *durable.Op) {
	switch op.Kind {
	case durable.Ack:
		s.remove(t)
	case durable.Extend:
		s.move(t, op.Delay)
	case durable.Bury:
		heap.Remove(&s.live, t.seat)
		t.state, t.died, t.err = dead, s.latest, op.Error
		s.dead++
	case durable.Retry:
		if op.Uncounted {
			t.attempts--
		} else {
			t.err = op.Error
		}
		t.state = pending
		s.move(t, op.Delay)
		t.due = t.look
	}
}

func (s *Store) revive(t *timer, d time.Duration) {
	s.dead--
	t.state = pending
	t.look = s.after(d)
	t.due = t.look
	heap.Push(&s.live, t)
}

func (s *Store) remove(t *timer) {
	delete(s.timers, name{t.Topic, t.Key})
	if t.state == dead {
		s.dead--
	} else {
		heap.Remove(&s.live, t.seat)
	}
}

// move makes somebody look at a live timer after d.
func (s *Store) move(t *timer, d time.Duration) {
	t.look = s.after(d)
	heap.Fix(&s.live, t.seat)
}

// after returns the instant d from now.
func (s *Store) after(d time.Duration) time.Time { return s.latest.Add(max(d, 0)) }

// A queue is a heap of timers, those to be looked at first first.
type queue []*timer

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].look.Before(q[j].look) }
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].seat, q[j].seat = i, j
}

// Push is for package heap.
func (q *queue) Push(x any) {
	t := x.(*timer)
	t.seat = len(*q)
	*q = append(*q, t)
}

// Pop is for package heap.
func (q *queue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return t
}
