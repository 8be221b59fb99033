package redisstore

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/redisstore/redistest"
	"github.com/fee15284/timingwheel/durable/storetest"
)

// The suite on a Redis Cluster of three nodes, with shards on each of them.
func TestStoreOnCluster(t *testing.T) {
	if !redistest.Found() {
		t.Skip("needs a redis-server on the PATH")
	}
	c, err := redistest.StartCluster(3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	t.Cleanup(func() { client.Close() })
	const shards = 8
	t.Run("suite", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) *storetest.Harness {
			t.Parallel()
			return harness(t, client, shards)
		})
	})
	s := open(t, client, "spread", shards)
	ops := make([]durable.Op, durable.MaxBatch)
	for i := range ops {
		ops[i] = putOp(i, 0)
	}
	apply(t, s, ops...)
	for _, node := range c.Nodes {
		if n := clientOf(t, node.Addr).DBSize(t.Context()).Val(); n < 2 {
			t.Errorf("a node has %d keys: the shards are not spread", n)
		}
	}
	for _, h := range s.shards {
		slots := make(map[int64]bool)
		for _, key := range h.keys {
			slots[client.ClusterKeySlot(t.Context(), key).Val()] = true
		}
		if len(slots) != 1 {
			t.Errorf("the keys %v are in %d slots", h.keys, len(slots))
		}
	}
}
