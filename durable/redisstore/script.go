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

// run runs a script on a shard. A server that does not know the script yet is sent its
// text. The answer is empty if there is an error.
func (s *Store) run(ctx context.Context, h *shard, script *redis.Script, args ...any) (*answer, error) {
	list, err := script.Run(ctx, s.client, h.keys, args...).Slice()
	if err != nil {
		return new(answer), failure(err, h.keys[0])
	}
	return &answer{list: list}, nil
}

// failure says where a call failed.
func failure(err error, where string) error {
	if errors.Is(err, redis.ErrClosed) {
		return fmt.Errorf("redisstore: %s: %w: its client was closed: %w", where, durable.ErrFailed, err)
	}
	return fmt.Errorf("redisstore: %s: %w", where, err)
}

// An answer is what of a script's answer has not been read. What is not there or has
// another type reads as zero and makes it wrong.
type answer struct {
	list  []any
	wrong bool
}

func (a *answer) more() bool { return len(a.list) > 0 && !a.wrong }

func (a *answer) pop() any {
	if len(a.list) == 0 {
		return nil
	}
	x := a.list[0]
	a.list = a.list[1:]
	return x
}

func (a *answer) integer() int64 {
	n, ok := a.pop().(int64)
	a.wrong = a.wrong || !ok
	return n
}

func (a *answer) text() string {
	s, ok := a.pop().(string)
	a.wrong = a.wrong || !ok
	return s
}
