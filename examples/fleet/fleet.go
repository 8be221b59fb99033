package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/redisstore"
)

// A fleet is some worker processes, and what the first process knows of them.
type fleet struct {
	plan
	addr   string
	client *redis.Client
	prefix string // of all keys of this run
	afloat []*exec.Cmd
	killed []string // their names
	last   int      // number of the latest worker
}

// sail starts the workers, kills some, and returns when all orders have their fate.
func (f *fleet) sail(ctx context.Context) error {
	defer f.killAll()
	end := time.Now().Add(f.span)
	for range f.workers {
		if err := f.launch(end); err != nil {
			return err
		}
	}
	pause := f.span / time.Duration(f.kills+1)
	for range f.kills {
		if err := sleep(ctx, pause); err != nil {
			return err
		}
		f.sink()
		if err := f.launch(end); err != nil {
			return err
		}
	}
	if err := sleep(ctx, time.Until(end)); err != nil {
		return err
	}
	if err := f.awaitFates(ctx); err != nil {
		return err
	}
	for _, worker := range f.afloat {
		_ = worker.Process.Signal(syscall.SIGTERM)
	}
	var errs []error
	for _, worker := range f.afloat {
		errs = append(errs, worker.Wait())
	}
	f.afloat = nil
	return errors.Join(errs...)
}

// launch starts a worker that creates orders until end.
func (f *fleet) launch(end time.Time) error {
	f.last++
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(),
		workerEnv+"="+f.addr,
		"FLEET_NAME="+strconv.Itoa(f.last),
		"FLEET_PREFIX="+f.prefix,
		"FLEET_EVERY="+(time.Second*time.Duration(f.workers)/time.Duration(f.rate)).String(),
		"FLEET_FOR="+max(time.Until(end), 0).String(),
		"FLEET_WITHIN="+f.within.String(),
		"FLEET_LEASE="+f.lease.String())
	worker.Stderr = os.Stderr
	if err := worker.Start(); err != nil {
		return err
	}
	f.afloat = append(f.afloat, worker)
	return nil
}

// sink kills the oldest worker, in the middle of whatever it does.
func (f *fleet) sink() {
	worker := f.afloat[0]
	f.afloat = f.afloat[1:]
	_ = worker.Process.Kill() // kill -9
	_ = worker.Wait()         // says that it was killed
	f.killed = append(f.killed, strconv.Itoa(f.last-len(f.afloat)))
}

func (f *fleet) killAll() {
	for _, worker := range f.afloat {
		_ = worker.Process.Kill()
		_ = worker.Wait()
	}
}

// awaitFates waits until no timer is left.
func (f *fleet) awaitFates(ctx context.Context) error {
	store, err := openStore(ctx, f.client, f.prefix)
	if err != nil {
		return err
	}
	defer store.Close()
	var counts durable.Counts
	for deadline := time.Now().Add(f.within + 20*f.lease); time.Now().Before(deadline); {
		if counts, err = store.Count(ctx); err != nil {
			return err
		}
		if counts.Live == 0 {
			return nil
		}
		if err := sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("a promise was broken: %d timers are left, long after their time", counts.Live)
}

// openStore opens the store that all share. Its warnings have their place in real
// life; here the server may be one that was started a moment ago.
func openStore(ctx context.Context, client redis.UniversalClient, prefix string) (*redisstore.Store, error) {
	return redisstore.New(ctx, client, redisstore.Options{Prefix: prefix, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
}

// cleanUp removes what this run left on a server that others may use.
func (f *fleet) cleanUp() {
	ctx := context.Background()
	keys, err := f.client.Keys(ctx, "*"+f.prefix+"*").Result()
	if err == nil && len(keys) > 0 {
		f.client.Unlink(ctx, keys...)
	}
}

// sleep waits for d, or for the end of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
