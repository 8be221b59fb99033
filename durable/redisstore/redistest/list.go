package redistest

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// ListSink returns a sink for a Ledger that keeps entries in a list on the server, so
// that they outlive the process. failed is called with an error if it cannot.
func ListSink(client redis.Cmdable, list string, failed func(error)) func([]Entry) {
	return func(entries []Entry) {
		lines := make([]any, len(entries))
		for i, e := range entries {
			line, err := json.Marshal(e)
			if err != nil {
				failed(fmt.Errorf("redistest: %w", err))
				return
			}
			lines[i] = line
		}
		// Not with the context of the call: what was answered is written down even
		// if nobody waits for it any more.
		if err := client.RPush(context.Background(), list, lines...).Err(); err != nil {
			failed(fmt.Errorf("redistest: list %s: %w", list, err))
		}
	}
}

// ReadList returns what sinks have written to a list.
func ReadList(ctx context.Context, client redis.Cmdable, list string) ([]Entry, error) {
	lines, err := client.LRange(ctx, list, 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("redistest: list %s: %w", list, err)
	}
	entries := make([]Entry, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal([]byte(line), &entries[i]); err != nil {
			return nil, fmt.Errorf("redistest: list %s, line %d: %w", list, i, err)
		}
	}
	return entries, nil
}
