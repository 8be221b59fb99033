package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
)

// checkServers checks the server, or each primary node of a Cluster.
func (s *Store) checkServers(ctx context.Context) error {
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return s.checkServer(ctx, node, node.Options().Addr)
		})
	}
	return s.checkServer(ctx, s.client, "server")
}

// checkServer checks the version and the settings of one server.
func (s *Store) checkServer(ctx context.Context, server redis.Cmdable, where string) error {
	if err := server.Ping(ctx).Err(); err != nil {
		return failure(err, where)
	}
	info, err := server.Info(ctx, "server").Result()
	if err != nil {
		s.log.Warn("redisstore: the version of the server cannot be checked, it must be 6.2 or newer", "server", where, "error", err)
	} else if err := checkVersion(info); err != nil {
		return fmt.Errorf("redisstore: %s: %w", where, err)
	}
	s.checkSettings(ctx, server, where)
	return nil
}

// checkVersion returns an error if the answer to INFO names a version before 6.2.
// What does not name one has our trust.
func checkVersion(info string) error {
	for line := range strings.Lines(info) {
		version, found := strings.CutPrefix(strings.TrimSpace(line), "redis_version:")
		if !found {
			continue
		}
		parts := strings.SplitN(version, ".", 3)
		if len(parts) < 2 {
			return nil
		}
		major, err := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err == nil && err2 == nil && (major < 6 || major == 6 && minor < 2) {
			return fmt.Errorf("%w: Redis %s is too old, it must be 6.2 or newer", durable.ErrInvalid, version)
		}
	}
	return nil
}

// checkSettings warns of settings with which timers can be lost.
func (s *Store) checkSettings(ctx context.Context, server redis.Cmdable, where string) {
	for _, want := range []struct{ name, value, why string }{
		{"maxmemory-policy", "noeviction", "the server may delete timers when its memory is full"},
		{"appendonly", "yes", "the server forgets timers when it restarts"},
	} {
		got, err := server.ConfigGet(ctx, want.name).Result()
		if err != nil {
			s.log.Warn("redisstore: the settings of the server cannot be checked: they should be maxmemory-policy noeviction, appendonly yes",
				"server", where, "error", err)
			return // so would the next
		}
		if value := got[want.name]; value != want.value {
			s.log.Warn("redisstore: "+want.why, "server", where, "setting", want.name, "is", value, "should be", want.value)
		}
	}
}

// checkShards writes down the number of shards, or compares it with what others wrote.
func (s *Store) checkShards(ctx context.Context, key string) error {
	if err := s.client.SetNX(ctx, key, len(s.shards), 0).Err(); err != nil {
		return failure(err, key)
	}
	n, err := s.client.Get(ctx, key).Int()
	if err != nil {
		return failure(err, key)
	}
	if n != len(s.shards) {
		return fmt.Errorf("redisstore: %w: Shards is %d, but %s says that these timers are in %d", durable.ErrInvalid, len(s.shards), key, n)
	}
	return nil
}
