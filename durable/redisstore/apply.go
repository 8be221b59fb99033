package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

// enough is about how many bytes of payload one script takes: others wait while it
// runs.
const enough = 256 << 10

// Apply implements durable.Store. A batch costs one round trip: one script for each
// shard that it touches, more if the payloads are large. If the call returns an
// error, shards that could be reached have carried out their part.
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
	for _, round := range s.rounds(ops) {
		calls := make([]*call, len(round))
		for i, p := range round {
			calls[i] = &call{shard: p.shard, script: applyScript, args: s.applyArgs(p, ops)}
		}
		s.run(ctx, calls...)
		var failed error
		for i, p := range round {
			if err := s.applied(calls[i], p, statuses); err != nil {
				failed = err
			}
		}
		if failed != nil {
			return nil, failed
		}
	}
	return statuses, nil
}

// A part is the operations that one script carries out.
type part struct {
	shard *shard
	ops   []int // places in the batch
	size  int   // bytes of payload
}

// rounds divides a batch into parts. Those of a round are on different shards and
// run at once; those of one shard, if there are several, in one round after another.
func (s *Store) rounds(ops []durable.Op) [][]*part {
	var rounds [][]*part
	round := make(map[*shard]int)  // the last one in which the shard has a part
	last := make(map[*shard]*part) // that part
	for i := range ops {
		h := s.shardOf(nameOf(ops[i].Topic, ops[i].Key))
		p := last[h]
		if p == nil || p.size+len(ops[i].Payload) > enough {
			if p != nil {
				round[h]++
			}
			if round[h] == len(rounds) {
				rounds = append(rounds, nil)
			}
			p = &part{shard: h}
			last[h] = p
			rounds[round[h]] = append(rounds[round[h]], p)
		}
		p.ops = append(p.ops, i)
		p.size += len(ops[i].Payload)
	}
	return rounds
}

// applyArgs returns the arguments of apply.lua.
func (s *Store) applyArgs(p *part, ops []durable.Op) []any {
	args := make([]any, 0, 2+5*len(p.ops))
	args = append(args, s.channel, p.shard.number)
	for _, i := range p.ops {
		op := &ops[i]
		args = append(args, op.Kind.String(), nameOf(op.Topic, op.Key))
		switch op.Kind {
		case durable.Put, durable.PutNew:
			args = append(args, micros(op.Delay), idOf(op.ID), op.Payload)
		case durable.Redrive:
			args = append(args, micros(op.Delay))
		case durable.Ack:
			args = append(args, op.Token)
		case durable.Extend:
			args = append(args, op.Token, micros(op.Delay))
		case durable.Bury:
			args = append(args, op.Token, op.Error)
		case durable.Retry:
			args = append(args, op.Token, micros(op.Delay), op.Error, !op.Uncounted)
		}
	}
	return args
}

// applied stores the statuses of a part, and notes that a timer became the earliest.
func (s *Store) applied(c *call, p *part, statuses []durable.Status) error {
	values, err := c.values()
	if err != nil {
		return err
	}
	for _, i := range p.ops {
		statuses[i] = durable.Status(values.integer())
	}
	look := values.integer()
	if values.wrong || values.more() {
		return fmt.Errorf("redisstore: %s did not answer each operation with an integer", p.shard.keys[0])
	}
	if look > 0 {
		s.hint(p.shard, look) // our own hint comes by the channel, too, but later or not at all
	}
	return nil
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
