package redisstore

import (
	"context"
	_ "embed" // the scripts
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
)

var (
	//go:embed record.lua
	recordLua string
	//go:embed apply.lua
	applyLua string
	//go:embed claim.lua
	claimLua string
	//go:embed dead.lua
	deadLua string

	applyScript = redis.NewScript(recordLua + applyLua)
	claimScript = redis.NewScript(recordLua + claimLua)
	deadScript  = redis.NewScript(recordLua + deadLua)
)

// A call is one run of a script on one shard.
type call struct {
	shard  *shard
	script *redis.Script
	args   []any
	cmd    *redis.Cmd // after run
}

// run runs calls on different shards in one round trip; the answers, and what went
// wrong, are in the calls. A server that does not know a script yet is sent its text.
func (s *Store) run(ctx context.Context, calls ...*call) {
	if len(calls) == 1 {
		c := calls[0]
		c.cmd = c.script.EvalSha(ctx, s.client, c.shard.keys, c.args...)
	} else {
		pipe := s.client.Pipeline()
		for _, c := range calls {
			c.cmd = c.script.EvalSha(ctx, pipe, c.shard.keys, c.args...)
		}
		_, _ = pipe.Exec(ctx) // each command has its error
	}
	for _, c := range calls {
		if redis.HasErrorPrefix(c.cmd.Err(), "NOSCRIPT") {
			c.cmd = c.script.Eval(ctx, s.client, c.shard.keys, c.args...)
		}
	}
}

// values returns what the script answered.
func (c *call) values() (*values, error) {
	list, err := c.cmd.Slice()
	if err != nil {
		return nil, failure(err, c.shard.keys[0])
	}
	return &values{list: list}, nil
}

// failure says where a call failed.
func failure(err error, where string) error {
	if errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("redisstore: %s: %w: its client was closed: %w", where, durable.ErrFailed, err)
	}
	return fmt.Errorf("redisstore: %s: %w", where, err)
}

// values is the rest of an answer that has not been read. What is not there or has
// another type reads as zero and makes it wrong.
type values struct {
	list  []any
	wrong bool
}

func (v *values) more() bool { return len(v.list) > 0 && !v.wrong }

func (v *values) pop() any {
	if len(v.list) == 0 {
		return nil
	}
	x := v.list[0]
	v.list = v.list[1:]
	return x
}

func (v *values) integer() int64 {
	n, ok := v.pop().(int64)
	v.wrong = v.wrong || !ok
	return n
}

func (v *values) text() string {
	s, ok := v.pop().(string)
	v.wrong = v.wrong || !ok
	return s
}
