package redisstore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/redisstore/redistest"
	"github.com/fee15284/timingwheel/durable/storetest"
)

// server is what most tests use, see TestMain.
var server *redistest.Server

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" {
		work() // this is one of the processes of TestProcesses
	}
	var err error
	if server, err = redistest.Any(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("redisstore tests use %s\n", server.Kind)
	code := m.Run()
	server.Stop()
	os.Exit(code)
}

// real skips a test that needs a real server.
func real(t *testing.T) {
	t.Helper()
	if server.Mini != nil {
		t.Skip("needs a real server, has miniredis")
	}
}

// own starts a server for one test, or skips it.
func own(t *testing.T, args ...string) *redistest.Server {
	t.Helper()
	if !redistest.Found() {
		t.Skip("needs a redis-server on the PATH")
	}
	s, err := redistest.Start(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// clientOf returns a client for one test.
func clientOf(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { client.Close() })
	return client
}

var prefixes atomic.Int64

// freshPrefix returns a prefix that no other test and no other run uses.
func freshPrefix() string {
	return fmt.Sprintf("test-%d-%d-%d", os.Getpid(), time.Now().UnixNano(), prefixes.Add(1))
}

// quiet is the options of a test that does not look at the log.
func quiet(prefix string, shards int) Options {
	return Options{Prefix: prefix, Shards: shards, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
}

// open opens a store for one test.
func open(t *testing.T, client redis.UniversalClient, prefix string, shards int) *Store {
	t.Helper()
	s, err := New(t.Context(), client, quiet(prefix, shards))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		if server.Mini == nil {
			wipe(client, s)
		}
	})
	return s
}

// The suite on the server that there is.
func TestStore(t *testing.T) {
	for _, shards := range []int{1, 5} {
		t.Run(fmt.Sprintf("%d-shards", shards), func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) *storetest.Harness {
				if server.Mini != nil {
					return miniHarness(t, shards)
				}
				t.Parallel()
				return harness(t, clientOf(t, server.Addr), shards)
			})
		})
	}
}

// The suite on miniredis, whose clock is set by the test.
func TestStoreOnMiniredis(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness { return miniHarness(t, 3) })
}

// harness is a store on real time.
func harness(t *testing.T, client redis.UniversalClient, shards int) *storetest.Harness {
	prefix := freshPrefix()
	s := open(t, client, prefix, shards)
	return &storetest.Harness{
		Store:   s,
		Advance: time.Sleep,
		Unit:    20 * time.Millisecond,
		Reopen: func() durable.Store {
			s.Close()
			return open(t, client, prefix, shards)
		},
		Second:     func() durable.Store { return open(t, client, prefix, shards) },
		LooseOrder: shards > 1,
	}
}

// miniHarness is a store on a miniredis of its own.
func miniHarness(t *testing.T, shards int) *storetest.Harness {
	mini := miniredis.RunT(t)
	now := time.UnixMilli(1_700_000_000_000)
	mini.SetTime(now)
	h := harness(t, clientOf(t, mini.Addr()), shards)
	h.Unit = time.Second
	h.Advance = func(d time.Duration) {
		now = now.Add(d)
		mini.SetTime(now)
	}
	return h
}

// wipe removes the keys of a store from a server that other tests use.
func wipe(client redis.UniversalClient, s *Store) {
	ctx := context.Background()
	for _, h := range s.shards {
		client.Unlink(ctx, h.keys...)
	}
	client.Unlink(ctx, strings.TrimSuffix(s.channel, ":wake")+":shards")
}

// apply carries out operations.
func apply(t *testing.T, s durable.Store, ops ...durable.Op) []durable.Status {
	t.Helper()
	statuses, err := s.Apply(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	return statuses
}

// putOp is an operation that puts a timer with a key made of a number.
func putOp(i int, d time.Duration) durable.Op {
	return durable.Op{Kind: durable.Put, Topic: "order.unpaid", Key: fmt.Sprintf("order-%06d", i), Delay: d, Payload: []byte("payload")}
}

// lease is that of tests in which none ends.
const lease = time.Hour

// claim claims up to 100 timers.
func claim(t *testing.T, s durable.Store, lease time.Duration) durable.Batch {
	t.Helper()
	b, err := s.Claim(t.Context(), durable.MaxBatch, lease)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// one waits until a timer can be claimed.
func one(t *testing.T, s durable.Store) durable.Claimed {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		b, err := s.Claim(t.Context(), 1, lease)
		if err != nil {
			t.Fatal(err)
		}
		if len(b.Claimed) == 1 {
			return b.Claimed[0]
		}
		select {
		case <-time.After(b.Next.Sub(b.Now)):
		case <-s.Wake():
		}
	}
	t.Fatal("no timer could be claimed")
	panic("unreachable")
}
