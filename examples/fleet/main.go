// Fleet shows that a service on many machines can share its timeouts: orders that are
// not paid in time expire, exactly once, whichever process dies.
//
//	go run .
//
// It starts worker processes of itself. All of them create orders, take payments and
// expire what was not paid. While they run, it kills some with kill -9 and starts
// others in their place. In the end it prints what became of the orders and whether a
// promise was broken; if so, it exits with 1.
//
// It uses the Redis server that REDIS_ADDR names, else one that it starts if there is
// a redis-server on the PATH, else a miniredis in the first process.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable/redisstore/redistest"
)

// A plan is what a fleet does.
type plan struct {
	workers int           // at any time
	kills   int           // how many of them are killed
	rate    int           // orders a second, of all together
	span    time.Duration // how long orders are created
	within  time.Duration // in which an order must be paid
	lease   time.Duration
}

func main() {
	if addr := os.Getenv(workerEnv); addr != "" {
		exit(runWorker(addr))
	}
	var p plan
	flag.IntVar(&p.workers, "workers", 4, "how many processes share the orders")
	flag.IntVar(&p.kills, "kills", 6, "how many of them are killed with kill -9, and replaced")
	flag.IntVar(&p.rate, "rate", 400, "how many orders are created in a second")
	flag.DurationVar(&p.span, "for", 12*time.Second, "how long orders are created")
	flag.DurationVar(&p.within, "within", 2*time.Second, "in what time an order must be paid")
	flag.DurationVar(&p.lease, "lease", time.Second, "after what time the order of a dead worker comes back")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exit(run(ctx, p))
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// run carries out a plan, prints the report and returns what went wrong.
func run(ctx context.Context, p plan) error {
	if p.workers < 1 || p.kills < 0 || p.rate < 1 || p.span <= 0 {
		return fmt.Errorf("a plan needs workers, a rate and a time: %+v", p)
	}
	server, err := redistest.Any()
	if err != nil {
		return err
	}
	defer server.Stop()
	fmt.Printf("Redis is %s. %d workers, %d orders/s for %v, to be paid within %v; %d times one is killed.\n",
		server.Kind, p.workers, p.rate, p.span, p.within, p.kills)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()

	f := &fleet{plan: p, addr: server.Addr, client: client, prefix: fmt.Sprintf("fleet-%d-%d", os.Getpid(), time.Now().UnixNano())}
	defer f.cleanUp()
	if err := f.sail(ctx); err != nil {
		return err
	}
	r, err := f.report(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	fmt.Print(r)
	return r.broken()
}
