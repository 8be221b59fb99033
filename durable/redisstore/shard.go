package redisstore

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"
)

// lookEvery is how often an idle consumer looks. A lost hint costs that and a tick of
// the wheel, together at most a second.
const lookEvery = 900 * time.Millisecond

// A shard is a part of the timers, with keys of its own, and what this process
// knows of it.
type shard struct {
	number int
	keys   []string // see record.lua
	outlet outlet

	// The rest is guarded by Store.mu. Times are microseconds on the server's clock.
	head   int64  // when somebody must look next, as far as we know; math.MaxInt64 if there is nothing
	looked int64  // when we last looked
	hints  uint64 // how many hints have come
	hinted int64  // what the last of them said
	cursor string // where the repair stands, "" if nothing is amiss
	failed bool   // the last look did
}

// shardsOf returns the shards of a prefix. The keys of one have the same hash tag,
// so that a Cluster keeps them on one node.
func shardsOf(prefix string, n int) []*shard {
	shards := make([]*shard, n)
	for i := range shards {
		tag := fmt.Sprintf("{%s:%d}", prefix, i)
		keys := []string{tag + ":timers", tag + ":live", tag + ":dead"}
		shards[i] = &shard{number: i, keys: keys, head: math.MaxInt64}
	}
	return shards
}

// hint notes that something was put that is due earlier than all else in the shard,
// or was when it was put.
func (h *shard) hint(look int64) {
	h.hints++
	h.hinted = look
	h.head = min(h.head, look)
}

// learn notes the answer to a look that was begun after so many hints.
func (h *shard) learn(r *reply, hints uint64) {
	h.failed, h.looked, h.head, h.cursor = false, r.now, r.head, r.cursor
	if h.hints != hints {
		h.head = min(h.head, h.hinted) // it may have come after the script ran: look once more
	}
}

// when returns when we must look next.
func (h *shard) when() int64 {
	if h.cursor != "" {
		return h.looked // go on with the repair
	}
	return min(h.head, h.looked+lookEvery.Microseconds())
}

// byWhen returns the shards, those first at which we must look first. Called with
// Store.mu held.
func byWhen(shards []*shard) []*shard {
	if len(shards) == 1 {
		return shards
	}
	return slices.SortedStableFunc(slices.Values(shards), func(a, b *shard) int {
		return cmp.Compare(a.when(), b.when())
	})
}

// shardOf returns where a timer is kept. That must stay so for ever.
func (s *Store) shardOf(name string) *shard {
	if len(s.shards) == 1 {
		return s.shards[0]
	}
	h := fnv.New64a()
	h.Write([]byte(name))
	return s.shards[h.Sum64()%uint64(len(s.shards))]
}
