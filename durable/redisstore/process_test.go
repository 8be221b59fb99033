package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/redisstore/redistest"
)

// workerEnv makes this program a worker of TestProcesses: it has the address of the
// server, workerPrefix the prefix of the store.
const (
	workerEnv    = "REDISSTORE_TEST_WORKER"
	workerPrefix = "REDISSTORE_TEST_PREFIX"
	workerLease  = 600 * time.Millisecond
)

// Four processes share timers. Again and again one is killed, and another is frozen
// for longer than a lease and goes on then. Nothing is lost and no two leases overlap.
func TestProcesses(t *testing.T) {
	real(t)
	t.Parallel()
	timers, rounds := 3000, 4
	if long() {
		timers, rounds = 40_000, 60
	}
	const processes, pause = 4, workerLease * 2
	client, prefix := clientOf(t, own(t).Addr), freshPrefix()
	list := prefix + ":list"
	s := &redistest.Ledger{
		Store: open(t, client, prefix, 2), Client: client, Worker: "parent",
		Sink: redistest.ListSink(client, list, func(err error) { t.Error(err) }),
	}
	workers := make([]*exec.Cmd, processes)
	for i := range workers {
		workers[i] = startWorker(t, client.Options().Addr, prefix)
	}
	span := time.Duration(rounds) * pause
	for first := 0; first < timers; first += durable.MaxBatch {
		ops := make([]durable.Op, durable.MaxBatch)
		for i := range ops {
			ops[i] = putOp(first+i, rand.N(span))
		}
		apply(t, s, ops...)
	}
	for round := range rounds {
		i := round % processes
		kill(t, workers[i])
		frozen := workers[(i+1)%processes].Process
		_ = frozen.Signal(syscall.SIGSTOP)
		time.Sleep(pause)
		_ = frozen.Signal(syscall.SIGCONT)
		workers[i] = startWorker(t, client.Options().Addr, prefix)
	}
	waitEmpty(t, s.Store)
	for _, w := range workers {
		kill(t, w)
	}
	audit := auditOf(t, client, list)
	if audit.Created != timers || audit.Handled != timers {
		t.Errorf("%d timers were put and %d handled, want %d", audit.Created, audit.Handled, timers)
	}
	t.Logf("%d processes, %d killed, %d frozen", processes, rounds, rounds)
}

// auditOf checks the promises.
func auditOf(t *testing.T, client *redis.Client, list string) *redistest.Audit {
	t.Helper()
	entries, err := redistest.ReadList(t.Context(), client, list)
	if err != nil {
		t.Fatal(err)
	}
	audit := redistest.NewAudit(entries)
	if err := audit.Err(); err != nil {
		t.Error(err)
	}
	if audit.Again == 0 {
		t.Error("no timer was claimed again: the test has hit nobody")
	}
	t.Logf("%d timers, %d claimed again after a lease, %d lost, %d overlapping; lateness p50 %d us, p99 %d us",
		audit.Created, audit.Again, len(audit.Lost), len(audit.Overlapping), audit.Percentile(0.5), audit.Percentile(0.99))
	return audit
}

func startWorker(t *testing.T, addr, prefix string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerEnv+"="+addr, workerPrefix+"="+prefix)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // says that it was killed
}

// work is what a worker does, until it is killed.
func work() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := consume(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// consume handles timers; each takes some milliseconds, a few take longer than a
// lease.
func consume(ctx context.Context) error {
	client := redis.NewClient(&redis.Options{Addr: os.Getenv(workerEnv)})
	defer client.Close()
	prefix := os.Getenv(workerPrefix)
	s, err := New(ctx, client, quiet(prefix, 2))
	if err != nil {
		return err
	}
	defer s.Close()
	w, err := timingwheel.New(timingwheel.Options{Tick: 10 * time.Millisecond})
	if err != nil {
		return err
	}
	defer w.Stop()
	ledger := &redistest.Ledger{
		Store: s, Client: client, Worker: fmt.Sprint(os.Getpid()),
		Sink: redistest.ListSink(client, prefix+":list", func(err error) { slog.Error("the list", "error", err) }),
	}
	d, err := durable.New(w, ledger, durable.Options{
		Concurrency: 16, Lease: workerLease, MaxAttempts: 1000, Logger: quiet("", 0).Logger,
	})
	if err != nil {
		return err
	}
	err = d.Handle("order.unpaid", func(context.Context, durable.Delivery) error {
		takes := rand.N(10 * time.Millisecond)
		if rand.N(200) == 0 {
			takes = 2 * workerLease
		}
		time.Sleep(takes)
		return nil
	})
	if err != nil {
		return err
	}
	return d.Run(ctx)
}
