package main

import (
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheeltest"
)

// newService returns a service with a window of 15 minutes on a fake clock.
func newService(t *testing.T, opts timingwheel.Options) (*Service, *timingwheel.Wheel, *clock.Mock) {
	t.Helper()
	mock := clock.NewMock()
	opts.Clock = timingwheel.ClockOf(mock)
	w, err := timingwheel.New(opts)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	s, err := NewService(w, 15*time.Minute)
	require.NoError(t, err)
	return s, w, mock
}

func create(t *testing.T, s *Service) Order {
	t.Helper()
	o, err := s.Create("tea", 450)
	require.NoError(t, err)
	return o
}

func stateOf(t *testing.T, s *Service, id uint64) State {
	t.Helper()
	o, err := s.Order(id)
	require.NoError(t, err)
	return o.State
}

func TestUnpaidOrderExpiresWhenItsWindowIsOver(t *testing.T) {
	s, w, mock := newService(t, timingwheel.Options{})
	o := create(t, s)

	mock.Add(15*time.Minute - 1)
	w.Sync()
	assert.Equal(t, Pending, stateOf(t, s, o.ID), "a nanosecond before the deadline")

	mock.Add(1)
	w.Sync()
	got, err := s.Order(o.ID)
	require.NoError(t, err)
	assert.Equal(t, Expired, got.State)
	assert.Equal(t, o.Created.Add(15*time.Minute), got.Ended)
	assert.Zero(t, got.LateMS)
	assert.Equal(t, Stats{Created: 1, Expired: 1}, s.Stats())
}

func TestPaidOrderStaysPaid(t *testing.T) {
	s, w, mock := newService(t, timingwheel.Options{})
	o := create(t, s)

	mock.Add(10 * time.Minute)
	paid, err := s.Pay(o.ID)
	require.NoError(t, err)
	assert.Equal(t, Paid, paid.State)
	assert.Equal(t, mock.Now(), paid.Ended)
	assert.Zero(t, w.Len(), "paying takes the timeout off the wheel")

	mock.Add(time.Hour)
	w.Sync()
	assert.Equal(t, Paid, stateOf(t, s, o.ID))
	assert.Equal(t, Stats{Created: 1, Paid: 1}, s.Stats())
}

func TestEachOrderExpiresAtItsOwnTime(t *testing.T) {
	s, w, mock := newService(t, timingwheel.Options{})
	for range 60 {
		create(t, s)
		wheeltest.Advance(w, mock.Add, time.Second)
	}
	for id := uint64(1); id <= 60; id += 2 {
		_, err := s.Pay(id)
		require.NoError(t, err)
	}
	wheeltest.Advance(w, mock.Add, 15*time.Minute)
	assert.Equal(t, Stats{Created: 60, Paid: 30, Expired: 30}, s.Stats())
	for id := uint64(2); id <= 60; id += 2 {
		o, err := s.Order(id)
		require.NoError(t, err)
		assert.Equal(t, o.Deadline, o.Ended, "order %d", id)
	}
}

func TestPayingSaysWhyNot(t *testing.T) {
	s, w, mock := newService(t, timingwheel.Options{})
	paid, late := create(t, s), create(t, s)
	_, err := s.Pay(paid.ID)
	require.NoError(t, err)
	mock.Add(15 * time.Minute)
	w.Sync()

	_, err = s.Pay(late.ID)
	assert.ErrorIs(t, err, ErrTooLate)
	_, err = s.Pay(paid.ID)
	assert.ErrorIs(t, err, ErrPaid)
	_, err = s.Pay(99)
	assert.ErrorIs(t, err, ErrNotFound)
	assert.EqualError(t, err, "order 99: no such order")
	assert.Equal(t, Stats{Created: 2, Paid: 1, Expired: 1, TooLate: 1}, s.Stats())
}

// The timeout may have started when the payment comes, and then waits for the
// lock that Pay holds. Here the test holds it, and does not call Cancel.
func TestTimeoutThatComesAfterThePaymentLeavesTheOrderAlone(t *testing.T) {
	s, w, mock := newService(t, timingwheel.Options{})
	o := create(t, s)

	s.mu.Lock()
	mock.Add(15 * time.Minute)
	require.True(t, s.end(s.orders[o.ID], Paid))
	s.mu.Unlock()
	w.Sync()

	assert.EqualValues(t, 1, w.Stats().Fired, "the timeout ran")
	assert.Equal(t, Paid, stateOf(t, s, o.ID))
	assert.Zero(t, s.Stats().Expired)
}

func TestPayingAndExpiringAtTheSameMoment(t *testing.T) {
	const orders = 500
	s, w, mock := newService(t, timingwheel.Options{})
	for range orders {
		create(t, s)
	}
	told := make([]error, orders+1)
	begin := make(chan struct{})
	var customers sync.WaitGroup
	for id := uint64(1); id <= orders; id++ {
		customers.Go(func() {
			<-begin
			_, told[id] = s.Pay(id)
		})
	}
	customers.Go(func() {
		<-begin
		mock.Add(15 * time.Minute)
	})
	close(begin)
	customers.Wait()
	w.Sync()

	var paid, expired uint64
	for id := uint64(1); id <= orders; id++ {
		switch state := stateOf(t, s, id); state {
		case Paid:
			paid++
			assert.NoError(t, told[id], "order %d", id)
		case Expired:
			expired++
			assert.ErrorIs(t, told[id], ErrTooLate, "order %d", id)
		default:
			assert.Fail(t, "not ended", "order %d is %s", id, state)
		}
	}
	assert.Equal(t, Stats{Created: orders, Paid: paid, Expired: expired, TooLate: expired}, s.Stats())
	assert.Zero(t, w.Len())
}

func TestNoOrderWithoutATimeout(t *testing.T) {
	s, w, _ := newService(t, timingwheel.Options{MaxPending: 1})
	o := create(t, s)
	_, err := s.Create("tea", 450)
	assert.ErrorIs(t, err, timingwheel.ErrFull)
	_, err = s.Pay(o.ID)
	require.NoError(t, err)
	w.Stop()
	_, err = s.Create("tea", 450)
	assert.ErrorIs(t, err, timingwheel.ErrStopped)
	assert.Equal(t, Stats{Created: 1, Paid: 1}, s.Stats())
}

func TestNewServiceRefusesWhatCannotWork(t *testing.T) {
	_, err := NewService(nil, time.Minute)
	assert.EqualError(t, err, "order service: the wheel is nil")
	w, err := timingwheel.New(timingwheel.Options{})
	require.NoError(t, err)
	_, err = NewService(w, -time.Minute)
	assert.EqualError(t, err, "order service: window -1m0s is not positive")
}

func TestBadOrdersAreNamed(t *testing.T) {
	s, _, _ := newService(t, timingwheel.Options{})
	_, err := s.Create("", 450)
	assert.EqualError(t, err, "bad order: item is empty")
	_, err = s.Create("tea", 0)
	assert.EqualError(t, err, "bad order: cents 0 is not positive")
	assert.ErrorIs(t, err, ErrBadOrder)
	assert.Zero(t, s.Stats())
}
