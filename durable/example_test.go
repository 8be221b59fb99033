package durable_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/memstore"
	"github.com/fee15284/timingwheel/wheeltest"
)

// A day of an order's timeout, with a fake clock: the handler fails twice, and the
// test takes no time.
func Example_fakeClock() {
	mock := clock.NewMock() // github.com/benbjohnson/clock
	wheel, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(mock)})
	if err != nil {
		panic(err)
	}
	store := memstore.New(mock.Now)
	s, err := durable.New(wheel, store, durable.Options{MinBackoff: time.Hour, MaxBackoff: time.Hour})
	if err != nil {
		panic(err)
	}
	err = s.Handle("order.unpaid", func(_ context.Context, d durable.Delivery) error {
		fmt.Printf("attempt %d for %s, late by a tick: %t\n", d.Attempt, d.Key, d.Lateness >= time.Second)
		if d.Attempt < 3 {
			return errors.New("the warehouse does not answer")
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	s.Sync() // Run has begun

	timer := durable.Timer{Topic: "order.unpaid", Key: "A-1001"}
	if _, err := s.Add(ctx, timer, 15*time.Minute); err != nil {
		panic(err)
	}
	wheeltest.Advance(wheel, mock.Add, 15*time.Minute)
	fmt.Println(mock.Now().UTC().Format("15:04"), "and the first attempt has been made")
	wheeltest.Advance(wheel, mock.Add, 24*time.Hour)

	cancel()
	if err := <-ended; err != nil {
		panic(err)
	}
	counts, err := store.Count(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(counts.Live, "timers are left")
	// Output:
	// attempt 1 for A-1001, late by a tick: false
	// 00:15 and the first attempt has been made
	// attempt 2 for A-1001, late by a tick: false
	// attempt 3 for A-1001, late by a tick: false
	// 0 timers are left
}
