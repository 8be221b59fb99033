// Benchmarks measures redisstore beside asynq, on the same server in the same run.
//
//	go run . -rounds 5
//
// It starts a redis-server with an append only file (appendfsync everysec), or uses
// the one at REDIS_ADDR, which it empties. Each round takes one subject after the
// other, so that a change of the machine's mood hits all. It prints the median of the
// rounds, and the smallest and largest.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable/redisstore/redistest"
)

// A subject is a library that is measured.
type subject interface {
	name() string

	// add puts a timer. The name is of 16 bytes, and so is the payload.
	add(ctx context.Context, name string, d time.Duration) error

	// serve calls handle for each timer that is due, with up to 64 at once, until the
	// function that it returns is called.
	serve(handle func(name string)) (stop func(), err error)

	close()
}

// A measure is something that is measured of a subject.
type measure struct {
	what string
	run  func(ctx context.Context, b *bench, s subject) ([]figure, error)
}

// A figure is one result.
type figure struct {
	name  string
	value float64
}

// A bench is a server and what was measured on it.
type bench struct {
	client *redis.Client
	addr   string
	size   int
	only   string
	order  []string             // the names of figures, as they came
	values map[string][]float64 // one for each round
}

func main() {
	rounds := flag.Int("rounds", 5, "how often everything is measured")
	size := flag.Int("n", 20_000, "how many timers a measurement uses")
	only := flag.String("only", "", "measure only what has this in its name")
	flag.Parse()
	if err := run(*rounds, *size, *only); err != nil {
		fmt.Fprintln(os.Stderr, "benchmarks:", err)
		os.Exit(1)
	}
}

func run(rounds, size int, only string) error {
	server, err := redistest.Any()
	if err != nil {
		return err
	}
	defer server.Stop()
	if server.Mini != nil {
		return fmt.Errorf("figures need a real server, not %s", server.Kind)
	}
	b := &bench{
		client: redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 80}), addr: server.Addr, size: size, only: only,
		values: make(map[string][]float64),
	}
	defer b.client.Close()
	ctx := context.Background()
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "round %d of %d\n", round+1, rounds)
		if err := b.round(ctx); err != nil {
			return err
		}
	}
	b.print()
	return nil
}

// round measures everything once.
func (b *bench) round(ctx context.Context) error {
	for _, m := range measures {
		if !strings.Contains(m.what, b.only) {
			continue
		}
		for _, make := range subjects {
			if err := b.client.FlushAll(ctx).Err(); err != nil {
				return err
			}
			s, err := make(ctx, b)
			if err != nil {
				return err
			}
			figures, err := m.run(ctx, b, s)
			s.close()
			if err != nil {
				return fmt.Errorf("%s of %s: %w", m.what, s.name(), err)
			}
			for _, f := range figures {
				b.note(f.name+"\t"+s.name(), f.value)
			}
		}
	}
	return nil
}

func (b *bench) note(name string, value float64) {
	if b.values[name] == nil {
		b.order = append(b.order, name)
	}
	b.values[name] = append(b.values[name], value)
}

func (b *bench) print() {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "figure\tsubject\tmedian\tmin\tmax")
	for _, name := range b.order {
		v := slices.Sorted(slices.Values(b.values[name]))
		fmt.Fprintf(w, "%s\t%.4g\t%.4g\t%.4g\n", name, v[len(v)/2], v[0], v[len(v)-1])
	}
	w.Flush()
}
