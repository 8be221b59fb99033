package redisstore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

// A shard that does not work is left alone for a while, and said so once; the others
// are claimed from.
func TestABrokenShardDoesNotStopTheOthers(t *testing.T) {
	client := clientOf(t, server.Addr)
	var text bytes.Buffer
	o := quiet(freshPrefix(), 4)
	o.Logger = slog.New(slog.NewTextHandler(&text, nil))
	s, err := New(t.Context(), client, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); wipe(client, s) })
	text.Reset() // the warnings about the server
	want := make(map[string]bool)
	for i := range 100 {
		op := putOp(i, 0)
		apply(t, s, op)
		if s.shardOf(nameOf(op.Topic, op.Key)) != s.shards[2] {
			want[op.Key] = true
		}
	}
	broken := s.shards[2].keys[1]
	client.Del(t.Context(), broken)
	client.Set(t.Context(), broken, "not a sorted set", 0)
	for deadline := time.Now().Add(20 * time.Second); len(want) > 0 && time.Now().Before(deadline); {
		for _, c := range claim(t, s, lease).Claimed {
			if !want[c.Key] {
				t.Errorf("%s was claimed, and is not there or claimed already", c.Key)
			}
			delete(want, c.Key)
		}
	}
	if len(want) > 0 {
		t.Errorf("%d timers in other shards were not claimed", len(want))
	}
	if n := strings.Count(text.String(), "cannot be claimed from"); n != 1 {
		t.Errorf("the broken shard was named %d times: %s", n, text.String())
	}

	// Somebody mends it: what was in its index is made again from the records.
	client.Del(t.Context(), broken)
	mended := 0
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		b := claim(t, s, lease)
		mended += len(b.Claimed)
		counts, err := s.Count(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if mended > 0 && len(b.Claimed) == 0 && counts == (durable.Counts{Live: 100}) {
			break
		}
		select {
		case <-time.After(b.Next.Sub(b.Now)):
		case <-s.Wake():
		}
	}
	if !strings.Contains(text.String(), "can be claimed from again") || !strings.Contains(text.String(), "is made again") {
		t.Errorf("that the shard works again was not said: %s", text.String())
	}
}

// Names must stay in their shards for ever, also in later versions: these are fixed.
func TestShardsOfNamesDoNotChange(t *testing.T) {
	s := &Store{shards: shardsOf("p", 16)}
	for key, want := range map[string]int{"a": 15, "A-1001": 4, "\x00\xff": 9} {
		if got := s.shardOf(nameOf("order.unpaid", key)).number; got != want {
			t.Errorf("order.unpaid %q is in shard %d, want %d", key, got, want)
		}
	}
	for _, name := range []string{"", "\x05abc", "\xff"} {
		if topic, key := cut(name); topic != "" || key != name {
			t.Errorf("cut(%q) = %q, %q", name, topic, key)
		}
	}
	if topic, key := cut(nameOf("t", "")); topic != "t" || key != "" {
		t.Errorf("cut = %q, %q", topic, key)
	}
}
