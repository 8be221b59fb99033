package redisstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Wake implements durable.Store. It receives after a hint that came from another
// process or this one, and after the connection for hints was made anew.
func (s *Store) Wake() <-chan struct{} { return s.wake }

// listen starts to listen for hints. The client connects again by itself, as often as
// it takes; until then the look once a second must do.
func (s *Store) listen() {
	s.hints = s.client.Subscribe(context.Background(), s.channel)
	messages := s.hints.ChannelWithSubscriptions()
	s.heard.Go(func() {
		for m := range messages {
			switch m := m.(type) {
			case *redis.Subscription:
				s.rouse() // hints may have been missed
			case *redis.Message:
				if h, look, ok := s.parseHint(m.Payload); ok {
					s.hint(h, look)
				}
			}
		}
	})
}

// parseHint reads a hint: the number of the shard and when to look, in milliseconds.
func (s *Store) parseHint(text string) (*shard, int64, bool) {
	number, look, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	ms, err2 := strconv.ParseInt(look, 10, 64)
	if err != nil || err2 != nil || n < 0 || n >= len(s.shards) {
		return nil, 0, false
	}
	return s.shards[n], ms, true
}

// hint notes that somebody must look at a shard by look, in milliseconds, and wakes
// the receiver if that is before all it knew of at the last Claim.
func (s *Store) hint(h *shard, look int64) {
	us := look * 1000
	s.mu.Lock()
	h.hint(us)
	early := us < s.head || s.head <= s.now // what was overdue then may have been claimed by others
	s.mu.Unlock()
	if early {
		s.rouse()
	}
}

func (s *Store) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}
