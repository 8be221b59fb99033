// Package storetest checks that a durable.Store keeps the rules of that interface.
//
// A store's test hands over how to open one and how its time moves:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) *storetest.Harness {
//			mock := clock.NewMock()
//			return &storetest.Harness{
//				Store:   memstore.New(mock.Now),
//				Advance: mock.Add,
//				Unit:    time.Minute,
//			}
//		})
//	}
//
// The suite never sleeps and knows no clock but the store's: where it waits for
// something it calls Advance, again and again, and gives up after a while. So it
// suits a store on a fake clock, one whose server has a clock that can be set, and
// one on real time, for which Advance is time.Sleep and Unit some milliseconds.
package storetest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

// A Harness is a new, empty store for one test, and what the test may do to it.
type Harness struct {
	// Store is the store. What opened it closes it, in t.Cleanup; the tests may have
	// closed it before.
	Store durable.Store

	// Advance lets d pass on the store's clock.
	Advance func(d time.Duration)

	// Unit is a time that the store can tell from none, at least 2ms: tests set
	// timers and leases a few Units away and wait for them through Advance. What
	// must not happen during a test they put an hour away. Advance is called some 20
	// times by each test, some hundred times if a test fails.
	Unit time.Duration

	// Reopen closes the store, opens its timers again, as after a restart, and
	// returns the new store. nil: the store keeps nothing.
	Reopen func() durable.Store

	// Second returns another store over the same timers, as another process has it,
	// or is nil if there can be none.
	Second func() durable.Store

	// LooseOrder says that timers of different keys are not claimed strictly in
	// the order in which they fall due, as is so with several shards.
	LooseOrder bool
}

// far is a delay that does not pass during a test.
const far = time.Hour

// patience is how many Units a test waits for what must happen.
const patience = 200

// Run runs all checks, each as a subtest with a harness of its own.
func Run(t *testing.T, open func(t *testing.T) *Harness) {
	for _, test := range []struct {
		name  string
		check func(*suite)
	}{
		{"puts, claims and acks a timer", roundTrip},
		{"keeps any bytes in names and payload", anyBytes},
		{"refuses what is out of range and changes nothing", refusals},
		{"honours a context that has ended", endedContext},
		{"put replaces a pending timer in one step", putReplaces},
		{"put makes the claim of a timer in flight stale", putWhileInFlight},
		{"put new leaves a timer as it is", putNew},
		{"answers a repeated put as before", repeatedPut},
		{"cancel removes a timer in every state", cancel},
		{"operations of a batch take effect in order", batchOrder},
		{"accepts any delay", anyDelay},
		{"claims nothing before it is due", neverEarly},
		{"claims in due order", dueOrder},
		{"claims no more than asked for", claimLimit},
		{"next says when to claim again", next},
		{"a lease keeps others away until it ends", lease},
		{"an extended lease lasts longer", extend},
		{"a lease that has ended can be settled until claimed again", lateAck},
		{"counts attempts at the claim", attempts},
		{"retry waits and keeps the error", retry},
		{"an uncounted retry leaves no trace", uncounted},
		{"old tokens are stale for all that need one", staleTokens},
		{"buries and redrives", bury},
		{"lists the dead page by page", deadPages},
		{"dead timers yield to put and cancel", deadYield},
		{"wakes for an earlier timer", wake},
		{"returned slices are the caller's", ownSlices},
		{"survives a restart", restart},
		{"a second store sees the same timers", second},
		{"refuses after close", closed},
		{"delivers each timer to one of many claimers", manyClaimers},
		{"keys of many writers do not mix", manyWriters},
		{"does what a simple model does", model},
	} {
		t.Run(strings.ReplaceAll(test.name, " ", "-"), func(t *testing.T) {
			test.check(&suite{T: t, Harness: open(t), ctx: t.Context()})
		})
	}
}

// A suite is one check under way.
type suite struct {
	*testing.T
	*Harness
	ctx context.Context
}

// apply carries out operations and fails the test on an error.
func (s *suite) apply(ops ...durable.Op) []durable.Status {
	s.Helper()
	statuses, err := s.Store.Apply(s.ctx, ops)
	if err != nil {
		s.Fatalf("Apply(%v): %v", ops, err)
	}
	if len(statuses) != len(ops) {
		s.Fatalf("Apply returned %d statuses for %d operations", len(statuses), len(ops))
	}
	return statuses
}

// expect carries out one operation and checks its status.
func (s *suite) expect(want durable.Status, op durable.Op) {
	s.Helper()
	if got := s.apply(op)[0]; got != want {
		s.Fatalf("%v of %s/%s answered %v, want %v", op.Kind, op.Topic, op.Key, got, want)
	}
}

// claim claims and checks what holds for any claim.
func (s *suite) claim(max int, lease time.Duration) durable.Batch {
	s.Helper()
	b, err := s.Store.Claim(s.ctx, max, lease)
	if err != nil {
		s.Fatalf("Claim(%d, %v): %v", max, lease, err)
	}
	if len(b.Claimed) > max {
		s.Fatalf("Claim(%d) returned %d timers", max, len(b.Claimed))
	}
	for _, c := range b.Claimed {
		if c.Due.After(b.Now) {
			s.Fatalf("%s/%s was claimed at %v, %v early", c.Topic, c.Key, b.Now, c.Due.Sub(b.Now))
		}
		if c.Token == "" || c.Attempt < 1 {
			s.Fatalf("%s/%s was claimed with token %q and attempt %d", c.Topic, c.Key, c.Token, c.Attempt)
		}
	}
	return b
}

// none checks that nothing can be claimed.
func (s *suite) none() {
	s.Helper()
	if b := s.claim(durable.MaxBatch, far); len(b.Claimed) > 0 {
		s.Fatalf("%d timers were claimed, first %s/%s due %v at %v; want none", len(b.Claimed),
			b.Claimed[0].Topic, b.Claimed[0].Key, b.Claimed[0].Due, b.Now)
	}
}

// one waits until exactly one timer can be claimed, and claims it.
func (s *suite) one(lease time.Duration) durable.Claimed {
	s.Helper()
	for range patience {
		b := s.claim(durable.MaxBatch, lease)
		if len(b.Claimed) > 1 {
			s.Fatalf("%d timers were claimed, want one", len(b.Claimed))
		}
		if len(b.Claimed) == 1 {
			return b.Claimed[0]
		}
		s.Advance(s.Unit)
	}
	s.Fatalf("no timer could be claimed after %v", patience*s.Unit)
	panic("unreachable")
}

// many waits until n timers have been claimed, in order.
func (s *suite) many(n int, lease time.Duration) []durable.Claimed {
	s.Helper()
	var all []durable.Claimed
	for range patience {
		for {
			b := s.claim(durable.MaxBatch, lease)
			all = append(all, b.Claimed...)
			if len(b.Claimed) == 0 {
				break
			}
		}
		if len(all) > n {
			s.Fatalf("%d timers were claimed, want %d", len(all), n)
		}
		if len(all) == n {
			return all
		}
		s.Advance(s.Unit)
	}
	s.Fatalf("%d timers could be claimed after %v, want %d", len(all), patience*s.Unit, n)
	return nil
}

func (s *suite) counts(live, dead int) {
	s.Helper()
	got, err := s.Store.Count(s.ctx)
	if err != nil {
		s.Fatalf("Count: %v", err)
	}
	if want := (durable.Counts{Live: live, Dead: dead}); got != want {
		s.Fatalf("Count = %+v, want %+v", got, want)
	}
}

func (s *suite) listDead(skip, max int) []durable.DeadTimer {
	s.Helper()
	list, err := s.Store.Dead(s.ctx, skip, max)
	if err != nil {
		s.Fatalf("Dead(%d, %d): %v", skip, max, err)
	}
	if len(list) > max {
		s.Fatalf("Dead(%d, %d) returned %d timers", skip, max, len(list))
	}
	return list
}

const topic = "order.unpaid"

// put is an operation with a payload that tells timers apart.
func put(key string, d time.Duration) durable.Op {
	return durable.Op{Kind: durable.Put, Topic: topic, Key: key, Delay: d, Payload: []byte("payload of " + key)}
}

func putNewOp(key string, d time.Duration) durable.Op {
	op := put(key, d)
	op.Kind = durable.PutNew
	return op
}

// on is an operation on a timer of put.
func on(kind durable.Kind, key string) durable.Op {
	return durable.Op{Kind: kind, Topic: topic, Key: key}
}

// settle is an operation with the token of a claim.
func settle(kind durable.Kind, c durable.Claimed) durable.Op {
	op := durable.Op{Kind: kind, Topic: c.Topic, Key: c.Key, Token: c.Token}
	if kind == durable.Extend {
		op.Delay = far
	}
	return op
}

func keyOf(i int) string { return fmt.Sprintf("order-%04d", i) }
