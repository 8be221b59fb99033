package redisstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/fee15284/timingwheel/durable"
)

// enough is about how many bytes of payload one script takes: others wait while it
// runs.
const enough = 256 << 10

// An outlet sends operations on one shard to the server, one script at a time. What
// callers bring while a script is under way gathers, and goes together in the next:
// with many callers that is several times as fast as a script for each.
type outlet struct {
	mu      sync.Mutex
	busy    bool // somebody is sending
	waiting []*parcel
}

// A parcel is operations of one caller that stay together.
type parcel struct {
	ops  []int // places in the caller's batch
	args []any // of these operations, see apply.lua
	size int   // bytes of payload

	done     chan struct{} // closed when there is an answer
	statuses []durable.Status
	err      error
}

// send carries out a parcel, or returns the error of ctx when that ends before.
func (s *Store) send(ctx context.Context, h *shard, p *parcel) error {
	o := &h.outlet
	o.mu.Lock()
	if o.busy {
		o.waiting = append(o.waiting, p)
		o.mu.Unlock()
		select {
		case <-p.done:
			return p.err
		case <-ctx.Done():
			return fmt.Errorf("redisstore: %s: %w", h.keys[0], ctx.Err())
		}
	}
	o.busy = true
	o.mu.Unlock()
	s.deliver(ctx, h, []*parcel{p})
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy = len(o.waiting) > 0; o.busy {
		// Our caller has its answer and need not wait for the others.
		s.calls.Add(1)
		go s.sendWaiting(h)
	}
	return p.err
}

// sendWaiting sends until nothing waits.
func (s *Store) sendWaiting(h *shard) {
	defer s.calls.Done()
	for {
		parcels := h.outlet.take()
		if len(parcels) == 0 {
			return
		}
		s.deliver(context.Background(), h, parcels) // not that of one of several callers
	}
}

// take returns the parcels that go next, together. When there are none, nobody is
// sending any more.
func (o *outlet) take() []*parcel {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, ops, size := 0, 0, 0
	for _, p := range o.waiting {
		ops, size = ops+len(p.ops), size+p.size
		if n > 0 && (ops > durable.MaxBatch || size > enough) {
			break
		}
		n++
	}
	parcels := o.waiting[:n:n]
	o.waiting = o.waiting[n:]
	o.busy = n > 0
	return parcels
}

// deliver carries out parcels by one script, and answers them.
func (s *Store) deliver(ctx context.Context, h *shard, parcels []*parcel) {
	args := []any{s.channel, h.number}
	for _, p := range parcels {
		args = append(args, p.args...)
	}
	values, err := s.run(ctx, h, applyScript, args...)
	for _, p := range parcels {
		for range p.ops {
			p.statuses = append(p.statuses, durable.Status(values.integer()))
		}
	}
	look := values.integer()
	if err == nil && (values.wrong || values.more()) {
		err = fmt.Errorf("redisstore: %s did not answer each operation with an integer", h.keys[0])
	}
	for _, p := range parcels {
		p.err = err
		close(p.done)
	}
	if err == nil && look > 0 {
		s.hint(h, look) // our own hint comes by the channel, too, but later or not at all
	}
}
