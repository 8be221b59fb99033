package redisstore

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
)

func TestOldServersAreRefused(t *testing.T) {
	for version, ok := range map[string]bool{
		"5.0.14": false, "6.0.16": false, "6.1.240": false, "6.2.0": true, "6.2.14": true, "7.0.15": true, "8.2.1": true, "255.255.255": true, "x": true, "": true,
	} {
		err := checkVersion("# Server\r\nredis_version:" + version + "\r\nredis_mode:standalone\r\n")
		if ok != (err == nil) || err != nil && (!errors.Is(err, durable.ErrInvalid) || !strings.Contains(err.Error(), version)) {
			t.Errorf("version %q: %v", version, err)
		}
	}
	if err := checkVersion("# Clients\r\nconnected_clients:1\r\n"); err != nil {
		t.Errorf("no version: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	client := clientOf(t, server.Addr)
	for _, o := range []Options{{Prefix: "a{b"}, {Prefix: "a}b"}, {Shards: -1}, {Shards: MaxShards + 1}} {
		if _, err := New(t.Context(), client, o); !errors.Is(err, durable.ErrInvalid) {
			t.Errorf("New with %+v returned %v, want ErrInvalid", o, err)
		}
	}
}

// Two processes with different numbers of shards would look for a timer in
// different places.
func TestAllMustSayTheSameNumberOfShards(t *testing.T) {
	client, prefix := clientOf(t, server.Addr), freshPrefix()
	open(t, client, prefix, 4)
	open(t, client, prefix, 4)
	if _, err := New(t.Context(), client, quiet(prefix, 5)); !errors.Is(err, durable.ErrInvalid) || !strings.Contains(err.Error(), "in 4") {
		t.Errorf("New returned %v, want ErrInvalid", err)
	}
}

// warnings opens a store and returns what it logged.
func warnings(t *testing.T, client redis.UniversalClient) string {
	t.Helper()
	var text bytes.Buffer
	s, err := New(t.Context(), client, Options{Prefix: freshPrefix(), Logger: slog.New(slog.NewTextHandler(&text, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	return text.String()
}

func TestSettingsThatLoseTimersAreNamed(t *testing.T) {
	t.Parallel()
	client := clientOf(t, own(t).Addr)
	if text := warnings(t, client); text != "" {
		t.Errorf("a good server: %s", text)
	}
	client.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru")
	client.ConfigSet(t.Context(), "appendonly", "no")
	text := warnings(t, client)
	if strings.Count(text, "level=WARN") != 2 || !strings.Contains(text, "allkeys-lru") || !strings.Contains(text, "appendonly") {
		t.Errorf("eviction and no log: %s", text)
	}
}

// The most careful server: a user who may do no more than the store needs.
func TestAUserWithFewRights(t *testing.T) {
	t.Parallel()
	ctx, addr := t.Context(), own(t).Addr
	admin := clientOf(t, addr)
	err := admin.Do(ctx, "ACL", "SETUSER", "app", "on", ">secret", "resetkeys", "~{app:*", "~app:*", "resetchannels", "-@all",
		"+evalsha", "+eval", "+time", "+hget", "+hset", "+hdel", "+hlen", "+hscan", "+zadd", "+zrem", "+zcard",
		"+zrange", "+zrangebyscore", "+ping", "+set", "+get", "+hello").Err()
	if err != nil {
		t.Fatal(err)
	}
	app := redis.NewClient(&redis.Options{Addr: addr, Username: "app", Password: "secret"})
	t.Cleanup(func() { app.Close() })
	var text bytes.Buffer
	s, err := New(ctx, app, Options{Prefix: "app", Logger: slog.New(slog.NewTextHandler(&text, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if n := strings.Count(text.String(), "cannot be checked"); n != 2 {
		t.Errorf("%d warnings that something cannot be checked, want one for the version and one for the settings: %s", n, text.String())
	}
	if got := apply(t, s, durable.Op{Kind: durable.Put, Topic: "t", Key: "k"})[0]; got != durable.Created {
		t.Errorf("a put answered %v", got)
	}
	c := one(t, s)
	if got := apply(t, s, durable.Op{Kind: durable.Ack, Topic: "t", Key: "k", Token: c.Token})[0]; got != durable.Done {
		t.Errorf("an ack answered %v", got)
	}
}
