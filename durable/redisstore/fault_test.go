package redisstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/redisstore/redistest"
)

// long reports whether the long versions of the tests are asked for, by
// TIMINGWHEEL_LONG=1.
func long() bool { return os.Getenv("TIMINGWHEEL_LONG") != "" }

// scheduler makes a scheduler on a wheel with ticks of 10 ms.
func scheduler(t *testing.T, s durable.Store, o durable.Options) *durable.Scheduler {
	t.Helper()
	w, err := timingwheel.New(timingwheel.Options{Tick: 10 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	o.Logger = quiet("", 0).Logger
	d, err := durable.New(w, s, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// running runs a scheduler until the test ends.
func running(t *testing.T, d *durable.Scheduler) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
	})
}

// The answer to an add is lost. Whoever asks again, the client by itself or its user,
// learns what became of the first.
func TestAnAddIsRepeatable(t *testing.T) {
	p := startProxy(t, server.Addr)
	for _, retries := range []int{-1, 3} {
		client := redis.NewClient(&redis.Options{Addr: p.Addr().String(), MaxRetries: retries})
		t.Cleanup(func() { client.Close() })
		s := open(t, client, freshPrefix(), 1)
		apply(t, s, durable.Op{Kind: durable.Cancel, Topic: "t", Key: "the server knows the script then"})
		for _, kind := range []durable.Kind{durable.Put, durable.PutNew} {
			op := putOp(int(kind), lease)
			op.Kind, op.ID = kind, uint64(kind)
			before := p.lost.Load()
			p.cut.Store(true)
			got, err := s.Apply(t.Context(), []durable.Op{op})
			if p.lost.Load() == before {
				t.Fatal("no answer was lost")
			}
			if retries < 0 {
				if err == nil {
					t.Fatalf("%v without an answer returned %v", kind, got)
				}
				got = apply(t, s, op)
			}
			if len(got) != 1 || got[0] != durable.Created {
				t.Errorf("%d retries: the repeated %v answered %v, %v, want Created", retries, kind, got, err)
			}
		}
		if counts, err := s.Count(t.Context()); err != nil || counts.Live != 2 {
			t.Errorf("%d retries: %+v, %v, want 2 timers", retries, counts, err)
		}
	}
}

// The answer to a claim is lost: its timers come back when the lease ends, no earlier.
func TestALostClaimComesBack(t *testing.T) {
	p := startProxy(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: p.Addr().String(), MaxRetries: -1})
	t.Cleanup(func() { client.Close() })
	s := open(t, client, freshPrefix(), 1)
	apply(t, s, putOp(1, 0), putOp(2, 0))
	b := claim(t, open(t, client, freshPrefix(), 1), lease) // for the time
	time.Sleep(2 * time.Millisecond)                        // the delay was rounded up to a millisecond
	const short = 300 * time.Millisecond
	p.cut.Store(true)
	if b, err := s.Claim(t.Context(), 10, short); err == nil {
		t.Fatalf("a claim without an answer returned %+v", b)
	}
	claimed := 0
	for deadline := time.Now().Add(20 * time.Second); claimed < 2 && time.Now().Before(deadline); {
		again := claim(t, s, lease)
		for _, c := range again.Claimed {
			claimed++
			if held := again.Now.Sub(b.Now); held < short || c.Attempt != 2 {
				t.Errorf("%s came back after %v, the lease was %v; attempt %d", c.Key, held, short, c.Attempt)
			}
		}
		time.Sleep(min(again.Next.Sub(again.Now), short))
	}
	if claimed != 2 {
		t.Errorf("%d timers came back, want 2", claimed)
	}
}

// The clock of a client decides nothing: jumps of days, in both directions, make no
// timer early and lose none.
func TestClientClocksDecideNothing(t *testing.T) {
	real(t)
	s := open(t, clientOf(t, server.Addr), freshPrefix(), 1)
	mock := clock.NewMock()
	w, err := timingwheel.New(timingwheel.Options{Tick: 10 * time.Millisecond, Clock: timingwheel.ClockOf(mock)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	d, err := durable.New(w, s, durable.Options{Logger: quiet("", 0).Logger, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan durable.Delivery, 10)
	if err := d.Handle("order.unpaid", func(_ context.Context, d durable.Delivery) error {
		came <- d
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	running(t, d)
	const delay = 1500 * time.Millisecond
	began := time.Now()
	if _, err := d.Add(t.Context(), durable.Timer{Topic: "order.unpaid", Key: "a"}, delay); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Add(t.Context(), durable.Timer{Topic: "order.unpaid", Key: "far"}, 100*time.Hour); err != nil {
		t.Fatal(err)
	}
	mock.Add(48 * time.Hour)
	mock.Set(mock.Now().Add(-24 * time.Hour))
	for range 2000 {
		mock.Add(time.Minute) // a fast clock: a day goes by in some seconds
		select {
		case got := <-came:
			if waited := time.Since(began); got.Key != "a" || waited < delay {
				t.Errorf("%s came after %v, the delay was %v", got.Key, waited, delay)
			}
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
	t.Error("the timer did not come")
}

// A server is killed and started again, then stands still for some seconds. What was
// acknowledged comes; no lease is cut short.
func TestServerRestartsAndFreezes(t *testing.T) {
	t.Parallel()
	frozen, timers := 2*time.Second, 300
	if long() {
		frozen, timers = 30*time.Second, 3000
	}
	srv := own(t, "--appendfsync", "always")
	client := redis.NewClient(&redis.Options{Addr: srv.Addr, ReadTimeout: 500 * time.Millisecond})
	t.Cleanup(func() { client.Close() })
	book := &memory{}
	s := &redistest.Ledger{Store: open(t, client, freshPrefix(), 2), Client: client, Worker: "one", Sink: book.add}
	d := scheduler(t, s, durable.Options{Lease: time.Second, Concurrency: 16, MaxAttempts: 1000})
	if err := d.Handle("order.unpaid", func(ctx context.Context, d durable.Delivery) error {
		book.handled(d.Key)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	running(t, d)
	var adding sync.WaitGroup
	adding.Go(func() { addSteadily(t, d, timers, frozen) })
	time.Sleep(frozen / 4)
	if err := errors.Join(srv.Kill(), srv.Run()); err != nil {
		t.Fatal(err)
	}
	if err := srv.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(frozen)
	if err := srv.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	adding.Wait()
	waitEmpty(t, s.Store)
	if n := book.distinct(); n != timers {
		t.Errorf("%d timers were handled, %d were added", n, timers)
	}
	audit := redistest.NewAudit(book.entries)
	if len(audit.Overlapping)+len(audit.Early) > 0 {
		t.Errorf("overlapping: %v, early: %v", audit.Overlapping, audit.Early)
	}
	t.Logf("%d timers, %d claimed again after a lease", timers, audit.Again)
}

// addSteadily adds timers over a while, each as often as it takes.
func addSteadily(t *testing.T, d *durable.Scheduler, timers int, while time.Duration) {
	for i := range timers {
		timer := durable.Timer{Topic: "order.unpaid", Key: fmt.Sprint(i)}
		for {
			_, err := d.Add(t.Context(), timer, time.Duration(i%50)*20*time.Millisecond)
			if errors.Is(err, context.Canceled) {
				return
			}
			if err == nil {
				break
			}
		}
		time.Sleep(while / time.Duration(timers)) // so that it goes on while the server is away
	}
}

// waitEmpty waits until a store has no timers.
func waitEmpty(t *testing.T, s durable.Store) {
	t.Helper()
	var last string
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		counts, err := s.Count(t.Context())
		if err == nil && counts == (durable.Counts{}) {
			return
		}
		last = fmt.Sprint(counts, err)
	}
	t.Fatalf("timers are left: %s", last)
}

// memory keeps what a Ledger writes, and what was handled.
type memory struct {
	mu      sync.Mutex
	entries []redistest.Entry
	keys    map[string]int
}

func (m *memory) add(entries []redistest.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries = append(m.entries, entries...)
}

func (m *memory) handled(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys == nil {
		m.keys = make(map[string]int)
	}
	m.keys[key]++
}

func (m *memory) distinct() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.keys)
}
