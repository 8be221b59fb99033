package redisstore_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/redisstore"
	"github.com/fee15284/timingwheel/durable/redisstore/redistest"
)

func expireIfUnpaid(_ context.Context, order string) error {
	fmt.Println(order, "has expired")
	return nil
}

// One of the processes of a service whose timeouts are shared.
func Example() {
	server, err := redistest.StartMini() // a service has a server already
	if err != nil {
		log.Fatal(err)
	}
	defer server.Stop()
	addr := server.Addr
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()

	client := redis.NewClient(&redis.Options{Addr: addr}) // or NewFailoverClient, NewClusterClient
	defer client.Close()
	store, err := redisstore.New(ctx, client, redisstore.Options{})
	if err != nil {
		log.Fatal(err) // a server that is too old, or another number of shards
	}
	defer store.Close()
	wheel, err := timingwheel.New(timingwheel.Options{Tick: 10 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer wheel.Stop()
	timers, err := durable.New(wheel, store, durable.Options{Lease: 30 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	err = timers.Handle("order.unpaid", func(ctx context.Context, d durable.Delivery) error {
		return expireIfUnpaid(ctx, d.Key) // may be called twice: it checks
	})
	if err != nil {
		log.Fatal(err)
	}
	_, err = timers.Add(ctx, durable.Timer{Topic: "order.unpaid", Key: "A-1001"}, 200*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	if err := timers.Run(ctx); err != nil { // until ctx ends
		log.Fatal(err)
	}
	// Output: A-1001 has expired
}
