package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
)

// A server that was restarted, or a replica that took over, knows no script.
func TestUnknownScriptsAreSent(t *testing.T) {
	for _, shards := range []int{1, 4} {
		client := clientOf(t, server.Addr)
		s := open(t, client, freshPrefix(), shards)
		ops := make([]durable.Op, 50)
		for i := range ops {
			ops[i] = putOp(i, 0)
		}
		for round, want := range []durable.Status{durable.Created, durable.Replaced} {
			client.ScriptFlush(t.Context())
			for i, got := range apply(t, s, ops...) {
				if got != want {
					t.Fatalf("%d shards, round %d: operation %d answered %v, want %v", shards, round, i, got, want)
				}
			}
		}
		client.ScriptFlush(t.Context())
		one(t, s)
		client.ScriptFlush(t.Context())
		if _, err := s.Dead(t.Context(), 0, 10); err != nil {
			t.Fatal(err)
		}
	}
}

// The numbers in apply.lua are those of durable.Status; storetest checks each of
// them, this test says so if somebody adds one.
func TestStatusesAreThoseOfTheScript(t *testing.T) {
	if durable.Stale != 9 {
		t.Errorf("Stale is %d, apply.lua has 9", durable.Stale)
	}
}

// Large payloads go in several scripts, in their order, and come in several batches.
func TestLargePayloadsAreSplit(t *testing.T) {
	s := open(t, clientOf(t, server.Addr), freshPrefix(), 1)
	ops := make([]durable.Op, durable.MaxBatch)
	for i := range ops {
		ops[i] = putOp(i%90, 0) // the last ten replace the first
		ops[i].Payload = make([]byte, durable.MaxPayload)
		ops[i].Payload[0] = byte(i)
	}
	if n := len(s.pack(ops)[s.shards[0]]); n < 20 {
		t.Errorf("%d parcels for %d bytes", n, durable.MaxBatch*durable.MaxPayload)
	}
	for i, got := range apply(t, s, ops...) {
		if want := durable.Created; i >= 90 && got != durable.Replaced || i < 90 && got != want {
			t.Errorf("operation %d answered %v", i, got)
		}
	}
	seen := make(map[byte]bool)
	for range 90 {
		b := claim(t, s, lease)
		if len(b.Claimed) > 10 {
			t.Errorf("%d timers with %d bytes each in one batch", len(b.Claimed), durable.MaxPayload)
		}
		for _, c := range b.Claimed {
			seen[c.Payload[0]] = true
		}
	}
	for i := byte(10); i < 100; i++ {
		if !seen[i] {
			t.Errorf("payload %d is missing", i)
		}
	}
}

// A server whose memory is full takes no new timers, but gives out those it has.
func TestAFullServerCanBeDrained(t *testing.T) {
	t.Parallel()
	client := clientOf(t, own(t, "--maxmemory", "8mb").Addr)
	s := open(t, client, freshPrefix(), 1)
	n := 0
	for full := false; !full; n++ {
		op := putOp(n, 0)
		op.Payload = make([]byte, 10<<10)
		_, err := s.Apply(t.Context(), []durable.Op{op})
		full = redis.HasErrorPrefix(err, "OOM")
		if err != nil && !full || n > 2000 {
			t.Fatalf("after %d timers: %v", n, err)
		}
	}
	for left := n - 1; left > 0; {
		b := claim(t, s, lease)
		if len(b.Claimed) == 0 {
			t.Fatalf("%d of %d timers cannot be claimed", left, n-1)
		}
		for i, c := range b.Claimed {
			op := durable.Op{Kind: durable.Ack, Topic: c.Topic, Key: c.Key, Token: c.Token}
			if i == 0 {
				op.Kind, op.Error = durable.Bury, "no memory"
			} else {
				left--
			}
			if got := apply(t, s, op)[0]; got != durable.Done {
				t.Fatalf("an %v answered %v", op.Kind, got)
			}
			if i == 0 {
				left--
			}
		}
	}
}

// No script does much at once: with 100,000 timers due in the same millisecond none
// should take the server more than 5 ms. On a busy or virtual machine anything is
// interrupted now and then, an empty loop, too; so one in a hundred may take longer by
// the server's clock and by its processor time, and the largest is only reported.
func TestManyDueAtOnce(t *testing.T) {
	t.Parallel()
	client := clientOf(t, own(t).Addr)
	s := open(t, client, freshPrefix(), 1)
	const timers = 100_000
	ops := make([]durable.Op, durable.MaxBatch)
	took := make(map[string][]time.Duration)
	timed := func(what string, call func()) {
		wall, cpu := spent(t, client)
		call()
		wall2, cpu2 := spent(t, client)
		took[what] = append(took[what], min(wall2-wall, cpu2-cpu))
	}
	for first := 0; first < timers; first += len(ops) {
		for i := range ops {
			ops[i] = putOp(first+i, 0)
		}
		timed("put", func() { apply(t, s, ops...) })
	}
	sameMillisecond(t, client, s)
	for left := timers; left > 0; left -= len(ops) {
		var b durable.Batch
		timed("claim", func() { b = claim(t, s, lease) })
		if len(b.Claimed) != len(ops) {
			t.Fatalf("%d timers were claimed, %d are left", len(b.Claimed), left)
		}
		for i, c := range b.Claimed {
			ops[i] = durable.Op{Kind: durable.Ack, Topic: c.Topic, Key: c.Key, Token: c.Token}
		}
		timed("ack", func() { apply(t, s, ops...) })
	}
	for what, list := range took {
		slices.Sort(list)
		p99 := list[len(list)*99/100]
		if p99 > 5*time.Millisecond {
			t.Errorf("one in a hundred times a %s of 100 timers took %v, want at most 5ms", what, p99)
		}
		t.Logf("a %s of 100 timers: p50 %v, p99 %v, max %v", what, list[len(list)/2], p99, list[len(list)-1])
	}
}

// spent returns how long all scripts have taken on a server, and how much processor
// time its main thread has used.
func spent(t *testing.T, client redis.Cmdable) (wall, cpu time.Duration) {
	t.Helper()
	info, err := client.Info(t.Context(), "cpu", "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch name {
		case "used_cpu_user_main_thread", "used_cpu_sys_main_thread":
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			cpu += time.Duration(seconds * float64(time.Second))
		case "cmdstat_evalsha":
			var calls, us int64
			if _, err := fmt.Sscanf(value, "calls=%d,usec=%d", &calls, &us); err != nil {
				t.Fatal(err)
			}
			wall = time.Duration(us) * time.Microsecond
		}
	}
	return wall, cpu
}

// sameMillisecond makes all timers of a store due in the same millisecond.
func sameMillisecond(t *testing.T, client redis.Cmdable, s *Store) {
	t.Helper()
	ctx, key := context.Background(), s.shards[0].keys[1]
	names, err := client.ZRange(ctx, key, 0, -1).Result()
	if err != nil {
		t.Fatal(err)
	}
	const page = 1000
	for ; len(names) > 0; names = names[min(page, len(names)):] {
		var members []redis.Z
		for _, name := range names[:min(page, len(names))] {
			members = append(members, redis.Z{Score: 1_700_000_000_000, Member: name})
		}
		if err := client.ZAdd(ctx, key, members...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}
