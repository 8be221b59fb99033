package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

var measures = []measure{
	{"adds by 1 caller", func(ctx context.Context, b *bench, s subject) ([]figure, error) { return adds(ctx, b.size/4, 1, s) }},
	{"adds by 64 callers", func(ctx context.Context, b *bench, s subject) ([]figure, error) { return adds(ctx, b.size, 64, s) }},
	{"adds in batches", batches},
	{"bytes", bytesPerTimer},
	{"drain", drain},
	{"claim and ack", claimAndAck},
	{"lateness", func(ctx context.Context, b *bench, s subject) ([]figure, error) { return lateness(ctx, "idle", 0, s) }},
	{"lateness under load", func(ctx context.Context, b *bench, s subject) ([]figure, error) {
		return lateness(ctx, "under load", 16, s)
	}},
}

func nameOf(i int) string { return fmt.Sprintf("order-%010d", i) }

func perSecond(n int, began time.Time) float64 { return float64(n) / time.Since(began).Seconds() }

// fill has several callers add n timers.
func fill(ctx context.Context, n, callers int, d time.Duration, s subject) error {
	var (
		wg     sync.WaitGroup
		next   atomic.Int64
		failed atomic.Value
	)
	for range callers {
		wg.Go(func() {
			for i := int(next.Add(1)); i <= n; i = int(next.Add(1)) {
				if err := s.add(ctx, nameOf(i), d); err != nil {
					failed.Store(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return err.(error)
	}
	return nil
}

func adds(ctx context.Context, n, callers int, s subject) ([]figure, error) {
	began := time.Now()
	err := fill(ctx, n, callers, time.Hour, s)
	return []figure{{fmt.Sprintf("adds/s, %d callers", callers), perSecond(n, began)}}, err
}

// batches is for subjects that can add many at once.
func batches(ctx context.Context, b *bench, s subject) ([]figure, error) {
	store, ok := s.(*ours)
	if !ok {
		return nil, nil
	}
	n := 5 * b.size
	began := time.Now()
	for first := 0; first < n; first += durable.MaxBatch {
		ops := make([]durable.Op, durable.MaxBatch)
		for i := range ops {
			ops[i] = store.op(nameOf(first+i), time.Hour)
		}
		if _, err := store.store.Apply(ctx, ops); err != nil {
			return nil, err
		}
	}
	return []figure{{"adds/s, 1 caller, batches of 100", perSecond(n, began)}}, nil
}

// bytesPerTimer compares the server's memory before and after.
func bytesPerTimer(ctx context.Context, b *bench, s subject) ([]figure, error) {
	before, err := b.memory(ctx)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, b.size, 64, time.Hour, s); err != nil {
		return nil, err
	}
	after, err := b.memory(ctx)
	return []figure{{"bytes of memory per timer", (after - before) / float64(b.size)}}, err
}

// memory returns what the server uses, without its buffers.
func (b *bench) memory(ctx context.Context) (float64, error) {
	info, err := b.client.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	var used float64
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.ParseFloat(value, 64)
		switch {
		case err != nil:
		case name == "used_memory":
			used += n
		case name == "mem_aof_buffer" || name == "mem_clients_normal":
			used -= n
		}
	}
	return used, nil
}

// drain puts timers that are due together, and has one consumer handle them.
func drain(ctx context.Context, b *bench, s subject) ([]figure, error) {
	const wait = 2 * time.Second
	if err := fill(ctx, b.size, 64, wait, s); err != nil {
		return nil, err
	}
	time.Sleep(wait + time.Second) // all are due
	var handled atomic.Int64
	var first atomic.Int64
	done := make(chan bool)
	stop, err := s.serve(func(string) {
		first.CompareAndSwap(0, time.Now().UnixNano())
		if handled.Add(1) == int64(b.size) {
			close(done)
		}
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		return nil, fmt.Errorf("%d of %d timers were handled", handled.Load(), b.size)
	}
	// From the first one, so that when a consumer first looks does not count.
	return []figure{{"drained timers/s, 64 handlers", perSecond(b.size, time.Unix(0, first.Load()))}}, nil
}

// claimAndAck is for subjects that let others claim.
func claimAndAck(ctx context.Context, b *bench, s subject) ([]figure, error) {
	store, ok := s.(*ours)
	if !ok {
		return nil, nil
	}
	if err := fill(ctx, b.size, 64, 0, s); err != nil {
		return nil, err
	}
	began := time.Now()
	for left := b.size; left > 0; {
		batch, err := store.store.Claim(ctx, durable.MaxBatch, time.Minute)
		if err != nil {
			return nil, err
		}
		ops := make([]durable.Op, len(batch.Claimed))
		for i, c := range batch.Claimed {
			ops[i] = durable.Op{Kind: durable.Ack, Topic: c.Topic, Key: c.Key, Token: c.Token}
		}
		if len(ops) == 0 {
			continue
		}
		if _, err := store.store.Apply(ctx, ops); err != nil {
			return nil, err
		}
		left -= len(ops)
	}
	return []figure{{"claim+ack/s, 1 consumer", perSecond(b.size, began)}}, nil
}

// pressure has some callers add timers as fast as they can, until the function that it
// returns is called.
func pressure(ctx context.Context, callers int, s subject) (stop func()) {
	ctx, quit := context.WithCancel(ctx)
	var load sync.WaitGroup
	for i := range callers {
		load.Go(func() {
			for n := 0; s.add(ctx, fmt.Sprintf("load-%02d-%08d", i, n), time.Hour) == nil; n++ {
			}
		})
	}
	return func() { quit(); load.Wait() }
}

// lateness puts some timers with random delays, perhaps while some callers add others
// as fast as they can, and measures when they come: from the moment at which the add
// was begun, by the clock of this process.
func lateness(ctx context.Context, how string, callers int, s subject) ([]figure, error) {
	const timers, within = 500, 6 * time.Second
	var (
		mu   sync.Mutex
		due  = make(map[string]time.Time)
		late []float64
	)
	done := make(chan bool)
	stop, err := s.serve(func(name string) {
		now := time.Now()
		mu.Lock()
		defer mu.Unlock()
		if at, ok := due[name]; ok {
			delete(due, name)
			if late = append(late, float64(now.Sub(at))/1e6); len(late) == timers {
				close(done)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	defer pressure(ctx, callers, s)()
	for i := range timers {
		d := rand.N(within) + 100*time.Millisecond
		mu.Lock()
		due[nameOf(i)] = time.Now().Add(d)
		mu.Unlock()
		if err := s.add(ctx, nameOf(i), d); err != nil {
			return nil, err
		}
	}
	select {
	case <-done:
	case <-time.After(within + 20*time.Second):
		return nil, fmt.Errorf("%d of %d timers came", len(late), timers)
	}
	slices.Sort(late)
	return []figure{
		{"lateness min, ms, " + how, late[0]},
		{"lateness p50, ms, " + how, late[timers/2]},
		{"lateness p99, ms, " + how, late[timers*99/100]},
	}, nil
}
