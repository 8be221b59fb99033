package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
)

// MaxShards is how many shards there can be.
const MaxShards = 1024

// Options are what New needs to know beyond the client. The zero value works.
type Options struct {
	// Prefix begins the names of all keys and of the channel; "" means timingwheel.
	// Stores with the same prefix share their timers. It may not have braces, which
	// are for the hash tags.
	Prefix string

	// Shards is into how many parts the timers are divided by their names, each with
	// keys of its own; 0 means 1, at most MaxShards. In a Cluster each part lives on
	// one node, so take a few for each node there; elsewhere more than one has no
	// use, and due order holds within a shard only. All processes must say the same,
	// and New refuses another number than the one that was first used with Prefix.
	Shards int

	// Logger is told what is worth a warning; nil means slog.Default().
	Logger *slog.Logger
}

// withDefaults returns the options with defaults filled in.
func (o Options) withDefaults() (Options, error) {
	if o.Prefix == "" {
		o.Prefix = "timingwheel"
	}
	if o.Shards == 0 {
		o.Shards = 1
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	switch {
	case strings.ContainsAny(o.Prefix, "{}"):
		return o, fmt.Errorf("redisstore: %w: Prefix %q has a brace", durable.ErrInvalid, o.Prefix)
	case o.Shards < 0 || o.Shards > MaxShards:
		return o, fmt.Errorf("redisstore: %w: Shards is %d, it needs 1 to %d", durable.ErrInvalid, o.Shards, MaxShards)
	}
	return o, nil
}

// A Store is a durable.Store in Redis. Make one with New.
type Store struct {
	client  redis.UniversalClient
	log     *slog.Logger
	channel string // of the hints
	shards  []*shard
	wake    chan struct{}
	hints   *redis.PubSub
	heard   sync.WaitGroup // the goroutine that reads them
	calls   sync.WaitGroup // those under way

	mu     sync.Mutex // guards all below, and what shards know
	now    int64      // the server's clock when it last answered, in microseconds
	head   int64      // the earliest head of all shards at the last Claim
	closed bool
}

// New returns the store of the timers that client and o.Prefix lead to. It checks
// the server, and returns an error that wraps ErrInvalid if that is older than Redis
// 6.2 or was used with another number of shards. It logs a warning for a setting with
// which timers can be lost: a maxmemory-policy other than noeviction, appendonly off.
//
// The store uses one connection of its own for hints, and for its calls those of
// client, which stays the caller's: close it after the store. How long a call waits
// for a server that does not answer is up to the client's timeouts and retries.
func New(ctx context.Context, client redis.UniversalClient, o Options) (*Store, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{
		client:  client,
		log:     o.Logger,
		channel: o.Prefix + ":wake",
		shards:  shardsOf(o.Prefix, o.Shards),
		wake:    make(chan struct{}, 1),
		head:    math.MaxInt64,
	}
	if err := s.checkServers(ctx); err != nil {
		return nil, err
	}
	if err := s.checkShards(ctx, o.Prefix+":shards"); err != nil {
		return nil, err
	}
	s.listen()
	return s, nil
}

// Close implements durable.Store. It waits for calls under way; the client stays open.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	_ = s.hints.Close() // it only fails to say goodbye
	s.heard.Wait()
	s.calls.Wait()
	return nil
}

// enter begins a call, which ends with s.calls.Done, unless it must refuse.
func (s *Store) enter(ctx context.Context, invalid error) error {
	if invalid != nil {
		return invalid
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("redisstore: %w", durable.ErrClosed)
	}
	s.calls.Add(1)
	return nil
}

// order returns the shards in the order in which to look at them.
func (s *Store) order() []*shard {
	s.mu.Lock()
	defer s.mu.Unlock()
	return byWhen(s.shards)
}

// when returns when we must look at a shard.
func (s *Store) when(h *shard) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.when()
}
