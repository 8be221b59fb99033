package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

// Claim implements durable.Store. It looks first where something is due first, as
// far as this process knows, and goes on to other shards until it has max timers or
// has looked into all whose time has come. A look costs one round trip.
//
// The timers of one shard come in their order. Each shard is looked into about
// once a second if no hint comes, and so Batch.Next is at most a second away. A shard that
// cannot be reached is left for a second, which is logged; Claim returns an error if
// it meets two of them, or reaches none.
//
// If the answer is lost, the timers in it come back when their lease ends.
func (s *Store) Claim(ctx context.Context, max int, lease time.Duration) (durable.Batch, error) {
	if err := s.enter(ctx, durable.CheckClaim(max, lease)); err != nil {
		return durable.Batch{}, err
	}
	defer s.calls.Done()
	var (
		b      durable.Batch
		now    int64
		failed error
	)
	for _, h := range s.order() {
		if now > 0 && s.when(h) > now || len(b.Claimed) == max {
			break
		}
		r, err := s.look(ctx, h, max-len(b.Claimed), lease)
		switch {
		case err == nil:
			b.Claimed = append(b.Claimed, r.claimed...)
			now = r.now
		case len(b.Claimed) > 0:
			return s.finish(b, now), nil // the lease of these runs: do not wait for others
		case failed != nil:
			return durable.Batch{}, err // not just one node; each call may wait for long
		default:
			failed = err
		}
	}
	if now == 0 {
		return durable.Batch{}, failed
	}
	return s.finish(b, now), nil
}

// look runs a claim on one shard, and notes what it learns.
func (s *Store) look(ctx context.Context, h *shard, max int, lease time.Duration) (*reply, error) {
	s.mu.Lock()
	hints, cursor := h.hints, h.cursor
	s.mu.Unlock()
	if cursor == "" {
		cursor = "0"
	}
	token := rand.Text()[:16] // 80 random bits
	values, err := s.run(ctx, h, claimScript, max, micros(lease), token, cursor)
	r, wrong := claimed(values, token)
	if err == nil && wrong {
		err = fmt.Errorf("redisstore: %s answered a claim with values that it does not return", h.keys[0])
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if !h.failed && ctx.Err() == nil {
			s.log.Warn("redisstore: a shard cannot be claimed from", "shard", h.keys[0], "error", err)
		}
		h.failed, h.looked, h.head = true, s.now, s.now+lookEvery.Microseconds()
		return nil, err
	}
	if h.failed {
		s.log.Info("redisstore: a shard can be claimed from again", "shard", h.keys[0])
	}
	if r.cursor != "" && h.cursor == "" {
		s.log.Warn("redisstore: an index is incomplete and is made again", "shard", h.keys[0])
	}
	s.now = r.now
	h.learn(r, hints)
	return r, nil
}

// finish completes the answer to a claim, and notes what the receiver of Wake knows
// then.
func (s *Store) finish(b durable.Batch, now int64) durable.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.head = math.MaxInt64
	next := s.head
	for _, h := range s.shards {
		s.head, next = min(s.head, h.head), min(next, h.when())
	}
	if len(b.Claimed) == 0 {
		next = max(next, now+time.Millisecond.Microseconds())
	}
	b.Now, b.Next = time.UnixMicro(now), time.UnixMicro(next)
	for i := range b.Claimed { // the clocks of a Cluster's nodes differ
		if b.Claimed[i].Due.After(b.Now) {
			b.Now = b.Claimed[i].Due
		}
	}
	return b
}

// A reply is what claim.lua returns.
type reply struct {
	now     int64
	head    int64
	cursor  string
	claimed []durable.Claimed
}

// claimed reads the answer of claim.lua, and says whether it was wrong.
func claimed(values *answer, token string) (r *reply, wrong bool) {
	r = &reply{now: values.integer(), head: values.integer() * 1000, cursor: values.text()}
	if r.head == 0 {
		r.head = math.MaxInt64
	}
	for values.more() {
		topic, key := cut(values.text())
		c := durable.Claimed{
			Timer:     durable.Timer{Topic: topic, Key: key},
			Token:     token,
			Due:       time.UnixMilli(values.integer()),
			Attempt:   int(values.integer()),
			LastError: values.text(),
		}
		c.Payload = []byte(values.text())
		r.claimed = append(r.claimed, c)
	}
	return r, values.wrong
}
