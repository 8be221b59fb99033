package redisstore

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

// Apply implements durable.Store. A batch costs one round trip, with all the shards
// that it touches at the same time; more if the payloads are large. Calls at the same
// time share scripts. If the call returns an error, shards that could be reached have
// carried out their part.
//
// The client may send a command again if the answer is lost. A Put or PutNew with an
// ID answers as the first time; without one, a repeated Put answers Replaced, a
// PutNew Exists, a Cancel or Redrive NotFound, and what needs a token Stale.
func (s *Store) Apply(ctx context.Context, ops []durable.Op) ([]durable.Status, error) {
	if err := s.enter(ctx, durable.CheckOps(ops)); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	statuses := make([]durable.Status, len(ops))
	parcels := s.pack(ops)
	var (
		sending sync.WaitGroup
		mu      sync.Mutex // guards failed
		failed  error
	)
	sendAll := func(h *shard) {
		for _, p := range parcels[h] { // one after the other, for the order
			if err := s.send(ctx, h, p); err != nil {
				mu.Lock()
				failed = err
				mu.Unlock()
				return
			}
			for j, i := range p.ops {
				statuses[i] = p.statuses[j]
			}
		}
	}
	for h := range parcels {
		if len(parcels) == 1 {
			sendAll(h)
			break
		}
		sending.Go(func() { sendAll(h) })
	}
	sending.Wait()
	if failed != nil {
		return nil, failed
	}
	return statuses, nil
}

// pack divides a batch among the shards. Those of one shard are in one parcel, or in
// several if the payloads are large.
func (s *Store) pack(ops []durable.Op) map[*shard][]*parcel {
	parcels := make(map[*shard][]*parcel, 1)
	for i := range ops {
		op := &ops[i]
		name := nameOf(op.Topic, op.Key)
		h := s.shardOf(name)
		list := parcels[h]
		if len(list) == 0 || list[len(list)-1].size+len(op.Payload) > enough {
			list = append(list, &parcel{done: make(chan struct{})})
			parcels[h] = list
		}
		p := list[len(list)-1]
		p.ops = append(p.ops, i)
		p.args = appendArgs(p.args, name, op)
		p.size += len(op.Payload)
	}
	return parcels
}

// appendArgs appends the arguments of an operation, as apply.lua takes them.
func appendArgs(args []any, name string, op *durable.Op) []any {
	args = append(args, op.Kind.String(), name)
	switch op.Kind {
	case durable.Put, durable.PutNew:
		// The bytes may be sent after the call has returned because its context
		// ended, so they are not the caller's.
		return append(args, micros(op.Delay), idOf(op.ID), string(op.Payload))
	case durable.Redrive:
		return append(args, micros(op.Delay))
	case durable.Ack:
		return append(args, op.Token)
	case durable.Extend:
		return append(args, op.Token, micros(op.Delay))
	case durable.Bury:
		return append(args, op.Token, op.Error)
	case durable.Retry:
		return append(args, op.Token, micros(op.Delay), op.Error, !op.Uncounted)
	}
	return args // Cancel
}

// micros returns a delay in microseconds, rounded up.
func micros(d time.Duration) int64 {
	us := d.Microseconds()
	if time.Duration(us)*time.Microsecond < d {
		us++
	}
	return us
}

// idOf returns the ID of an operation as a word, "" for none.
func idOf(id uint64) string {
	if id == 0 {
		return ""
	}
	return strconv.FormatUint(id, 36)
}
