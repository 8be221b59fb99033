package redisstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
)

// Whatever single key somebody deletes: each timer is still delivered, or visibly
// dead, no lease is cut short and no cancelled timer comes back.
func TestEachKeyMayBeDeleted(t *testing.T) {
	for number, key := range []string{"timers", "live", "dead"} {
		t.Run(key, func(t *testing.T) {
			client := clientOf(t, server.Addr)
			s := open(t, client, freshPrefix(), 1)
			held := fill(t, s)
			if err := client.Del(t.Context(), s.shards[0].keys[number]).Err(); err != nil {
				t.Fatal(err)
			}
			// Life goes on before anybody looks.
			apply(t, s, durable.Op{Kind: durable.Cancel, Topic: "order.unpaid", Key: putOp(299, 0).Key}, putOp(300, 0))
			want := make(map[string]bool)
			for i := range 301 {
				if i != 299 {
					want[putOp(i, 0).Key] = true
				}
			}
			delivered := drain(t, s)
			dead := deadOf(t, s)
			for key := range want {
				if !delivered[key] && !dead[key] && !held[key] {
					t.Errorf("%s is lost", key)
				}
				if delivered[key] && held[key] {
					t.Errorf("%s was claimed while its lease was running", key)
				}
			}
			if key != "timers" && (len(dead) != 50 || delivered[putOp(299, 0).Key]) {
				t.Errorf("%d dead, want 50; the cancelled one was delivered: %v", len(dead), delivered[putOp(299, 0).Key])
			}
		})
	}
}

// fill puts 300 timers: 50 are dead then, 50 held under a long lease, the others due.
// It returns those that are held.
func fill(t *testing.T, s *Store) map[string]bool {
	t.Helper()
	held := make(map[string]bool)
	for _, from := range []int{0, 50} {
		ops := make([]durable.Op, 50)
		for i := range ops {
			ops[i] = putOp(from+i, 0)
		}
		apply(t, s, ops...)
		for i := range ops {
			c := one(t, s)
			held[c.Key] = from == 50
			ops[i] = durable.Op{Kind: durable.Bury, Topic: c.Topic, Key: c.Key, Token: c.Token, Error: "no such order"}
		}
		if from == 0 {
			apply(t, s, ops...)
		}
	}
	maps.DeleteFunc(held, func(_ string, h bool) bool { return !h })
	for from := 100; from < 300; from += 100 {
		ops := make([]durable.Op, 100)
		for i := range ops {
			ops[i] = putOp(from+i, time.Millisecond)
		}
		apply(t, s, ops...)
	}
	return held
}

// drain claims, as a scheduler would, until there is nothing more to do for a second.
func drain(t *testing.T, s *Store) map[string]bool {
	t.Helper()
	delivered := make(map[string]bool)
	for {
		b := claim(t, s, lease)
		for _, c := range b.Claimed {
			delivered[c.Key] = true
			if string(c.Payload) != "payload" || c.Topic != "order.unpaid" {
				t.Errorf("claimed %+v", c)
			}
		}
		if b.Next.Sub(b.Now) >= lookEvery {
			return delivered
		}
		select {
		case <-time.After(b.Next.Sub(b.Now)):
		case <-s.Wake():
		}
	}
}

func deadOf(t *testing.T, s *Store) map[string]bool {
	t.Helper()
	dead := make(map[string]bool)
	for skip := 0; ; skip = len(dead) {
		list, err := s.Dead(t.Context(), skip, durable.MaxBatch)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			return dead
		}
		for _, d := range list {
			dead[d.Key] = true
			if d.LastError == "" || d.Topic != "order.unpaid" {
				t.Errorf("dead: %+v", d)
			}
		}
	}
}

// A record that cannot be read is listed as dead, with its bytes as the payload, and
// can be got rid of.
func TestDamagedRecordsAreVisible(t *testing.T) {
	client := clientOf(t, server.Addr)
	s := open(t, client, freshPrefix(), 1)
	op := putOp(1, 0)
	apply(t, s, op)
	if err := client.HSet(t.Context(), s.shards[0].keys[0], nameOf(op.Topic, op.Key), "nonsense").Err(); err != nil {
		t.Fatal(err)
	}
	if delivered := drain(t, s); len(delivered) != 0 {
		t.Errorf("claimed %v", delivered)
	}
	list, err := s.Dead(t.Context(), 0, 10)
	if err != nil || len(list) != 1 || string(list[0].Payload) != "nonsense" || !strings.Contains(list[0].LastError, "damaged") {
		t.Fatalf("dead: %+v, %v", list, err)
	}
	if got := apply(t, s, durable.Op{Kind: durable.Cancel, Topic: op.Topic, Key: op.Key})[0]; got != durable.Canceled {
		t.Errorf("a cancel answered %v", got)
	}
}

// All keys of a shard have the same hash tag, and what the store leaves behind is
// just these keys: none more, none that expires.
func TestKeysAreKnown(t *testing.T) {
	client, prefix := clientOf(t, server.Addr), freshPrefix()
	s := open(t, client, prefix, 2)
	for i := range 20 {
		apply(t, s, putOp(i, 0))
	}
	c := one(t, s)
	apply(t, s, durable.Op{Kind: durable.Bury, Topic: c.Topic, Key: c.Key, Token: c.Token})
	want := []string{prefix + ":shards"}
	for _, h := range s.shards {
		for _, key := range h.keys {
			if tag := fmt.Sprintf("{%s:%d}", prefix, h.number); !strings.HasPrefix(key, tag) {
				t.Errorf("key %s has not the tag %s", key, tag)
			}
			want = append(want, key)
		}
	}
	keys := keysWith(t, client, prefix)
	for _, key := range keys {
		if !slices.Contains(want, key) {
			t.Errorf("there is a key %s", key)
		}
		if ttl := client.TTL(t.Context(), key).Val(); ttl >= 0 {
			t.Errorf("%s expires in %v", key, ttl)
		}
	}
}

func keysWith(t *testing.T, client *redis.Client, prefix string) []string {
	t.Helper()
	var keys []string
	iter := client.Scan(t.Context(), 0, "*"+prefix+"*", 1000).Iterator()
	for iter.Next(context.Background()) {
		keys = append(keys, iter.Val())
	}
	if err := iter.Err(); err != nil {
		t.Fatal(err)
	}
	return keys
}
