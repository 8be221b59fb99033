package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
)

// Dead implements durable.Store: shard by shard, those that died first first. It
// costs a round trip for each shard, and O(log n + skip + max) on the server. It may
// return fewer than max when payloads are large, but none only after the last.
//
// A timer whose data was deleted from the server by somebody else is listed, too,
// with what is left of it.
func (s *Store) Dead(ctx context.Context, skip, max int) ([]durable.DeadTimer, error) {
	if err := s.enter(ctx, durable.CheckDead(skip, max)); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	var all []durable.DeadTimer
	for _, h := range s.shards {
		values, err := s.run(ctx, h, deadScript, skip, max-len(all))
		if err != nil {
			return nil, err
		}
		total, listed, wrong := listed(values)
		if wrong {
			return nil, fmt.Errorf("redisstore: %s answered a list with values that it does not return", h.keys[0])
		}
		all = append(all, listed...)
		if skip+len(listed) < total && len(listed) > 0 || len(all) == max {
			break
		}
		skip -= min(skip, total)
	}
	return all, nil
}

// listed reads the answer of dead.lua, and says whether it was wrong.
func listed(values *answer) (total int, list []durable.DeadTimer, wrong bool) {
	total = int(values.integer())
	for values.more() {
		topic, key := cut(values.text())
		d := durable.DeadTimer{
			Timer:     durable.Timer{Topic: topic, Key: key},
			Died:      time.UnixMilli(values.integer()),
			Attempts:  int(values.integer()),
			LastError: values.text(),
		}
		d.Payload = []byte(values.text())
		list = append(list, d)
	}
	return total, list, values.wrong
}

// Count implements durable.Store, in one round trip.
func (s *Store) Count(ctx context.Context) (durable.Counts, error) {
	if err := s.enter(ctx, nil); err != nil {
		return durable.Counts{}, err
	}
	defer s.calls.Done()
	pipe := s.client.Pipeline()
	var all, dead []*redis.IntCmd
	for _, h := range s.shards {
		all = append(all, pipe.HLen(ctx, h.keys[0]))
		dead = append(dead, pipe.ZCard(ctx, h.keys[2]))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return durable.Counts{}, failure(err, "count")
	}
	var counts durable.Counts
	for i := range s.shards {
		counts.Live += int(all[i].Val() - dead[i].Val())
		counts.Dead += int(dead[i].Val())
	}
	return counts, nil
}
