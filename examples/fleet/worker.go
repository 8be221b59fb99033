package main

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/redisstore/redistest"
)

// workerEnv makes this program a worker; it has the address of the server.
const workerEnv = "FLEET_WORKER"

// topic is that of the only kind of timer here.
const topic = "order.unpaid"

// A worker is one of the processes: a shop with its own customers.
type worker struct {
	name, prefix string
	client       *redis.Client
	wheel        *timingwheel.Wheel
	timers       *durable.Scheduler

	every, span, within, lease time.Duration
}

// runWorker runs until the process is told to end, or killed.
func runWorker(addr string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	w := &worker{name: os.Getenv("FLEET_NAME"), prefix: os.Getenv("FLEET_PREFIX")}
	for name, d := range map[string]*time.Duration{
		"FLEET_EVERY": &w.every, "FLEET_FOR": &w.span, "FLEET_WITHIN": &w.within, "FLEET_LEASE": &w.lease,
	} {
		var err error
		if *d, err = time.ParseDuration(os.Getenv(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	w.client = redis.NewClient(&redis.Options{Addr: addr})
	defer w.client.Close()
	store, err := openStore(ctx, w.client, w.prefix)
	if err != nil {
		return err
	}
	defer store.Close()
	if w.wheel, err = timingwheel.New(timingwheel.Options{Tick: 10 * time.Millisecond}); err != nil {
		return err
	}
	defer w.wheel.Stop()
	// A real service would hand over the store itself. The ledger writes down what
	// the store answers, for the report.
	ledger := &redistest.Ledger{
		Store: store, Client: w.client, Worker: w.name,
		Sink: redistest.ListSink(w.client, w.prefix+":ledger", func(err error) { slog.Error("the ledger", "error", err) }),
	}
	if w.timers, err = durable.New(w.wheel, ledger, durable.Options{Lease: w.lease, Concurrency: 16}); err != nil {
		return err
	}
	if err := w.timers.Handle(topic, w.expire); err != nil {
		return err
	}
	go w.sell(ctx)
	return w.timers.Run(ctx)
}

// sell creates orders.
func (w *worker) sell(ctx context.Context) {
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	end := time.After(w.span)
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-end:
			return
		case <-ticker.C:
		}
		if err := w.create(ctx, fmt.Sprintf("%s-%d", w.name, n)); err != nil && ctx.Err() == nil {
			slog.Error("an order cannot be created", "error", err)
		}
	}
}

// create creates an order. The timer comes first: if this process dies then, it
// expires an order that nobody has, which does no harm; the other way round an order
// would stay unpaid for ever.
func (w *worker) create(ctx context.Context, order string) error {
	timer := durable.Timer{Topic: topic, Key: order, Payload: []byte("sold by " + w.name)}
	if _, err := w.timers.Add(ctx, timer, w.within); err != nil {
		return err
	}
	if err := w.client.SAdd(ctx, w.prefix+":created", order).Err(); err != nil {
		return err
	}
	if rand.N(10) < 4 {
		return nil // this customer never pays
	}
	_, err := w.wheel.Add(rand.N(w.within*11/10), func() { // some pay too late
		if err := w.pay(ctx, order); err != nil && ctx.Err() == nil {
			slog.Error("an order cannot be paid", "order", order, "error", err)
		}
	})
	return err
}

// decide gives an order its fate, if it has none yet: paid or expired. This is what
// makes a handler that may run twice harmless.
func (w *worker) decide(ctx context.Context, order, fate string) (bool, error) {
	return w.client.HSetNX(ctx, w.prefix+":fates", order, fate+" "+w.name).Result()
}

// pay takes a payment, if the order has not expired, and takes the timer back.
func (w *worker) pay(ctx context.Context, order string) error {
	paid, err := w.decide(ctx, order, "paid")
	if err != nil || !paid {
		return err
	}
	_, err = w.timers.Cancel(ctx, topic, order)
	return err
}

// expire is the handler.
func (w *worker) expire(ctx context.Context, d durable.Delivery) error {
	if err := sleep(ctx, 40*time.Millisecond); err != nil { // stands for work that takes time
		return err
	}
	expired, err := w.decide(ctx, d.Key, "expired")
	if err != nil {
		return err
	}
	if expired {
		return w.client.HIncrBy(ctx, w.prefix+":expiries", d.Key, 1).Err()
	}
	return nil
}
