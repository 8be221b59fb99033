package redisstore

import (
	"context"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
)

// While a server stands still, callers gather. They can leave when their context
// ends; when it goes on, the others are served by few scripts, each with its answer.
func TestCallersGatherAndMayLeave(t *testing.T) {
	t.Parallel()
	srv := own(t)
	client := redis.NewClient(&redis.Options{Addr: srv.Addr, MaxRetries: -1, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, freshPrefix(), 1)
	apply(t, s, putOp(0, lease))
	before := scripts(t, client)
	if err := srv.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	const callers = 250
	var served, impatient sync.WaitGroup
	leave, left := context.WithCancel(t.Context())
	for i := range callers {
		served.Go(func() {
			got, err := s.Apply(t.Context(), []durable.Op{putOp(i, lease), putOp(callers+i, lease)})
			want := durable.Created
			if i == 0 {
				want = durable.Replaced
			}
			if err != nil || got[0] != want || got[1] != durable.Created {
				t.Errorf("caller %d: %v, %v", i, got, err)
			}
		})
	}
	awaitBusy(t, s.shards[0])
	impatient.Go(func() {
		_, err := s.Apply(leave, []durable.Op{putOp(2*callers, lease)})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a caller whose context ended: %v", err)
		}
	})
	awaitWaiting(t, s.shards[0], callers)
	left()
	impatient.Wait() // the server still stands
	if err := srv.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	served.Wait()
	if n := scripts(t, client) - before; n > 10 {
		t.Errorf("%d callers with 2 operations each needed %d scripts", callers, n)
	}
}

// awaitBusy waits until somebody sends.
func awaitBusy(t *testing.T, h *shard) {
	t.Helper()
	await(t, func() bool {
		h.outlet.mu.Lock()
		defer h.outlet.mu.Unlock()
		return h.outlet.busy
	})
}

// awaitWaiting waits until so many parcels wait.
func awaitWaiting(t *testing.T, h *shard, n int) {
	t.Helper()
	await(t, func() bool {
		h.outlet.mu.Lock()
		defer h.outlet.mu.Unlock()
		return len(h.outlet.waiting) >= n
	})
}

func await(t *testing.T, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not happen")
		}
	}
}

// scripts returns how many scripts a server has run.
func scripts(t *testing.T, client *redis.Client) int {
	t.Helper()
	return countOf(t, client, "cmdstat_evalsha")
}
