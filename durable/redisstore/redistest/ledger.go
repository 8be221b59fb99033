package redistest

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
)

// A Ledger is a durable.Store that writes down what another one answered, so that an
// Audit can tell afterwards whether the promises were kept. A process that is killed
// writes nothing down about its last call; an Audit allows for that.
type Ledger struct {
	durable.Store
	Client redis.Cmdable // asked for the server's time
	Worker string        // who writes
	Sink   func([]Entry) // where to; it must keep them before it returns
}

// An Entry is one answer. Times are microseconds on the server's clock.
type Entry struct {
	Worker, Topic, Key, Token string

	Kind    durable.Kind   // 0 is a claim
	Status  durable.Status // 0 for a claim, and for an Ack or Cancel that is about to be tried
	At      int64          // of a claim: when, or a moment later; else: when, or a moment before
	Until   int64          // the end of the lease or the due time that was asked for, or a moment before
	Due     int64          // of a claim
	Attempt int            // of a claim
}

// Claim implements durable.Store. It costs a round trip more, to read the clock.
func (l *Ledger) Claim(ctx context.Context, max int, lease time.Duration) (durable.Batch, error) {
	now, err := l.Client.Time(ctx).Result()
	if err != nil {
		return durable.Batch{}, err
	}
	b, err := l.Store.Claim(ctx, max, lease)
	var entries []Entry
	for _, c := range b.Claimed {
		entries = append(entries, Entry{
			Worker: l.Worker, Topic: c.Topic, Key: c.Key, Token: c.Token,
			At: b.Now.UnixMicro(), Until: now.Add(lease).UnixMicro(), Due: c.Due.UnixMicro(), Attempt: c.Attempt,
		})
	}
	if len(entries) > 0 {
		l.Sink(entries)
	}
	return b, err
}

// Apply implements durable.Store. It costs a round trip more, to read the clock.
func (l *Ledger) Apply(ctx context.Context, ops []durable.Op) ([]durable.Status, error) {
	now, err := l.Client.Time(ctx).Result()
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(ops))
	var intents []Entry // what this says is true whatever becomes of the call
	for i, op := range ops {
		entries[i] = Entry{
			Worker: l.Worker, Topic: op.Topic, Key: op.Key, Token: op.Token, Kind: op.Kind,
			At: now.UnixMicro(), Until: now.Add(op.Delay).UnixMicro(),
		}
		if op.Kind == durable.Ack || op.Kind == durable.Cancel {
			intents = append(intents, entries[i])
		}
	}
	if len(intents) > 0 {
		l.Sink(intents)
	}
	statuses, err := l.Store.Apply(ctx, ops)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		entries[i].Status = statuses[i]
	}
	l.Sink(entries)
	return statuses, nil
}
