package durable

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fee15284/timingwheel"
)

// A Handler is called when the time of a timer of its topic has come. If it returns
// nil the timer is done; on an error or a panic it is delivered again later, up to
// Options.MaxAttempts times in all.
//
// It may be called more than once for a timer: if the process or the store fails
// at the wrong moment, or the lease is lost. So what it does must be right the
// second time too: "expire the order if it is still unpaid".
//
// ctx ends when Run's does, and, with the cause ErrLeaseLost, when the lease could
// not be extended: somebody else may be running the timer then. A handler that
// returns the error of ctx because Run ends is delivered again without counting an
// attempt.
type Handler func(ctx context.Context, d Delivery) error

// A Delivery is a timer whose time has come.
type Delivery struct {
	Timer
	Attempt   int           // 1 for the first
	Due       time.Time     // when this attempt was due, on the store's clock
	Lateness  time.Duration // from Due to the claim; it is never negative
	LastError string        // of the attempt before, if it ended with one
}

// A Scheduler sets timers in a Store and runs handlers for those whose time has
// come. Make one with New; all methods may be called from several goroutines at
// once, and from handlers unless they say otherwise.
type Scheduler struct {
	w     *timingwheel.Wheel
	store Store
	opts  Options

	bell     chan struct{} // for consume: there may be something to claim
	outbell  chan struct{} // for settle: there is something in the outbox
	handling sync.WaitGroup

	mu       sync.Mutex // guards all below
	handlers map[string]Handler
	unknown  map[string]bool // topics without a handler that were logged
	count    Stats

	// While Run is under way:
	running bool
	cancel  context.CancelCauseFunc // ends it
	fatal   error                   // why
	taken   int                     // places: claimed, and the outcome not stored
	more    bool                    // look again when a place is free
	kicked  bool                    // consume has to look again
	asleep  bool                    // consume waits
	outbox  []outcome
	sending int  // taken out of the outbox, and not answered
	pausing bool // the store had an error: the outbox waits for the alarm
	closing bool // no outcome will come any more

	// The alarm is the task of the wheel by which the scheduler sleeps.
	armed   bool
	alarm   timingwheel.Task
	alarmAt time.Time

	waiters map[chan struct{}]bool // closed when all is settled
	ringing chan struct{}          // the one of them that belongs to the latest alarm
}

// Stats is what a Scheduler does and has done since New.
type Stats struct {
	Running int // handlers that are executing

	Added       uint64 // timers put by Add and AddNew
	Canceled    uint64 // timers that Cancel has kept from running
	Delivered   uint64 // handlers started
	Succeeded   uint64 // outcomes: the handler returned nil and that is stored
	Retried     uint64 // it failed, and the timer is pending again
	Interrupted uint64 // Run ended, and the timer is pending again
	Died        uint64 // the timer was given up
	Panicked    uint64 // handlers that panicked
	Unknown     uint64 // timers put off because their topic has no handler
	Lost        uint64 // leases lost, and outcomes that came too late
	StoreErrors uint64 // calls of the store by Run that failed

	// From the due time to the claim, by the store's clock: largest and latest.
	MaxLateness, LastLateness time.Duration
}

// New returns a scheduler that keeps its timers in a store, and sleeps on a wheel
// until the next one is due: its timers come at most a tick of the wheel late. On a
// wheel with a fake clock and a store with the same clock, days pass in
// milliseconds; see Sync.
//
// The scheduler takes two of the wheel's Concurrency places at a time and expects
// that other callbacks of the wheel do not block all of them for long; then leases
// would not be extended. A store has one scheduler. Closing the store is the
// caller's, after Run has returned.
//
// The error wraps ErrInvalid and names the field, the value and the rule.
func New(w *timingwheel.Wheel, store Store, opts Options) (*Scheduler, error) {
	if w == nil || store == nil {
		return nil, invalid("New needs a wheel and a store")
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Scheduler{
		w:        w,
		store:    store,
		opts:     opts,
		bell:     make(chan struct{}, 1),
		outbell:  make(chan struct{}, 1),
		handlers: make(map[string]Handler),
		unknown:  make(map[string]bool),
		waiters:  make(map[chan struct{}]bool),
	}, nil
}

// Handle registers the handler of a topic. Do so before Run: timers whose topic has
// no handler are kept, put off for a minute each time, without counting an attempt,
// and counted in Stats.Unknown.
//
// The error wraps ErrInvalid: for a topic that is empty or too long or has a
// handler, and for a nil handler.
func (s *Scheduler) Handle(topic string, h Handler) error {
	t := Timer{Topic: topic, Key: "any"}
	if err := t.check(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if h == nil || s.handlers[topic] != nil {
		return invalid("Handle: topic %q needs one handler that is not nil", topic)
	}
	s.handlers[topic] = h
	return nil
}

// Add sets a timer that is due after d. If there is one with its topic and key, be
// it pending, running or dead, the new one takes its place in one atomic step, and
// the answer is Replaced, else Created. What a running handler of the earlier one
// returns makes no difference any more; so a handler may add its own timer anew.
//
// When Add returns without an error, the timer is where a crash does not reach it.
// A d that is not positive means at once. Add costs what a write costs the store;
// callers at the same time share it where the store can. It works whether Run is
// under way or not.
//
// The error wraps ErrInvalid for a topic, key or payload out of limits, ErrClosed,
// ErrFailed or the error of ctx. After any error but ErrInvalid the timer may or may
// not be set: add it again.
func (s *Scheduler) Add(ctx context.Context, t Timer, d time.Duration) (Status, error) {
	return s.put(ctx, Put, t, d)
}

// AddNew is Add if there is no timer with that topic and key, and answers Created.
// If there is one, nothing changes, and the answer is Exists if it is pending,
// InFlight if a handler may be running for it, Dead if it was given up.
func (s *Scheduler) AddNew(ctx context.Context, t Timer, d time.Duration) (Status, error) {
	return s.put(ctx, PutNew, t, d)
}

func (s *Scheduler) put(ctx context.Context, kind Kind, t Timer, d time.Duration) (Status, error) {
	status, err := s.one(ctx, Op{Kind: kind, Topic: t.Topic, Key: t.Key, Payload: t.Payload, Delay: d,
		ID: rand.Uint64() | 1})
	if err != nil {
		return 0, err
	}
	if status == Created || status == Replaced {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count.Added++
		s.wakeIn(d)
	}
	return status, nil
}

// Cancel takes a timer back. It answers Canceled if it will not run, or not again
// after attempts that failed, NotFound if there is none, and InFlight if it has been
// claimed: a handler may be running, or about to, or have died; after it the timer
// does not run again.
//
// When Cancel returns without an error, its effect is as durable as that of Add. It
// returns the errors of Add.
func (s *Scheduler) Cancel(ctx context.Context, topic, key string) (Status, error) {
	status, err := s.one(ctx, Op{Kind: Cancel, Topic: topic, Key: key})
	if status == Canceled {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count.Canceled++
	}
	return status, err
}

// Dead returns up to max (1 to MaxBatch) of the timers that were given up, after
// leaving out the first skip.
func (s *Scheduler) Dead(ctx context.Context, skip, max int) ([]DeadTimer, error) {
	return s.store.Dead(ctx, skip, max)
}

// Redrive makes a timer that was given up due at once, with all its attempts
// before it. It answers Done, or NotFound if there is no such dead timer, and
// returns the errors of Add.
func (s *Scheduler) Redrive(ctx context.Context, topic, key string) (Status, error) {
	status, err := s.one(ctx, Op{Kind: Redrive, Topic: topic, Key: key})
	if status == Done {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wakeIn(0)
	}
	return status, err
}

// one applies one operation.
func (s *Scheduler) one(ctx context.Context, op Op) (Status, error) {
	statuses, err := s.store.Apply(ctx, []Op{op})
	if err != nil {
		return 0, fmt.Errorf("durable: %v of %.40q in topic %.40q: %w", op.Kind, op.Key, op.Topic, err)
	}
	return statuses[0], nil
}

// Stats returns what the scheduler does and has done. How many timers there are is
// for the store's Count to say.
func (s *Scheduler) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count
}
