package boltstore_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/boltstore"
)

func expireIfUnpaid(context.Context, string) error { return nil }

// A service whose orders' timeouts outlive it.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	wheel, err := timingwheel.New(timingwheel.Options{Tick: 100 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	store, err := boltstore.Open("timers.db", boltstore.Options{})
	if err != nil {
		log.Fatal(err) // says which file, and what to do
	}
	defer store.Close()
	timers, err := durable.New(wheel, store, durable.Options{})
	if err != nil {
		log.Fatal(err)
	}
	err = timers.Handle("order.unpaid", func(ctx context.Context, d durable.Delivery) error {
		return expireIfUnpaid(ctx, d.Key) // may be called twice: it checks
	})
	if err != nil {
		log.Fatal(err)
	}

	// When the order is created; it is on disk when Add returns:
	_, err = timers.Add(ctx, durable.Timer{Topic: "order.unpaid", Key: "A-1001"}, 15*time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	// When it is paid: Canceled, InFlight (too late, or about to be) or NotFound.
	status, err := timers.Cancel(ctx, "order.unpaid", "A-1001")
	fmt.Println(status, err)

	if err := timers.Run(ctx); err != nil { // until ctx ends; waits for its handlers
		log.Fatal(err)
	}
}
