package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

// manyClaimers lets several goroutines claim, ack and retry at once: each timer
// must have one holder at a time.
func manyClaimers(s *suite) {
	const timers, claimers = 600, 6
	for first := 0; first < timers; first += durable.MaxBatch {
		ops := make([]durable.Op, durable.MaxBatch)
		for i := range ops {
			ops[i] = put(keyOf(first+i), 0)
		}
		s.apply(ops...)
	}
	s.Advance(s.Unit)
	var (
		mu    sync.Mutex
		acked = make(map[string]int)
		wg    sync.WaitGroup
	)
	for range claimers {
		wg.Go(func() {
			for {
				b, err := s.Store.Claim(s.ctx, 17, far)
				if err != nil {
					s.Errorf("Claim: %v", err)
					return
				}
				if len(b.Claimed) == 0 {
					return
				}
				for _, c := range b.Claimed {
					statuses, err := s.Store.Apply(s.ctx, []durable.Op{settle(durable.Ack, c)})
					if err != nil || statuses[0] != durable.Done {
						s.Errorf("ack of %s: %v, %v", c.Key, statuses, err)
						return
					}
					mu.Lock()
					acked[c.Key]++
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	for key, n := range acked {
		if n != 1 {
			s.Errorf("%s was delivered %d times", key, n)
		}
	}
	if len(acked) != timers {
		s.Errorf("%d timers were delivered, want %d", len(acked), timers)
	}
	s.counts(0, 0)
}

// manyWriters has each goroutine put, replace and cancel keys of its own, and all
// of them one that they share.
func manyWriters(s *suite) {
	const writers, rounds = 8, 30
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range rounds {
				key := fmt.Sprintf("writer-%d-%d", w, i)
				got, err := s.Store.Apply(s.ctx, []durable.Op{put(key, far), put("shared", far), put(key, far)})
				if err != nil || got[0] != durable.Created || got[2] != durable.Replaced {
					s.Errorf("put of %s: %v, %v", key, got, err)
					return
				}
				if i%2 == 0 {
					continue
				}
				got, err = s.Store.Apply(s.ctx, []durable.Op{on(durable.Cancel, key)})
				if err != nil || got[0] != durable.Canceled {
					s.Errorf("cancel of %s: %v, %v", key, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	s.counts(writers*rounds/2+1, 0)
}

// A twin is what the model knows about a timer.
type twin struct {
	state    byte // 'p' pending, 'f' in flight, 'd' dead
	due      bool
	id       uint64
	attempts int
	token    string
}

// A world is the model: a map of timers that are due now or never.
type world struct {
	*suite
	rand   *rand.Rand
	timers map[string]*twin
	old    []durable.Claimed // claims that may or may not be stale
}

// model compares the store with a map over random operations. Delays are nothing
// or an hour and leases never end, so that no clock has a say.
func model(s *suite) {
	seed := uint64(time.Now().UnixNano())
	defer func() {
		if s.Failed() {
			s.Logf("seed %d", seed)
		}
	}()
	w := &world{suite: s, rand: rand.New(rand.NewPCG(seed, 0)), timers: make(map[string]*twin)}
	for range 400 {
		switch n := w.rand.IntN(10); {
		case n < 3:
			w.put(durable.Put)
		case n < 5:
			w.put(durable.PutNew)
		case n < 6:
			w.cancel()
		case n < 8:
			w.settle()
		case n < 9:
			w.redrive()
		default:
			w.claim()
		}
		live, dead := 0, 0
		for _, t := range w.timers {
			if t.state == 'd' {
				dead++
			} else {
				live++
			}
		}
		s.counts(live, dead)
	}
}

func (w *world) key() string { return keyOf(w.rand.IntN(12)) }

func (w *world) delay() (d time.Duration, due bool) {
	if w.rand.IntN(3) > 0 {
		return 0, true
	}
	return far, false
}

func (w *world) put(kind durable.Kind) {
	op := put(w.key(), 0)
	op.Kind, op.ID = kind, uint64(w.rand.IntN(4))
	var due bool
	op.Delay, due = w.delay()
	t, want := w.timers[op.Key], durable.Created
	repeated := false
	if t != nil {
		repeated = t.state == 'p' && t.id == op.ID && op.ID != 0
		switch {
		case repeated:
		case kind == durable.Put:
			want = durable.Replaced
		default:
			want = map[byte]durable.Status{'p': durable.Exists, 'f': durable.InFlight, 'd': durable.Dead}[t.state]
		}
	}
	w.expect(want, op)
	if !repeated && (want == durable.Created || want == durable.Replaced) {
		w.timers[op.Key] = &twin{state: 'p', due: due, id: op.ID}
	}
}

func (w *world) cancel() {
	key := w.key()
	want := durable.NotFound
	if t := w.timers[key]; t != nil {
		want = durable.Canceled
		if t.state == 'f' {
			want = durable.InFlight
		}
	}
	w.expect(want, on(durable.Cancel, key))
	delete(w.timers, key)
}

func (w *world) redrive() {
	op := on(durable.Redrive, w.key())
	var due bool
	op.Delay, due = w.delay()
	t := w.timers[op.Key]
	if t == nil || t.state != 'd' {
		w.expect(durable.NotFound, op)
		return
	}
	w.expect(durable.Done, op)
	t.state, t.due, t.attempts = 'p', due, 0
}

func (w *world) settle() {
	if len(w.old) == 0 {
		return
	}
	c := w.old[w.rand.IntN(len(w.old))]
	op := settle(tokenKinds[w.rand.IntN(len(tokenKinds))], c)
	var due bool
	if op.Kind == durable.Retry {
		op.Delay, due = w.delay()
		op.Uncounted = w.rand.IntN(2) == 0
	}
	t := w.timers[c.Key]
	if t == nil || t.state != 'f' || t.token != c.Token {
		w.expect(durable.Stale, op)
		return
	}
	w.expect(durable.Done, op)
	switch op.Kind {
	case durable.Ack:
		delete(w.timers, c.Key)
	case durable.Bury:
		t.state = 'd'
	case durable.Retry:
		t.state, t.due = 'p', due
		if op.Uncounted {
			t.attempts--
		}
	}
}

// claim takes all that is due. It must be just what the model has.
func (w *world) claim() {
	want := 0
	for _, t := range w.timers {
		if t.state == 'p' && t.due {
			want++
		}
	}
	if want == 0 {
		w.none()
		return
	}
	for _, c := range w.many(want, far) {
		t := w.timers[c.Key]
		if t == nil || t.state != 'p' || !t.due {
			w.Fatalf("%s was claimed, the model has %+v", c.Key, t)
		}
		t.state, t.token = 'f', c.Token
		if t.attempts++; c.Attempt != t.attempts {
			w.Fatalf("%s was claimed as attempt %d, the model has %d", c.Key, c.Attempt, t.attempts)
		}
		w.old = append(w.old, c)
	}
}
