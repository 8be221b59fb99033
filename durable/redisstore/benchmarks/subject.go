package main

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/redisstore"
)

var subjects = []func(context.Context, *bench) (subject, error){
	openOurs,
	func(_ context.Context, b *bench) (subject, error) { return openAsynq(b, 0), nil },
	func(_ context.Context, b *bench) (subject, error) { return openAsynq(b, time.Second), nil },
}

const (
	topic   = "order.unpaid"
	payload = "sixteen bytes ok"
)

// ours is redisstore under a Scheduler.
type ours struct {
	store  *redisstore.Store
	wheel  *timingwheel.Wheel
	timers *durable.Scheduler
}

func openOurs(ctx context.Context, b *bench) (subject, error) {
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	store, err := redisstore.New(ctx, b.client, redisstore.Options{Logger: quiet})
	if err != nil {
		return nil, err
	}
	wheel, err := timingwheel.New(timingwheel.Options{Tick: 10 * time.Millisecond})
	if err != nil {
		return nil, err
	}
	timers, err := durable.New(wheel, store, durable.Options{Concurrency: 64, Logger: quiet})
	return &ours{store, wheel, timers}, err
}

func (o *ours) name() string { return "redisstore" }

func (o *ours) op(name string, d time.Duration) durable.Op {
	return durable.Op{Kind: durable.Put, Topic: topic, Key: name, Payload: []byte(payload), Delay: d, ID: 1}
}

func (o *ours) add(ctx context.Context, name string, d time.Duration) error {
	_, err := o.timers.Add(ctx, durable.Timer{Topic: topic, Key: name, Payload: []byte(payload)}, d)
	return err
}

func (o *ours) serve(handle func(string)) (func(), error) {
	if err := o.timers.Handle(topic, func(_ context.Context, d durable.Delivery) error {
		handle(d.Key)
		return nil
	}); err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := o.timers.Run(ctx); err != nil {
			slog.Error("Run", "error", err)
		}
	})
	return func() { stop(); running.Wait() }, nil
}

func (o *ours) close() {
	o.store.Close()
	o.wheel.Stop()
}

// queue is asynq. The task has the name as its ID, so that a name is there once, as
// with a key of ours.
type queue struct {
	client *asynq.Client
	config asynq.Config
	redis  asynq.RedisClientOpt
	called string
}

func openAsynq(b *bench, interval time.Duration) subject {
	q := &queue{redis: asynq.RedisClientOpt{Addr: b.addr, PoolSize: 80}, called: "asynq, default"}
	q.config = asynq.Config{Concurrency: 64, DelayedTaskCheckInterval: interval, LogLevel: asynq.FatalLevel}
	if interval > 0 {
		q.called = "asynq, checks each " + interval.String()
	}
	q.client = asynq.NewClient(q.redis)
	return q
}

func (q *queue) name() string { return q.called }

func (q *queue) add(ctx context.Context, name string, d time.Duration) error {
	_, err := q.client.EnqueueContext(ctx, asynq.NewTask(topic, []byte(payload)), asynq.TaskID(name), asynq.ProcessIn(d))
	return err
}

func (q *queue) serve(handle func(string)) (func(), error) {
	server := asynq.NewServer(q.redis, q.config)
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		id, _ := asynq.GetTaskID(ctx)
		handle(id)
		return nil
	}))
	return server.Shutdown, err
}

func (q *queue) close() { q.client.Close() }
