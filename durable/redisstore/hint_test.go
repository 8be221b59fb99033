package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
)

// A consumer with nothing to do looks once a second, and does nothing else.
func TestAnIdleConsumerDoesNotPoll(t *testing.T) {
	t.Parallel()
	client := clientOf(t, own(t).Addr)
	s := open(t, client, freshPrefix(), 1)
	d := scheduler(t, s, durable.Options{})
	apply(t, s, putOp(1, time.Hour))
	running(t, d)
	d.Sync()
	before, began := commands(t, client), time.Now()
	time.Sleep(3 * time.Second)
	n := commands(t, client) - before - 1 // one is INFO
	idle := time.Since(began)
	// Every three seconds the client checks the connection for hints. Of each kind of
	// command one more may fall into the time, at its edges.
	const check = 3 * time.Second
	if limit := int(idle/lookEvery) + 1 + int(idle/check) + 1; n > limit {
		t.Errorf("%d commands in %v of idleness, want at most %d", n, idle, limit)
	}
}

// commands returns how many commands a server was sent, leaving out those in scripts.
func commands(t *testing.T, client *redis.Client) int {
	t.Helper()
	return countOf(t, client, "cmdstat_evalsha", "cmdstat_eval", "cmdstat_info", "cmdstat_ping", "cmdstat_get")
}

// countOf returns how often a server has run some commands.
func countOf(t *testing.T, client *redis.Client, wanted ...string) int {
	t.Helper()
	info, err := client.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":calls=")
		if !slices.Contains(wanted, name) {
			continue
		}
		var n int
		if _, err := fmt.Sscanf(value, "%d,", &n); err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// A hint from another process wakes a consumer that sleeps; without it the timer
// comes within a second.
func TestHintsWakeAndMayBeLost(t *testing.T) {
	real(t)
	t.Parallel()
	srv := own(t)
	admin := clientOf(t, srv.Addr)
	if err := admin.Do(t.Context(), "ACL", "SETUSER", "mute", "on", ">secret", "allkeys", "allcommands", "resetchannels").Err(); err != nil {
		t.Fatal(err)
	}
	mute := redis.NewClient(&redis.Options{Addr: srv.Addr, Username: "mute", Password: "secret"})
	t.Cleanup(func() { mute.Close() })
	prefix := freshPrefix()
	consumer := open(t, admin, prefix, 3)
	d := scheduler(t, consumer, durable.Options{})
	came := make(chan durable.Delivery, 1)
	if err := d.Handle("order.unpaid", func(_ context.Context, d durable.Delivery) error {
		came <- d
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	running(t, d)
	d.Sync()
	const rounds = 5
	for name, putter := range map[string]*Store{"with hints": open(t, admin, prefix, 3), "without": open(t, mute, prefix, 3)} {
		var sum, worst time.Duration
		for i := range rounds {
			apply(t, putter, putOp(i, 0))
			lateness := (<-came).Lateness
			sum, worst = sum+lateness, max(worst, lateness)
		}
		t.Logf("%s: %v late on average, %v at most", name, sum/rounds, worst)
		if limit := 1500 * time.Millisecond; worst > limit { // with some patience for a busy machine
			t.Errorf("%s: a timer came %v late, want at most a second", name, worst)
		}
		if average := sum / rounds; name == "with hints" && average > lookEvery/4 {
			t.Errorf("%s: timers come %v late on average", name, average)
		}
	}
}

// A scheduler claims no more than it has handlers for; the rest is for others.
func TestNoMoreIsClaimedThanThereAreHandlers(t *testing.T) {
	client, prefix := clientOf(t, server.Addr), freshPrefix()
	s := open(t, client, prefix, 1)
	d := scheduler(t, s, durable.Options{Concurrency: 3})
	begun, goOn := make(chan bool, 20), make(chan bool)
	if err := d.Handle("order.unpaid", func(_ context.Context, d durable.Delivery) error {
		begun <- true
		<-goOn
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		apply(t, s, putOp(i, 0))
	}
	running(t, d)
	for range 3 {
		<-begun
	}
	other := open(t, client, prefix, 1)
	time.Sleep(2 * time.Millisecond) // the delays were rounded up to a millisecond
	if b := claim(t, other, lease); len(b.Claimed) != 17 {
		t.Errorf("another process can claim %d timers, want 17", len(b.Claimed))
	}
	close(goOn)
}

func TestNonsenseOnTheChannelIsIgnored(t *testing.T) {
	client := clientOf(t, server.Addr)
	s := open(t, client, freshPrefix(), 2)
	for _, text := range []string{"", " ", "0", "0 ", "x 1", "1 x", "2 1", "-1 1", "0 99999999999999999999"} {
		if _, _, ok := s.parseHint(text); ok {
			t.Errorf("%q passed for a hint", text)
		}
	}
	if h, look, ok := s.parseHint("1 1700000000000"); !ok || h.number != 1 || look != 1_700_000_000_000 {
		t.Errorf("a hint was read as %v, %d, %v", h, look, ok)
	}
}
