package storetest

import (
	"bytes"
	"context"
	"errors"
	"math"
	"strings"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

func roundTrip(s *suite) {
	s.counts(0, 0)
	s.none()
	s.expect(durable.Created, put("a", 0))
	s.counts(1, 0)
	c := s.one(far)
	if c.Topic != topic || c.Key != "a" || string(c.Payload) != "payload of a" || c.Attempt != 1 || c.LastError != "" {
		s.Fatalf("claimed %+v", c)
	}
	s.counts(1, 0)
	s.none()
	s.expect(durable.Done, settle(durable.Ack, c))
	s.counts(0, 0)
	s.none()
	s.expect(durable.Stale, settle(durable.Ack, c))
	s.expect(durable.NotFound, on(durable.Cancel, "a"))
}

func anyBytes(s *suite) {
	var every [256]byte
	for i := range every {
		every[i] = byte(i)
	}
	long := strings.Repeat("k", durable.MaxKey)
	ops := []durable.Op{
		{Topic: string(every[:255]), Key: string(every[:]), Payload: every[:]},
		{Topic: strings.Repeat("t", durable.MaxTopic), Key: long, Payload: bytes.Repeat([]byte{0, 255}, durable.MaxPayload/2)},
		{Topic: "a", Key: "b:c"}, {Topic: "a:b", Key: "c"},
		{Topic: "a\x00b", Key: "c"}, {Topic: "a", Key: "b\x00c"},
		{Topic: "a", Key: "bc"}, {Topic: "ab", Key: "c"},
		{Topic: "{a}", Key: "*?[x]"}, {Topic: "%s", Key: "\xff\xfe"},
		{Topic: "1", Key: "2"}, {Topic: "12", Key: "1e3", Payload: []byte("007")},
	}
	for i := range ops {
		ops[i].Kind = durable.Put
		s.expect(durable.Created, ops[i])
	}
	claimed := s.many(len(ops), far)
	for _, op := range ops {
		found := 0
		for _, c := range claimed {
			if c.Topic == op.Topic && c.Key == op.Key && bytes.Equal(c.Payload, op.Payload) {
				s.expect(durable.Done, settle(durable.Ack, c))
				found++
			}
		}
		if found != 1 {
			s.Fatalf("topic %q, key %q: found %d times with its payload", op.Topic, op.Key, found)
		}
	}
	s.counts(0, 0)
}

func refusals(s *suite) {
	good := put("good", 0)
	tooMany := make([]durable.Op, durable.MaxBatch+1)
	for i := range tooMany {
		tooMany[i] = good
	}
	bad := func(change func(op *durable.Op)) []durable.Op {
		op := good
		change(&op)
		return []durable.Op{good, op}
	}
	for name, ops := range map[string][]durable.Op{
		"no operations":        nil,
		"too many":             tooMany,
		"no topic":             bad(func(op *durable.Op) { op.Topic = "" }),
		"long topic":           bad(func(op *durable.Op) { op.Topic = strings.Repeat("t", durable.MaxTopic+1) }),
		"no key":               bad(func(op *durable.Op) { op.Key = "" }),
		"long key":             bad(func(op *durable.Op) { op.Key = strings.Repeat("k", durable.MaxKey+1) }),
		"long payload":         bad(func(op *durable.Op) { op.Payload = make([]byte, durable.MaxPayload+1) }),
		"long error":           bad(func(op *durable.Op) { op.Error = strings.Repeat("e", durable.MaxError+1) }),
		"no kind":              bad(func(op *durable.Op) { op.Kind = 0 }),
		"unknown kind":         bad(func(op *durable.Op) { op.Kind = durable.Redrive + 1 }),
		"short extended lease": bad(func(op *durable.Op) { op.Kind, op.Delay = durable.Extend, 0 }),
		"long extended lease":  bad(func(op *durable.Op) { op.Kind, op.Delay = durable.Extend, durable.MaxLease+1 }),
	} {
		if _, err := s.Store.Apply(s.ctx, ops); !errors.Is(err, durable.ErrInvalid) {
			s.Errorf("Apply with %s returned %v, want ErrInvalid", name, err)
		}
	}
	for _, c := range []struct {
		max   int
		lease time.Duration
	}{{0, far}, {-1, far}, {durable.MaxBatch + 1, far}, {1, 0}, {1, -far}, {1, durable.MinLease - 1}, {1, durable.MaxLease + 1}} {
		if _, err := s.Store.Claim(s.ctx, c.max, c.lease); !errors.Is(err, durable.ErrInvalid) {
			s.Errorf("Claim(%d, %v) returned %v, want ErrInvalid", c.max, c.lease, err)
		}
	}
	for _, c := range [][2]int{{-1, 1}, {0, 0}, {0, durable.MaxBatch + 1}} {
		if _, err := s.Store.Dead(s.ctx, c[0], c[1]); !errors.Is(err, durable.ErrInvalid) {
			s.Errorf("Dead(%d, %d) returned %v, want ErrInvalid", c[0], c[1], err)
		}
	}
	s.counts(0, 0)
}

func endedContext(s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, err := s.Store.Apply(ctx, []durable.Op{put("a", 0)})
	_, err2 := s.Store.Claim(ctx, 1, far)
	_, err3 := s.Store.Dead(ctx, 0, 1)
	_, err4 := s.Store.Count(ctx)
	for i, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, context.Canceled) {
			s.Errorf("call %d returned %v, want the error of its context", i, err)
		}
	}
	s.counts(0, 0)
}

func putReplaces(s *suite) {
	s.expect(durable.Created, put("a", 0))
	later := put("a", far)
	later.Payload = []byte("later")
	s.expect(durable.Replaced, later)
	s.counts(1, 0)
	s.none()
	sooner := put("a", 0)
	sooner.Payload = []byte("sooner")
	s.expect(durable.Replaced, sooner)
	if c := s.one(far); string(c.Payload) != "sooner" || c.Attempt != 1 {
		s.Fatalf("claimed %+v", c)
	}
	s.none()
	s.counts(1, 0)
}

func putWhileInFlight(s *suite) {
	s.expect(durable.Created, put("a", 0))
	old := s.one(far)
	s.expect(durable.Replaced, put("a", 0))
	for _, kind := range tokenKinds {
		s.expect(durable.Stale, settle(kind, old))
	}
	c := s.one(far)
	if c.Token == old.Token || c.Attempt != 1 {
		s.Fatalf("claimed %+v, the earlier token was %q", c, old.Token)
	}
	s.expect(durable.Done, settle(durable.Ack, c))
	s.counts(0, 0)
}

func putNew(s *suite) {
	s.expect(durable.Created, putNewOp("a", far))
	s.expect(durable.Exists, putNewOp("a", 0))
	s.none()
	s.expect(durable.Created, putNewOp("b", 0))
	c := s.one(far)
	s.expect(durable.InFlight, putNewOp("b", 0))
	s.none()
	s.expect(durable.Done, settle(durable.Bury, c))
	s.expect(durable.Dead, putNewOp("b", 0))
	s.none()
	s.counts(1, 1)
}

func repeatedPut(s *suite) {
	first := putNewOp("a", 0)
	first.ID = math.MaxUint64 - 1
	s.expect(durable.Created, first)
	again := first
	again.Delay = far
	s.expect(durable.Created, again)
	again.Kind = durable.Put
	s.expect(durable.Created, again)
	other := again
	other.Kind, other.ID = durable.PutNew, math.MaxUint64
	s.expect(durable.Exists, other)
	c := s.one(far) // due at once, as first said
	s.expect(durable.InFlight, first)
	s.expect(durable.Done, settle(durable.Ack, c))

	noID := putNewOp("b", far)
	s.expect(durable.Created, noID)
	s.expect(durable.Exists, noID)
	s.counts(1, 0)
}

func cancel(s *suite) {
	s.expect(durable.NotFound, on(durable.Cancel, "a"))
	s.expect(durable.Created, put("a", far))
	s.expect(durable.Created, put("b", 0))
	s.expect(durable.Canceled, on(durable.Cancel, "a"))
	s.expect(durable.Canceled, on(durable.Cancel, "b"))
	s.expect(durable.NotFound, on(durable.Cancel, "a"))
	s.none()
	s.counts(0, 0)

	s.expect(durable.Created, put("c", 0))
	c := s.one(s.Unit)
	s.expect(durable.InFlight, on(durable.Cancel, "c"))
	s.expect(durable.Stale, settle(durable.Retry, c))
	s.Advance(2 * s.Unit)
	s.none()
	s.counts(0, 0)
}

func batchOrder(s *suite) {
	later := put("a", far)
	got := s.apply(put("a", 0), put("b", 0), putNewOp("a", 0), on(durable.Cancel, "a"), on(durable.Cancel, "a"), later)
	want := []durable.Status{durable.Created, durable.Created, durable.Exists, durable.Canceled, durable.NotFound, durable.Created}
	for i := range want {
		if got[i] != want[i] {
			s.Fatalf("statuses %v, want %v", got, want)
		}
	}
	if c := s.one(far); c.Key != "b" {
		s.Fatalf("claimed %q, want b", c.Key)
	}

	full := make([]durable.Op, durable.MaxBatch)
	for i := range full {
		full[i] = put(keyOf(i), 0)
	}
	for i, status := range s.apply(full...) {
		if status != durable.Created {
			s.Fatalf("operation %d answered %v", i, status)
		}
	}
	s.many(len(full), far)
}

func anyDelay(s *suite) {
	s.expect(durable.Created, put("never", math.MaxInt64))
	s.expect(durable.Created, put("days", 400*24*time.Hour))
	s.none()
	s.expect(durable.Created, put("past", math.MinInt64))
	s.expect(durable.Created, put("before", -far))
	s.many(2, far)
	s.expect(durable.Canceled, on(durable.Cancel, "never"))
	s.expect(durable.Canceled, on(durable.Cancel, "days"))
	s.counts(2, 0)
}

// tokenKinds are the operations that need the token of the latest claim.
var tokenKinds = []durable.Kind{durable.Ack, durable.Retry, durable.Extend, durable.Bury}

func staleTokens(s *suite) {
	for _, kind := range tokenKinds {
		s.expect(durable.Stale, durable.Op{Kind: kind, Topic: topic, Key: "none", Token: "x", Delay: far})
	}
	s.expect(durable.Created, put("a", 0))
	for _, kind := range tokenKinds { // pending: nobody has a token
		s.expect(durable.Stale, durable.Op{Kind: kind, Topic: topic, Key: "a", Delay: far})
	}
	old := s.one(s.Unit)
	now := s.one(far)
	if old.Token == now.Token {
		s.Fatalf("two claims have the token %q", old.Token)
	}
	wrong := now
	wrong.Token += "x"
	for _, kind := range tokenKinds {
		s.expect(durable.Stale, settle(kind, old))
		s.expect(durable.Stale, settle(kind, wrong))
	}
	s.expect(durable.Done, settle(durable.Bury, now))
	for _, kind := range tokenKinds {
		s.expect(durable.Stale, settle(kind, now))
	}
	s.counts(0, 1)
}

func ownSlices(s *suite) {
	op := put("a", 0)
	s.expect(durable.Created, op)
	clear(op.Payload)
	c := s.one(s.Unit)
	if string(c.Payload) != "payload of a" {
		s.Fatalf("the payload changed with the caller's slice: %q", c.Payload)
	}
	clear(c.Payload)
	c = s.one(far)
	if string(c.Payload) != "payload of a" {
		s.Fatalf("the payload changed with the claimer's slice: %q", c.Payload)
	}
	s.expect(durable.Done, settle(durable.Bury, c))
	clear(s.listDead(0, 1)[0].Payload)
	if got := s.listDead(0, 1)[0].Payload; string(got) != "payload of a" {
		s.Fatalf("the payload changed with the slice of a dead timer: %q", got)
	}
}

func restart(s *suite) {
	if s.Reopen == nil {
		s.Skip("the store keeps nothing")
	}
	s.expect(durable.Created, put("dead", 0))
	c := s.one(far)
	op := settle(durable.Bury, c)
	op.Error = "no such order"
	s.expect(durable.Done, op)
	s.expect(durable.Created, put("claimed", 0))
	s.one(5 * s.Unit)
	s.expect(durable.Created, put("soon", 3*s.Unit)) // last, as one claims all that is due
	s.expect(durable.Created, put("far", far))
	s.expect(durable.Created, put("gone", 0))
	s.expect(durable.Canceled, on(durable.Cancel, "gone"))

	s.Store = s.Reopen()
	s.counts(3, 1)
	for _, c := range s.many(2, far) {
		want := map[string]int{"soon": 1, "claimed": 2}[c.Key]
		if string(c.Payload) != "payload of "+c.Key || c.Attempt != want {
			s.Fatalf("after the restart: %+v, want attempt %d", c, want)
		}
		s.expect(durable.Done, settle(durable.Ack, c))
	}
	dead := s.listDead(0, 10)
	if len(dead) != 1 || dead[0].Key != "dead" || dead[0].LastError != "no such order" || dead[0].Attempts != 1 {
		s.Fatalf("dead after the restart: %+v", dead)
	}
	s.expect(durable.Exists, putNewOp("far", 0))
	s.expect(durable.Canceled, on(durable.Cancel, "far"))

	s.Store = s.Reopen()
	s.none()
	s.counts(0, 1)
}

func second(s *suite) {
	if s.Second == nil {
		s.Skip("the store has one user")
	}
	first, other := s.Store, s.Second()
	s.expect(durable.Created, put("a", 0))
	s.Store = other
	c := s.one(far)
	s.expect(durable.InFlight, putNewOp("a", 0))
	s.Store = first
	s.none()
	s.expect(durable.Done, settle(durable.Ack, c)) // the token is all that counts
	s.Store = other
	s.counts(0, 0)
}

func closed(s *suite) {
	s.expect(durable.Created, put("a", 0))
	for range 2 {
		if err := s.Store.Close(); err != nil {
			s.Fatalf("Close: %v", err)
		}
	}
	_, err := s.Store.Apply(s.ctx, []durable.Op{put("a", 0)})
	_, err2 := s.Store.Claim(s.ctx, 1, far)
	_, err3 := s.Store.Dead(s.ctx, 0, 1)
	_, err4 := s.Store.Count(s.ctx)
	for i, err := range []error{err, err2, err3, err4} {
		if !errors.Is(err, durable.ErrClosed) {
			s.Errorf("call %d returned %v, want ErrClosed", i, err)
		}
	}
}
