package durable_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/memstore"
	"github.com/fee15284/timingwheel/wheeltest"
)

const topic = "order.unpaid"

// A faulty store is a memstore with which a test can interfere.
type faulty struct {
	durable.Store
	claims  atomic.Int64
	deaf    bool                      // its Wake is never heard
	mu      sync.Mutex                // guards all below
	onApply func(op durable.Op) error // before it is applied; nil: nothing
	onClaim func() error
	applied func(op durable.Op, status durable.Status)
}

func (f *faulty) Wake() <-chan struct{} {
	if f.deaf {
		return nil
	}
	return f.Store.Wake()
}

// interfere sets the hooks.
func (f *faulty) interfere(set func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set()
}

func (f *faulty) Apply(ctx context.Context, ops []durable.Op) ([]durable.Status, error) {
	f.mu.Lock()
	onApply, applied := f.onApply, f.applied
	f.mu.Unlock()
	for _, op := range ops {
		if onApply != nil {
			if err := onApply(op); err != nil {
				return nil, err
			}
		}
	}
	statuses, err := f.Store.Apply(ctx, ops)
	for i, status := range statuses {
		if applied != nil {
			applied(ops[i], status)
		}
	}
	return statuses, err
}

func (f *faulty) Claim(ctx context.Context, max int, lease time.Duration) (durable.Batch, error) {
	f.claims.Add(1)
	f.mu.Lock()
	onClaim := f.onClaim
	f.mu.Unlock()
	if onClaim != nil {
		if err := onClaim(); err != nil {
			return durable.Batch{}, err
		}
	}
	return f.Store.Claim(ctx, max, lease)
}

// A bench is a scheduler on a fake clock.
type bench struct {
	*testing.T
	mock  *clock.Mock
	wheel *timingwheel.Wheel
	store *faulty
	s     *durable.Scheduler
	ctx   context.Context
	start time.Time
}

func newBench(t *testing.T, opts durable.Options) *bench {
	t.Helper()
	b := &bench{T: t, mock: clock.NewMock(), ctx: t.Context()}
	b.start = b.mock.Now()
	b.store = &faulty{Store: memstore.New(b.mock.Now)}
	b.scheduler(opts)
	return b
}

// scheduler puts a new scheduler, on a new wheel, over the store.
func (b *bench) scheduler(opts durable.Options) {
	b.Helper()
	var err error
	if b.wheel, err = timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(b.mock)}); err != nil {
		b.Fatal(err)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	if b.s, err = durable.New(b.wheel, b.store, opts); err != nil {
		b.Fatal(err)
	}
}

// run starts Run. The function it returns ends Run and returns its error.
func (b *bench) run() (stop func() error) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.s.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	b.Cleanup(func() { stop() })
	b.s.Sync()
	return stop
}

func (b *bench) advance(d time.Duration) { wheeltest.Advance(b.wheel, b.mock.Add, d) }

func (b *bench) add(key string, d time.Duration) {
	b.Helper()
	if _, err := b.s.Add(b.ctx, durable.Timer{Topic: topic, Key: key}, d); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) handle(h durable.Handler) {
	b.Helper()
	if err := b.s.Handle(topic, h); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) counts(live, dead int) {
	b.Helper()
	got, err := b.store.Count(b.ctx)
	if want := (durable.Counts{Live: live, Dead: dead}); err != nil || got != want {
		b.Fatalf("Count = %+v, %v, want %+v", got, err, want)
	}
}

// A log of what handlers saw.
type record struct {
	mu   sync.Mutex
	runs []run
}

type run struct {
	durable.Delivery
	at time.Time
}

func (r *record) add(d durable.Delivery, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs = append(r.runs, run{d, at})
}

func (r *record) keys() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var keys []string
	for _, run := range r.runs {
		keys = append(keys, run.Key)
	}
	return keys
}

func (b *bench) record(err error) *record {
	r := new(record)
	b.handle(func(_ context.Context, d durable.Delivery) error {
		r.add(d, b.mock.Now())
		return err
	})
	return r
}

func TestTimerFiresOnceOnItsTick(t *testing.T) {
	b := newBench(t, durable.Options{})
	r := b.record(nil)
	b.run()
	status, err := b.s.Add(b.ctx, durable.Timer{Topic: topic, Key: "o-1", Payload: []byte("42")}, 48*time.Hour+time.Millisecond)
	if status != durable.Created || err != nil {
		t.Fatal(status, err)
	}
	b.advance(48 * time.Hour)
	if len(r.runs) != 0 {
		t.Fatalf("it fired %v early", time.Millisecond)
	}
	b.advance(48 * time.Hour)
	if len(r.runs) != 1 {
		t.Fatalf("it ran %d times", len(r.runs))
	}
	got := r.runs[0]
	due := b.start.Add(48*time.Hour + time.Millisecond)
	if !got.Due.Equal(due) || got.Attempt != 1 || string(got.Payload) != "42" || got.LastError != "" ||
		got.Lateness != got.at.Sub(due) || got.Lateness > time.Second {
		t.Fatalf("delivered %+v at %v, due %v", got.Delivery, got.at, due)
	}
	b.counts(0, 0)
	if st := b.s.Stats(); st.Added != 1 || st.Delivered != 1 || st.Succeeded != 1 || st.Running != 0 ||
		st.MaxLateness != got.Lateness || st.LastLateness != got.Lateness {
		t.Fatalf("%+v", st)
	}
}

// Days with random timers, of which many are cancelled or replaced: what is left
// fires once, never early and at most a tick late.
func TestRandomTimersFireInTheirTick(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	b := newBench(t, durable.Options{Concurrency: 7})
	r := b.record(nil)
	b.run()
	due := make(map[string]time.Time)
	for range 25 {
		for range 25 {
			key := fmt.Sprint(rnd.IntN(2000))
			switch rnd.IntN(4) {
			case 0:
				status, err := b.s.Cancel(b.ctx, topic, key)
				if _, pending := due[key]; err != nil || pending != (status == durable.Canceled) {
					t.Fatal(key, status, err, pending)
				}
				delete(due, key)
			default:
				d := time.Duration(rnd.Int64N(int64(72 * time.Hour)))
				if rnd.IntN(3) == 0 {
					d = time.Duration(rnd.Int64N(int64(time.Minute)))
				}
				b.add(key, d)
				due[key] = b.mock.Now().Add(d)
			}
		}
		b.advance(time.Duration(rnd.Int64N(int64(3 * time.Hour))))
		for _, run := range r.runs {
			late := run.at.Sub(due[run.Key])
			if late < 0 || late >= time.Second {
				t.Fatalf("%s was due at %v and ran at %v", run.Key, due[run.Key], run.at)
			}
			delete(due, run.Key)
		}
		r.runs = nil
		b.counts(len(due), 0)
	}
	b.advance(73 * time.Hour)
	if len(r.runs) != len(due) {
		t.Fatalf("%d ran in the end, want %d", len(r.runs), len(due))
	}
}

func TestOverdueTimersRunInDueOrder(t *testing.T) {
	b := newBench(t, durable.Options{Concurrency: 1})
	for _, i := range rand.Perm(300) {
		b.add(fmt.Sprintf("%03d", i), time.Duration(i)*time.Second)
	}
	b.mock.Add(time.Hour) // nobody runs: the process is down
	b.scheduler(durable.Options{Concurrency: 1})
	r := b.record(nil)
	b.run()
	keys := r.keys()
	if len(keys) != 300 {
		t.Fatalf("%d of 300 ran", len(keys))
	}
	for i, key := range keys {
		if key != fmt.Sprintf("%03d", i) {
			t.Fatalf("number %d was %s", i, key)
		}
	}
	if r.runs[0].Lateness != time.Hour {
		t.Fatalf("the first was %v late, want an hour", r.runs[0].Lateness)
	}
	b.counts(0, 0)
}

func TestConcurrencyIsBoundedAndUsed(t *testing.T) {
	for _, limit := range []int64{1, 5, 2*durable.MaxBatch + 60} {
		testConcurrency(t, limit)
	}
}

func testConcurrency(t *testing.T, limit int64) {
	b := newBench(t, durable.Options{Concurrency: int(limit)})
	var now, most, ran atomic.Int64
	var once sync.Once
	full := make(chan struct{})
	b.handle(func(context.Context, durable.Delivery) error {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		if n == limit {
			once.Do(func() { close(full) })
		}
		<-full // all places are taken once
		ran.Add(1)
		now.Add(-1)
		return nil
	})
	for i := range 400 {
		b.add(fmt.Sprint(i), 0)
	}
	<-b.store.Wake() // neither this nor Sync must be needed
	ctx, cancel := context.WithCancel(b.ctx)
	go func() {
		<-full
		cancel()
	}()
	if err := b.s.Run(ctx); err != nil || now.Load() != 0 {
		t.Fatal(err, now.Load())
	}
	b.run()
	if most.Load() != limit || ran.Load() != 400 {
		t.Fatalf("%d at once, %d in all", most.Load(), ran.Load())
	}
	b.counts(0, 0)
}

func TestRetriesBackOffThenDieAndCanBeRedriven(t *testing.T) {
	b := newBench(t, durable.Options{MaxAttempts: 6, MinBackoff: 10 * time.Second, MaxBackoff: time.Minute})
	r := b.record(errors.New("card declined"))
	b.run()
	b.add("o-1", time.Minute)
	b.advance(time.Hour)
	if len(r.runs) != 6 {
		t.Fatalf("%d attempts, want 6", len(r.runs))
	}
	want := []time.Duration{10, 20, 40, 60, 60}
	for i, run := range r.runs {
		if run.Attempt != i+1 {
			t.Fatalf("run %d is attempt %d", i, run.Attempt)
		}
		if i == 0 {
			continue
		}
		if run.LastError != "card declined" {
			t.Fatalf("attempt %d: last error %q", i+1, run.LastError)
		}
		longest := want[i-1] * time.Second
		if d := run.at.Sub(r.runs[i-1].at); d < longest/2 || d > longest+time.Second {
			t.Fatalf("attempt %d came after %v, want %v to %v", i+1, d, longest/2, longest)
		}
	}
	b.counts(0, 1)
	dead, err := b.s.Dead(b.ctx, 0, 10)
	if err != nil || len(dead) != 1 || dead[0].Key != "o-1" || dead[0].Attempts != 6 || dead[0].LastError != "card declined" {
		t.Fatalf("%+v, %v", dead, err)
	}
	if st := b.s.Stats(); st.Retried != 5 || st.Died != 1 || st.Delivered != 6 || st.Succeeded != 0 {
		t.Fatalf("%+v", st)
	}
	if status, err := b.s.Redrive(b.ctx, topic, "o-1"); status != durable.Done || err != nil {
		t.Fatal(status, err)
	}
	b.wheel.Sync()
	if last := r.runs[len(r.runs)-1]; len(r.runs) != 7 || last.Attempt != 1 {
		t.Fatalf("after the redrive: %d runs, the last is attempt %d", len(r.runs), last.Attempt)
	}
	if status, err := b.s.Redrive(b.ctx, topic, "o-2"); status != durable.NotFound || err != nil {
		t.Fatal(status, err)
	}
}

func TestPanicAndGoexitAreFailedAttempts(t *testing.T) {
	var log bytes.Buffer
	b := newBench(t, durable.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	var runs []durable.Delivery
	b.handle(func(_ context.Context, d durable.Delivery) error {
		runs = append(runs, d)
		switch len(runs) {
		case 1:
			panic("no such order")
		case 2:
			runtime.Goexit()
		case 3:
			return errors.New(strings.Repeat("x", 2*durable.MaxError))
		case 4:
			var none *orderError
			return none // not nil, and its text panics
		}
		return nil
	})
	b.run()
	b.add("o-1", 0)
	b.advance(time.Minute)
	if len(runs) != 5 || !strings.HasPrefix(runs[4].LastError, "panic: runtime error") || runs[1].LastError != "panic: no such order" ||
		runs[2].LastError != "the handler ended its goroutine" || len(runs[3].LastError) != durable.MaxError {
		t.Fatalf("%+v", runs)
	}
	if st := b.s.Stats(); st.Panicked != 2 || st.Retried != 4 || st.Succeeded != 1 || st.Running != 0 {
		t.Fatalf("%+v", st)
	}
	if !strings.Contains(log.String(), "no such order") || !strings.Contains(log.String(), "scheduler_test.go") {
		t.Fatalf("the log does not say where: %s", log.String())
	}
}

type orderError struct{ text string }

func (e *orderError) Error() string { return e.text }

func TestUnknownTopicIsKeptAndCounted(t *testing.T) {
	b := newBench(t, durable.Options{MaxAttempts: 1})
	b.run()
	b.add("o-1", time.Second)
	b.advance(10 * time.Minute)
	if st := b.s.Stats(); st.Unknown < 9 || st.Unknown > 11 || st.Delivered != 0 {
		t.Fatalf("%+v", st)
	}
	b.counts(1, 0)
	r := b.record(nil)
	b.advance(2 * time.Minute)
	if len(r.runs) != 1 || r.runs[0].Attempt != 1 {
		t.Fatalf("%+v", r.runs)
	}
}

// A timer whose handler takes its process down each time ends in the dead list.
func TestAttemptsOfDeadProcessesCount(t *testing.T) {
	b := newBench(t, durable.Options{MaxAttempts: 3})
	r := b.record(nil)
	b.add("poison", 0)
	for range 3 {
		if got, err := b.store.Claim(b.ctx, 1, time.Minute); err != nil || len(got.Claimed) != 1 {
			t.Fatal(got, err)
		}
		b.mock.Add(time.Minute)
	}
	b.run()
	if len(r.runs) != 0 {
		t.Fatal("it ran a fourth time")
	}
	dead, err := b.s.Dead(b.ctx, 0, 1)
	if err != nil || len(dead) != 1 || !strings.Contains(dead[0].LastError, "3 attempts ended without an answer") {
		t.Fatalf("%+v, %v", dead, err)
	}
}

func TestTimerOfADeadProcessComesBackWhenItsLeaseEnds(t *testing.T) {
	b := newBench(t, durable.Options{})
	r := b.record(nil)
	b.add("o-1", 0)
	if got, err := b.store.Claim(b.ctx, 1, time.Minute); err != nil || len(got.Claimed) != 1 {
		t.Fatal(got, err)
	}
	b.run()
	b.advance(59 * time.Second)
	if len(r.runs) != 0 {
		t.Fatal("it ran while it was leased")
	}
	b.advance(time.Second)
	if len(r.runs) != 1 || r.runs[0].Attempt != 2 || r.runs[0].Lateness != time.Minute {
		t.Fatalf("%+v", r.runs)
	}
}

func TestNothingDueCostsNothing(t *testing.T) {
	b := newBench(t, durable.Options{})
	b.record(nil)
	b.run()
	b.add("far", 30*24*time.Hour)
	b.s.Sync()
	before := b.store.claims.Load()
	b.advance(29 * 24 * time.Hour)
	if n := b.store.claims.Load() - before; n != 0 {
		t.Fatalf("%d claims while nothing was due", n)
	}
	b.advance(2 * 24 * time.Hour)
	b.counts(0, 0)
}

// What another process puts into the store is announced by Wake.
func TestWakeBringsForwardTheNextClaim(t *testing.T) {
	b := newBench(t, durable.Options{})
	ran := make(chan string, 1)
	b.handle(func(_ context.Context, d durable.Delivery) error {
		ran <- d.Key
		return nil
	})
	b.run()
	b.add("far", 24*time.Hour)
	if _, err := b.store.Apply(b.ctx, []durable.Op{{Kind: durable.Put, Topic: topic, Key: "near"}}); err != nil {
		t.Fatal(err)
	}
	if key := <-ran; key != "near" {
		t.Fatal(key)
	}
}

// Wake is a hint and may be lost: what a scheduler has put itself, retries included,
// it knows without.
func TestOwnTimersNeedNoWake(t *testing.T) {
	b := newBench(t, durable.Options{MaxAttempts: 2})
	b.store.deaf = true
	r := b.record(errors.New("no"))
	b.run()
	b.add("far", 24*time.Hour)
	b.add("near", time.Minute)
	b.advance(2 * time.Minute)
	if len(r.runs) != 2 || r.runs[0].Lateness != 0 || r.runs[1].Attempt != 2 || r.runs[1].Lateness >= time.Second {
		t.Fatalf("%+v", r.runs)
	}
	if status, err := b.s.Redrive(b.ctx, topic, "near"); status != durable.Done || err != nil {
		t.Fatal(status, err)
	}
	b.wheel.Sync()
	if len(r.runs) != 3 {
		t.Fatalf("%+v", r.runs)
	}
}

func TestAddReplacesAndAddNewDoesNot(t *testing.T) {
	b := newBench(t, durable.Options{MaxAttempts: 1})
	fail := errors.New("no")
	var inside []durable.Status
	b.handle(func(ctx context.Context, d durable.Delivery) error {
		status, err := b.s.AddNew(ctx, durable.Timer{Topic: topic, Key: d.Key}, time.Hour)
		if err != nil {
			t.Error(err)
		}
		inside = append(inside, status)
		return fail
	})
	b.run()
	timer := durable.Timer{Topic: topic, Key: "o-1"}
	step := func(want durable.Status, got durable.Status, err error) {
		t.Helper()
		if got != want || err != nil {
			t.Fatalf("%v, %v, want %v", got, err, want)
		}
	}
	got, err := b.s.AddNew(b.ctx, timer, time.Hour)
	step(durable.Created, got, err)
	got, err = b.s.AddNew(b.ctx, timer, time.Second)
	step(durable.Exists, got, err)
	got, err = b.s.Add(b.ctx, timer, 2*time.Hour)
	step(durable.Replaced, got, err)
	b.advance(90 * time.Minute)
	if len(inside) != 0 {
		t.Fatal("the replaced timer fired")
	}
	b.advance(time.Hour)
	if len(inside) != 1 || inside[0] != durable.InFlight {
		t.Fatalf("inside the handler: %v", inside)
	}
	got, err = b.s.AddNew(b.ctx, timer, time.Hour)
	step(durable.Dead, got, err)
	got, err = b.s.Add(b.ctx, timer, time.Hour)
	step(durable.Replaced, got, err)
	got, err = b.s.Cancel(b.ctx, topic, "o-1")
	step(durable.Canceled, got, err)
	got, err = b.s.Cancel(b.ctx, topic, "o-1")
	step(durable.NotFound, got, err)
	b.counts(0, 0)
}

// A handler that sets its own timer anew makes a series: what it returns is about
// the old one.
func TestHandlerMayAddItsOwnTimerAnew(t *testing.T) {
	b := newBench(t, durable.Options{})
	r := new(record)
	b.handle(func(ctx context.Context, d durable.Delivery) error {
		r.add(d, b.mock.Now())
		_, err := b.s.Add(ctx, d.Timer, time.Hour)
		return err
	})
	b.run()
	b.add("series", time.Hour)
	b.advance(10*time.Hour + time.Minute)
	if len(r.runs) != 10 {
		t.Fatalf("%d runs in ten hours", len(r.runs))
	}
	for i, run := range r.runs {
		if want := b.start.Add(time.Duration(i+1) * time.Hour); !run.at.Equal(want) || run.Attempt != 1 {
			t.Fatalf("run %d at %v, attempt %d", i, run.at, run.Attempt)
		}
	}
	b.counts(1, 0)
}

func TestBadInputIsNamed(t *testing.T) {
	b := newBench(t, durable.Options{})
	for _, o := range []struct {
		opts durable.Options
		says string
	}{
		{durable.Options{Concurrency: -1}, "Options.Concurrency -1"},
		{durable.Options{Lease: time.Millisecond}, "Options.Lease 1ms"},
		{durable.Options{Lease: 25 * time.Hour}, "Options.Lease 25h0m0s"},
		{durable.Options{MaxAttempts: -2}, "Options.MaxAttempts -2"},
		{durable.Options{MinBackoff: -time.Second}, "Options.MinBackoff -1s"},
		{durable.Options{MinBackoff: time.Minute, MaxBackoff: time.Second}, "Options.MaxBackoff 1s"},
	} {
		_, err := durable.New(b.wheel, b.store, o.opts)
		if !errors.Is(err, durable.ErrInvalid) || !strings.Contains(err.Error(), o.says) {
			t.Errorf("%+v: %v", o.opts, err)
		}
	}
	if _, err := durable.New(nil, b.store, durable.Options{}); !errors.Is(err, durable.ErrInvalid) {
		t.Error(err)
	}
	if _, err := durable.New(b.wheel, nil, durable.Options{}); !errors.Is(err, durable.ErrInvalid) {
		t.Error(err)
	}
	handler := func(context.Context, durable.Delivery) error { return nil }
	if err := b.s.Handle("", handler); !errors.Is(err, durable.ErrInvalid) {
		t.Error(err)
	}
	if err := b.s.Handle("a", nil); !errors.Is(err, durable.ErrInvalid) {
		t.Error(err)
	}
	if err := errors.Join(b.s.Handle("a", handler), b.s.Handle("b", handler)); err != nil {
		t.Error(err)
	}
	if err := b.s.Handle("a", handler); !errors.Is(err, durable.ErrInvalid) {
		t.Error(err)
	}
	big := durable.Timer{Topic: topic, Key: "o-1", Payload: make([]byte, durable.MaxPayload+1)}
	_, err := b.s.Add(b.ctx, big, 0)
	if !errors.Is(err, durable.ErrInvalid) || !strings.Contains(err.Error(), "65537 bytes") ||
		!strings.Contains(err.Error(), "at most 65536") || !strings.Contains(err.Error(), "o-1") {
		t.Error(err)
	}
	b.counts(0, 0)
}
