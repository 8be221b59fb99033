package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/fee15284/timingwheel"
)

// A Service takes orders and cancels those that are not paid within a window. It
// keeps them in memory; a real one would have a database where this has a map.
// All methods may be called from several goroutines at once.
type Service struct {
	wheel    *timingwheel.Wheel
	window   time.Duration
	timeouts *timingwheel.Keyed[uint64] // one per pending order

	// mu guards all below. The wheel may be called while it is held: the wheel
	// never calls expire with a lock of its own, so the two cannot deadlock.
	mu     sync.Mutex
	orders map[uint64]*Order
	stats  Stats // but for Pending and Timeouts
}

// NewService returns a service on a wheel, which stays the caller's: other parts
// of the program may share it, a test makes it with a fake clock, and whoever
// made it stops it. The window is how long an order waits for its payment.
func NewService(w *timingwheel.Wheel, window time.Duration) (*Service, error) {
	if w == nil {
		return nil, fmt.Errorf("order service: the wheel is nil")
	}
	if window <= 0 {
		return nil, fmt.Errorf("order service: window %v is not positive", window)
	}
	s := &Service{wheel: w, window: window, orders: make(map[uint64]*Order)}
	s.timeouts = timingwheel.NewKeyed(w, s.expire)
	return s, nil
}

// Create takes an order and starts its timeout. The error wraps ErrBadOrder, or
// what the wheel said: without a timeout there is no order.
func (s *Service) Create(item string, cents int64) (Order, error) {
	switch {
	case item == "":
		return Order{}, fmt.Errorf("%w: item is empty", ErrBadOrder)
	case cents <= 0:
		return Order{}, fmt.Errorf("%w: cents %d is not positive", ErrBadOrder, cents)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	id := s.stats.Created + 1
	created := s.wheel.Now()
	// Even if the timeout ran at once it would wait for the lock, and so find
	// the order in the map.
	if err := s.timeouts.Add(id, s.window); err != nil {
		return Order{}, fmt.Errorf("order for %s: %w", item, err)
	}
	o := &Order{
		ID: id, Item: item, Cents: cents,
		State: Pending, Created: created, Deadline: created.Add(s.window),
	}
	s.orders[id] = o
	s.stats.Created++
	return *o, nil
}

// Pay ends a pending order as paid. The error wraps ErrNotFound, ErrTooLate or
// ErrPaid.
func (s *Service) Pay(id uint64) (Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.orders[id]
	if !ok {
		return Order{}, fmt.Errorf("order %d: %w", id, ErrNotFound)
	}
	if s.end(o, Paid) {
		// The answer of Cancel does not matter: if the timeout has started by
		// now, it waits for the lock and then finds that it comes too late.
		s.timeouts.Cancel(id)
		s.stats.Paid++
		return *o, nil
	}
	if o.State == Paid {
		return Order{}, fmt.Errorf("order %d: %w", id, ErrPaid)
	}
	s.stats.TooLate++
	return Order{}, fmt.Errorf("order %d: %w", id, ErrTooLate)
}

// expire is the timeout: the wheel calls it, on a goroutine of its own, when the
// window of an order is over.
func (s *Service) expire(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.orders[id]
	if !s.end(o, Expired) {
		return // it was paid while this waited for the lock
	}
	o.LateMS = milliseconds(o.Ended.Sub(o.Deadline))
	s.stats.Expired++
	// Here a real service gives the goods back to the stock and tells the
	// customer, after it has let go of the lock.
}

// end is the one place where paying and expiring meet. Whichever comes first, by
// the lock that the caller holds, ends the order; the other is told no.
func (s *Service) end(o *Order, as State) bool {
	if o.State != Pending {
		return false
	}
	o.State, o.Ended = as, s.wheel.Now()
	return true
}

// Order returns the order with that number. The error wraps ErrNotFound.
func (s *Service) Order(id uint64) (Order, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.orders[id]
	if !ok {
		return Order{}, fmt.Errorf("order %d: %w", id, ErrNotFound)
	}
	return *o, nil
}

// Stats returns what has happened since the service was made.
func (s *Service) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := s.stats
	stats.Pending = int(stats.Created - stats.Paid - stats.Expired)
	stats.Timeouts = s.timeouts.Len()
	return stats
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
