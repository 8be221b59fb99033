package storetest

import (
	"strings"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

// neverEarly checks due times against the store's clock, as claims tell it; that
// none is claimed before its time, claim checks each time.
func neverEarly(s *suite) {
	const slack = 2 * time.Millisecond // for what a store may round
	for i := range 6 {
		delay := time.Duration(i) * s.Unit
		before := s.claim(1, far).Now
		s.expect(durable.Created, put("near", delay))
		c := s.one(far)
		if c.Due.Before(before.Add(delay - slack)) {
			s.Fatalf("put at %v or later with a delay of %v, due at %v", before, delay, c.Due)
		}
		s.expect(durable.Done, settle(durable.Ack, c))
	}
	s.expect(durable.Created, put("far", far))
	s.none()

	// A delay below zero is none: it does not jump the queue.
	s.expect(durable.Created, put("now", 0))
	first := s.one(far)
	s.expect(durable.Created, put("past", -far))
	if c := s.one(far); c.Due.Before(first.Due) {
		s.Fatalf("a timer put later, with a delay of %v, is due %v before one without", -far, first.Due.Sub(c.Due))
	}
}

func dueOrder(s *suite) {
	if s.LooseOrder {
		s.Skip("the store has no strict order")
	}
	const n = 8
	for i := range n {
		k := i * 3 % n
		s.expect(durable.Created, put(keyOf(k), time.Duration(k+1)*2*s.Unit))
	}
	s.Advance((2*n + 2) * s.Unit) // nobody claims meanwhile
	claimed := s.many(n, far)
	for i, c := range claimed[1:] {
		if c.Due.Before(claimed[i].Due) {
			s.Fatalf("%s due %v was claimed after %s due %v", c.Key, c.Due, claimed[i].Key, claimed[i].Due)
		}
	}
}

func claimLimit(s *suite) {
	for i := range 250 {
		s.expect(durable.Created, put(keyOf(i), 0))
	}
	s.Advance(s.Unit)
	seen := make(map[string]bool)
	for _, max := range []int{1, 7, 100, 99, 100} {
		b := s.claim(max, far)
		if !s.LooseOrder && len(seen)+max <= 250 && len(b.Claimed) != max {
			s.Fatalf("Claim(%d) returned %d of %d", max, len(b.Claimed), 250-len(seen))
		}
		for _, c := range b.Claimed {
			if seen[c.Key] {
				s.Fatalf("%s was claimed twice", c.Key)
			}
			seen[c.Key] = true
		}
	}
	s.many(250-len(seen), far)
}

// next checks that Next is neither after what comes next nor missing.
func next(s *suite) {
	s.expect(durable.Created, put("a", 4*s.Unit))
	s.expect(durable.Created, put("b", far))
	for range patience {
		b := s.claim(1, 3*s.Unit)
		if b.Next.IsZero() {
			s.Fatal("Next is zero while timers are pending")
		}
		if len(b.Claimed) == 0 {
			if b.Next.After(b.Now.Add(4*s.Unit + 2*time.Millisecond)) {
				s.Fatalf("Next is %v away, a timer is at most %v away", b.Next.Sub(b.Now), 4*s.Unit)
			}
			if !b.Next.After(b.Now) {
				s.Fatalf("Next is %v past and nothing was claimed", b.Now.Sub(b.Next))
			}
			s.Advance(b.Next.Sub(b.Now))
			continue
		}
		// The end of the lease is what comes next.
		if b.Next.After(b.Now.Add(3*s.Unit + 2*time.Millisecond)) {
			s.Fatalf("Next is %v away, a lease ends in %v", b.Next.Sub(b.Now), 3*s.Unit)
		}
		s.expect(durable.Done, settle(durable.Ack, b.Claimed[0]))
		return
	}
	s.Fatal("following Next led nowhere")
}

func lease(s *suite) {
	s.expect(durable.Created, put("a", 0))
	first := s.one(far)
	s.none()
	op := settle(durable.Extend, first)
	op.Delay = 2 * s.Unit
	s.expect(durable.Done, op)
	c := s.one(far)
	if c.Token == first.Token || c.Attempt != 2 || !c.Due.Equal(first.Due) || c.LastError != "" {
		s.Fatalf("after the lease: %+v, before: %+v", c, first)
	}
	s.none()
}

func extend(s *suite) {
	s.expect(durable.Created, put("a", 0))
	c := s.one(10 * s.Unit)
	s.expect(durable.Done, settle(durable.Extend, c)) // far
	s.Advance(12 * s.Unit)
	s.none()
	s.expect(durable.Done, settle(durable.Ack, c))
	s.counts(0, 0)
}

func lateAck(s *suite) {
	for _, kind := range tokenKinds {
		s.expect(durable.Created, put("a", 0))
		c := s.one(s.Unit)
		s.Advance(2 * s.Unit)
		op := settle(kind, c)
		op.Delay = far
		s.expect(durable.Done, op)
		s.none()
		s.apply(on(durable.Cancel, "a"))
	}
	s.counts(0, 0)
}

func attempts(s *suite) {
	s.expect(durable.Created, put("a", 0))
	for attempt := 1; attempt <= 5; attempt++ {
		if c := s.one(s.Unit); c.Attempt != attempt {
			s.Fatalf("attempt %d, want %d", c.Attempt, attempt)
		}
	}
	s.expect(durable.Replaced, put("a", 0))
	if c := s.one(far); c.Attempt != 1 {
		s.Fatalf("attempt %d of a new timer", c.Attempt)
	}
}

func retry(s *suite) {
	s.expect(durable.Created, put("a", 0))
	first := s.one(far)
	op := settle(durable.Retry, first)
	op.Delay, op.Error = 2*s.Unit, strings.Repeat("e", durable.MaxError)
	s.expect(durable.Done, op)
	s.expect(durable.Exists, putNewOp("a", 0))
	c := s.one(far)
	if c.Attempt != 2 || c.LastError != op.Error || string(c.Payload) != "payload of a" {
		s.Fatalf("after a retry: %+v", c)
	}
	if wait := c.Due.Sub(first.Due); wait < 2*s.Unit-time.Millisecond {
		s.Fatalf("the retry is due %v after the first attempt, the delay was %v", wait, 2*s.Unit)
	}
	op = settle(durable.Retry, c)
	op.Delay = far
	s.expect(durable.Done, op)
	s.none()
	s.expect(durable.Canceled, on(durable.Cancel, "a"))
}

func uncounted(s *suite) {
	s.expect(durable.Created, put("a", 0))
	op := settle(durable.Retry, s.one(far))
	op.Error = "the first error"
	s.expect(durable.Done, op)
	for range 3 {
		c := s.one(far)
		if c.Attempt != 2 || c.LastError != "the first error" {
			s.Fatalf("after an uncounted retry: %+v", c)
		}
		op = settle(durable.Retry, c)
		op.Uncounted, op.Error = true, "does not matter"
		s.expect(durable.Done, op)
	}
}

func bury(s *suite) {
	s.expect(durable.Created, put("a", 0))
	s.expect(durable.NotFound, on(durable.Redrive, "a"))
	s.expect(durable.NotFound, on(durable.Redrive, "none"))
	s.one(s.Unit)
	c := s.one(far)
	s.expect(durable.NotFound, on(durable.Redrive, "a"))
	op := settle(durable.Bury, c)
	op.Error = "card expired"
	s.expect(durable.Done, op)
	s.none()
	s.counts(0, 1)
	dead := s.listDead(0, durable.MaxBatch)
	if len(dead) != 1 {
		s.Fatalf("%d dead, want one", len(dead))
	}
	d := dead[0]
	if d.Topic != topic || d.Key != "a" || string(d.Payload) != "payload of a" || d.Attempts != 2 ||
		d.LastError != "card expired" || d.Died.Before(c.Due) {
		s.Fatalf("dead: %+v", d)
	}

	redrive := on(durable.Redrive, "a")
	redrive.Delay = 2 * s.Unit
	s.expect(durable.Done, redrive)
	s.expect(durable.NotFound, redrive)
	s.counts(1, 0)
	if len(s.listDead(0, 1)) != 0 {
		s.Fatal("a redriven timer is listed as dead")
	}
	again := s.one(far)
	if again.Attempt != 1 || string(again.Payload) != "payload of a" {
		s.Fatalf("after the redrive: %+v", again)
	}
	s.expect(durable.Done, settle(durable.Ack, again))
	s.counts(0, 0)
}

func deadPages(s *suite) {
	const n = 130
	for i := range n {
		s.expect(durable.Created, put(keyOf(i), 0))
	}
	for _, c := range s.many(n, far) {
		s.expect(durable.Done, settle(durable.Bury, c))
	}
	s.counts(0, n)
	seen := make(map[string]bool)
	for skip := 0; ; {
		page := s.listDead(skip, 50)
		if len(page) == 0 {
			break
		}
		skip += len(page)
		for _, d := range page {
			if seen[d.Key] {
				s.Fatalf("%s is listed twice", d.Key)
			}
			seen[d.Key] = true
		}
	}
	if len(seen) != n {
		s.Fatalf("%d dead listed, want %d", len(seen), n)
	}
	if len(s.listDead(n, 1)) != 0 || len(s.listDead(10*n, 1)) != 0 {
		s.Fatal("there are dead timers after the last")
	}
}

func deadYield(s *suite) {
	for _, key := range []string{"a", "b"} {
		s.expect(durable.Created, put(key, 0))
		s.expect(durable.Done, settle(durable.Bury, s.one(far)))
	}
	s.expect(durable.Canceled, on(durable.Cancel, "a"))
	s.expect(durable.NotFound, on(durable.Redrive, "a"))
	s.expect(durable.Replaced, put("b", 0))
	s.counts(1, 0)
	if c := s.one(far); c.Key != "b" || c.Attempt != 1 || c.LastError != "" {
		s.Fatalf("claimed %+v", c)
	}
}

func wake(s *suite) {
	woken := func(why string) {
		s.Helper()
		for range patience {
			select {
			case _, open := <-s.Store.Wake():
				if !open {
					s.Fatal("Wake is closed")
				}
				return
			default:
				s.Advance(s.Unit)
			}
		}
		s.Fatalf("no wake %s", why)
	}
	drain := func() {
		for {
			select {
			case <-s.Store.Wake():
			default:
				return
			}
		}
	}
	s.none()
	drain()
	s.expect(durable.Created, put("a", far))
	woken("for the first timer")
	s.none()
	drain()
	s.expect(durable.Created, put("b", far/2))
	woken("for an earlier timer")
	s.expect(durable.Created, put("c", 0))
	c := s.one(far)
	s.none()
	drain()
	s.expect(durable.Done, settle(durable.Retry, c)) // now
	woken("for a retry")
	c = s.one(far)
	s.expect(durable.Done, settle(durable.Bury, c))
	s.none()
	drain()
	s.expect(durable.Done, on(durable.Redrive, "c"))
	woken("for a redriven timer")
}
