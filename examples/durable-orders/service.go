package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

// topic is that of the timers: an order may have to expire.
const topic = "order.unpaid"

// A Service takes orders and expires those that are not paid within a window, also
// if it was not running when the window ended. All methods may be called from
// several goroutines at once.
type Service struct {
	orders *Orders
	timers *durable.Scheduler
	window time.Duration
	now    func() time.Time
}

// NewService returns a service, and registers its handler with the scheduler, which
// stays the caller's to run. The window is how long an order waits for its payment.
func NewService(orders *Orders, timers *durable.Scheduler, window time.Duration, now func() time.Time) (*Service, error) {
	if window <= 0 {
		return nil, fmt.Errorf("order service: window %v is not positive", window)
	}
	s := &Service{orders: orders, timers: timers, window: window, now: now}
	return s, timers.Handle(topic, s.expire)
}

// Create takes an order. The error wraps ErrBadOrder, or what the disk said; then
// there may be a timer without an order, which does no harm, but never an order
// without a timer.
func (s *Service) Create(ctx context.Context, item string, cents int64) (Order, error) {
	switch {
	case item == "":
		return Order{}, fmt.Errorf("%w: item is empty", ErrBadOrder)
	case cents <= 0:
		return Order{}, fmt.Errorf("%w: cents %d is not positive", ErrBadOrder, cents)
	}
	now := s.now()
	order := Order{ID: rand.Text(), Item: item, Cents: cents, State: Pending,
		Created: now, Deadline: now.Add(s.window)}
	if _, err := s.timers.AddNew(ctx, durable.Timer{Topic: topic, Key: order.ID}, s.window); err != nil {
		return Order{}, err
	}
	if err := s.orders.Put(order); err != nil {
		return Order{}, err
	}
	if s.now().Before(order.Deadline) {
		return order, nil
	}
	// That took so long that the timer may have come before the order.
	order, _, err := s.orders.End(order.ID, Expired, s.now())
	return order, err
}

// Pay ends a pending order as paid. The error wraps ErrNotFound, ErrTooLate or
// ErrPaid.
func (s *Service) Pay(ctx context.Context, id string) (Order, error) {
	order, ended, err := s.orders.End(id, Paid, s.now())
	switch {
	case err != nil:
		return Order{}, err
	case !ended && order.State == Paid:
		return Order{}, fmt.Errorf("order %q: %w", id, ErrPaid)
	case !ended:
		return Order{}, fmt.Errorf("order %q: %w", id, ErrTooLate)
	}
	// The order is paid, whatever becomes of this: if the process dies here, the
	// timer fires and finds that there is nothing to do.
	_, err = s.timers.Cancel(ctx, topic, id)
	return order, err
}

// expire is the handler of the timers. It may be called twice for an order, and for
// one that was paid a moment ago; End sees to it that it does the right thing.
func (s *Service) expire(_ context.Context, d durable.Delivery) error {
	_, _, err := s.orders.End(d.Key, Expired, s.now())
	if errors.Is(err, ErrNotFound) {
		return nil // the process died between the timer and the order
	}
	// Here a real service gives the goods back to the stock and tells the customer.
	return err
}

// Order returns an order. The error wraps ErrNotFound.
func (s *Service) Order(id string) (Order, error) { return s.orders.Get(id) }

// Stats counts orders and timers.
type Stats struct {
	Orders map[State]int `json:"orders"`
	Timers durable.Stats `json:"timers"` // since this process has started
}

// Stats returns how the orders stand.
func (s *Service) Stats() (Stats, error) {
	counts, err := s.orders.Count()
	return Stats{Orders: counts, Timers: s.timers.Stats()}, err
}
