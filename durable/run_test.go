package durable_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/memstore"
)

// A held handler runs until the test lets it go, or its context ends.
type held struct {
	started chan durable.Delivery
	finish  chan error
	ended   chan error // the cause with which the context ended
}

func (b *bench) hold() *held {
	h := &held{make(chan durable.Delivery, 100), make(chan error), make(chan error, 100)}
	b.handle(func(ctx context.Context, d durable.Delivery) error {
		h.started <- d
		select {
		case err := <-h.finish:
			return err
		case <-ctx.Done():
			h.ended <- context.Cause(ctx)
			return ctx.Err()
		}
	})
	return h
}

// extends counts the answers to extensions.
func (b *bench) extends() <-chan durable.Status {
	answers := make(chan durable.Status, 100)
	b.store.interfere(func() {
		b.store.applied = func(op durable.Op, status durable.Status) {
			if op.Kind == durable.Extend {
				answers <- status
			}
		}
	})
	return answers
}

func TestLeaseIsExtendedWhileTheHandlerRuns(t *testing.T) {
	b := newBench(t, durable.Options{Lease: 30 * time.Second})
	answers := b.extends()
	h := b.hold()
	b.run()
	b.add("o-1", 0)
	<-h.started
	for range 30 { // five minutes, ten times the lease
		b.mock.Add(10 * time.Second)
		if status := <-answers; status != durable.Done {
			t.Fatal(status)
		}
	}
	if got, err := b.store.Claim(b.ctx, 1, time.Minute); err != nil || len(got.Claimed) != 0 {
		t.Fatalf("somebody else could claim it: %+v, %v", got, err)
	}
	h.finish <- nil
	b.s.Sync()
	b.counts(0, 0)
	if st := b.s.Stats(); st.Succeeded != 1 || st.Lost != 0 || st.Delivered != 1 {
		t.Fatalf("%+v", st)
	}
}

func TestHandlerIsCancelledWhenTheStoreSaysTheLeaseIsLost(t *testing.T) {
	b := newBench(t, durable.Options{})
	answers := b.extends()
	h := b.hold()
	b.run()
	b.add("o-1", 0)
	<-h.started
	if status, err := b.s.Cancel(b.ctx, topic, "o-1"); status != durable.InFlight || err != nil {
		t.Fatal(status, err)
	}
	b.mock.Add(10 * time.Second)
	if status := <-answers; status != durable.Stale {
		t.Fatal(status)
	}
	if cause := <-h.ended; !errors.Is(cause, durable.ErrLeaseLost) {
		t.Fatal(cause)
	}
	b.s.Sync()
	b.counts(0, 0)
	if st := b.s.Stats(); st.Lost != 1 || st.Retried != 0 || st.Died != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestHandlerIsCancelledWhenTheLeaseCannotBeExtended(t *testing.T) {
	b := newBench(t, durable.Options{Lease: 30 * time.Second})
	var tried atomic.Int64
	b.store.interfere(func() {
		b.store.onApply = func(op durable.Op) error {
			if op.Kind == durable.Extend && tried.Add(1) > 0 {
				return errors.New("connection refused")
			}
			return nil
		}
	})
	h := b.hold()
	b.run()
	b.add("o-1", 0)
	<-h.started
	b.mock.Add(30 * time.Second)
	if cause := <-h.ended; !errors.Is(cause, durable.ErrLeaseLost) {
		t.Fatal(cause)
	}
	if tried.Load() == 0 {
		t.Fatal("it did not try")
	}
}

func TestRunEndsGracefully(t *testing.T) { synctest.Test(t, testRunEndsGracefully) }

func testRunEndsGracefully(t *testing.T) {
	b := newBench(t, durable.Options{Concurrency: 3})
	release := make(chan struct{})
	started := make(chan string, 10)
	b.handle(func(ctx context.Context, d durable.Delivery) error {
		started <- d.Key
		<-ctx.Done()
		<-release // it takes its time to end
		if d.Key == "done" {
			return nil
		}
		return fmt.Errorf("giving up: %w", ctx.Err())
	})
	for _, key := range []string{"done", "cut", "off", "waiting"} {
		b.add(key, 0)
		b.mock.Add(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	ended := make(chan error, 1)
	go func() { ended <- b.s.Run(ctx) }()
	for range 3 {
		<-started
	}
	if err := b.s.Run(ctx); !errors.Is(err, durable.ErrRunning) {
		t.Fatal(err)
	}
	cancel()
	synctest.Wait()
	select {
	case <-ended:
		t.Fatal("Run did not wait for its handlers")
	default:
	}
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	b.counts(3, 0)
	if st := b.s.Stats(); st.Succeeded != 1 || st.Interrupted != 2 || st.Running != 0 || st.Delivered != 3 {
		t.Fatalf("%+v", st)
	}

	// Nothing waits for a lease: another process can go on at once, and no attempt
	// has been counted.
	b.scheduler(durable.Options{})
	r := b.record(nil)
	b.run()
	if len(r.runs) != 3 {
		t.Fatalf("%v ran afterwards", r.keys())
	}
	for _, run := range r.runs {
		if run.Attempt != 1 {
			t.Fatalf("%s: attempt %d", run.Key, run.Attempt)
		}
	}
}

func TestRunCanBeCalledAgain(t *testing.T) {
	b := newBench(t, durable.Options{})
	r := b.record(nil)
	for i := range 3 {
		stop := b.run()
		b.add(fmt.Sprint(i), time.Minute)
		b.advance(2 * time.Minute)
		b.add(fmt.Sprint("later-", i), time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		b.mock.Add(time.Hour)
		b.wheel.Sync()
		if len(r.runs) != 2*i+1 {
			t.Fatalf("after round %d: %v", i, r.keys())
		}
	}
	b.run()
	if len(r.runs) != 6 {
		t.Fatal(r.keys())
	}
}

func TestPassingErrorsOfTheStoreAreTriedAgain(t *testing.T) {
	b := newBench(t, durable.Options{})
	r := b.record(nil)
	b.run()
	b.add("o-1", time.Minute)
	b.s.Sync() // else the claim to which adding led may come to the store when the minute is over
	down := errors.New("connection refused")
	b.store.interfere(func() { b.store.onClaim = func() error { return down } })
	b.advance(5 * time.Minute)
	if st := b.s.Stats(); len(r.runs) != 0 || st.StoreErrors < 100 || st.StoreErrors > 310 {
		t.Fatalf("%d runs, %+v", len(r.runs), st)
	}
	b.store.interfere(func() { b.store.onClaim = nil })
	b.advance(2 * time.Second)
	if len(r.runs) != 1 || r.runs[0].Attempt != 1 {
		t.Fatalf("%+v", r.runs)
	}

	// An outcome that cannot be stored is kept, as long as the lease lasts.
	b.store.interfere(func() {
		b.store.onApply = func(op durable.Op) error {
			if op.Kind == durable.Ack {
				return down
			}
			return nil
		}
	})
	b.add("o-2", 0)
	b.advance(10 * time.Second)
	if len(r.runs) != 2 || b.s.Stats().Succeeded != 1 {
		t.Fatalf("%d runs, %+v", len(r.runs), b.s.Stats())
	}
	b.store.interfere(func() { b.store.onApply = nil })
	b.advance(2 * time.Second)
	if st := b.s.Stats(); len(r.runs) != 2 || st.Succeeded != 2 || st.Lost != 0 {
		t.Fatalf("%d runs, %+v", len(r.runs), st)
	}
	b.counts(0, 0)
}

// An acknowledgement that is lost costs one more delivery, and loses nothing.
func TestLostAckCostsOneMoreDelivery(t *testing.T) {
	b := newBench(t, durable.Options{Lease: 30 * time.Second})
	r := b.record(nil)
	b.store.interfere(func() {
		b.store.onApply = func(op durable.Op) error {
			if op.Kind == durable.Ack {
				return errors.New("connection reset")
			}
			return nil
		}
	})
	stop := b.run()
	b.add("o-1", time.Second)
	b.advance(2 * time.Second)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	b.counts(1, 0)
	b.store.interfere(func() { b.store.onApply = nil })
	b.mock.Add(time.Minute)
	b.run()
	if len(r.runs) != 2 || r.runs[1].Attempt != 2 {
		t.Fatalf("%+v", r.runs)
	}
	b.counts(0, 0)
}

func TestRunReturnsErrorsThatDoNotPass(t *testing.T) {
	for _, fatal := range []error{durable.ErrFailed, durable.ErrClosed} {
		b := newBench(t, durable.Options{})
		h := b.hold()
		stop := b.run()
		b.add("o-1", 0)
		<-h.started
		b.store.interfere(func() { b.store.onClaim = func() error { return fmt.Errorf("orders.db: %w", fatal) } })
		b.add("o-2", 0)
		<-h.ended // Run ends by itself, and ends the handler
		if err := stop(); !errors.Is(err, fatal) {
			t.Fatal(err)
		}
		b.counts(2, 0)
	}

	b := newBench(t, durable.Options{})
	b.record(nil)
	stop := b.run()
	b.store.interfere(func() {
		b.store.onApply = func(op durable.Op) error {
			if op.Kind == durable.Ack {
				return durable.ErrFailed
			}
			return nil
		}
	})
	b.add("o-1", 0)
	b.wheel.Sync()
	if err := stop(); !errors.Is(err, durable.ErrFailed) {
		t.Fatal(err)
	}
}

func TestRunNeedsARunningWheel(t *testing.T) {
	b := newBench(t, durable.Options{})
	b.record(nil)
	b.add("o-1", time.Minute)
	b.wheel.Stop()
	if err := b.s.Run(b.ctx); !errors.Is(err, timingwheel.ErrStopped) {
		t.Fatal(err)
	}
	b.counts(1, 0)
}

// With one place on the wheel, which the alarm shares with whatever the handler
// adds, leases are extended all the same: the alarm gives its place up in time.
func TestOnePlaceOnTheWheelIsEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := timingwheel.New(timingwheel.Options{Concurrency: 1, Tick: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		store := memstore.New(nil)
		s, err := durable.New(w, store, durable.Options{Lease: 6 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		var runs atomic.Int64
		s.Handle(topic, func(ctx context.Context, d durable.Delivery) error {
			runs.Add(1)
			select {
			case <-time.After(time.Minute):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		if _, err := s.Add(ctx, durable.Timer{Topic: topic, Key: "slow"}, time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second) // in the bubble
		if b, err := store.Claim(ctx, 1, time.Second); err != nil || len(b.Claimed) != 0 {
			t.Errorf("the lease was not extended: %+v, %v", b, err)
		}
		time.Sleep(time.Minute)
		if st := s.Stats(); st.Succeeded != 1 || st.Lost != 0 || runs.Load() != 1 {
			t.Errorf("%d runs, %+v", runs.Load(), st)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Adds, cancels and a Run that is ended and begun again, all at once: nothing that
// was not cancelled is lost.
func TestNothingIsLostUnderLoad(t *testing.T) {
	b := newBench(t, durable.Options{Concurrency: 8, MinBackoff: time.Millisecond, MaxAttempts: 100})
	var mu sync.Mutex
	seen, succeeded := make(map[string]int), make(map[string]int)
	b.handle(func(_ context.Context, d durable.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		seen[d.Key]++
		if seen[d.Key] == 1 && len(seen)%7 == 0 {
			return errors.New("not the first time") // and it may be cancelled before the next
		}
		succeeded[d.Key]++
		return nil
	})
	var wg sync.WaitGroup
	kept := make([]map[string]bool, 6)
	for g := range kept {
		kept[g] = make(map[string]bool)
		wg.Go(func() {
			for i := range 200 {
				key := fmt.Sprintf("%d-%d", g, i)
				b.add(key, time.Duration(i%3)*time.Second)
				if i%4 > 0 {
					kept[g][key] = true
					continue
				}
				status, err := b.s.Cancel(b.ctx, topic, key)
				if err != nil {
					t.Error(err)
				}
				if status == durable.Canceled {
					kept[g][key] = false
				}
			}
		})
	}
	for range 5 {
		stop := b.run()
		b.advance(500 * time.Millisecond)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
	b.run()
	b.advance(10 * time.Minute)
	b.counts(0, 0)
	mu.Lock()
	defer mu.Unlock()
	for g := range kept {
		for key, want := range kept[g] {
			if want != (succeeded[key] > 0) {
				t.Errorf("%s ran %d times, succeeded %d times, kept: %v", key, seen[key], succeeded[key], want)
			}
		}
	}
}
