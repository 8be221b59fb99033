//go:build unix

package boltstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
)

// childEnv names the file with which a test starts its own binary as a process
// that can be killed; modeEnv says what that does.
const (
	childEnv = "TIMINGWHEEL_BOLT_CHILD"
	modeEnv  = "TIMINGWHEEL_BOLT_MODE"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := children[os.Getenv(modeEnv)](path); err != nil {
			fmt.Println("error", err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var children = map[string]func(path string) error{"load": load}

// child starts this binary on a file.
func child(t *testing.T, mode, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+path, modeEnv+"="+mode)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return cmd, bufio.NewScanner(out)
}

// load adds and cancels timers from many goroutines and runs those that are due,
// until it is killed. It prints what was acknowledged and what ran; a line is
// written before anything else follows from it.
func load(path string) error {
	s, store, err := scheduler(path)
	if err != nil {
		return err
	}
	defer store.Close()
	err = s.Handle("order", func(_ context.Context, d durable.Delivery) error {
		if due, err := strconv.ParseInt(string(d.Payload), 10, 64); err != nil || time.Now().UnixNano() < due-1e6 {
			fmt.Println("early", d.Key, string(d.Payload), err)
		}
		fmt.Println("ran", d.Key)
		return nil
	})
	if err != nil {
		return err
	}
	prefix := fmt.Sprintf("%d-%x", os.Getpid(), rand.Uint32())
	for g := range 12 {
		go func() {
			for i := 0; ; i++ {
				if err := addAndCancel(s, fmt.Sprintf("%s-%d-%d", prefix, g, i)); err != nil {
					fmt.Println("error", err)
					return
				}
			}
		}()
	}
	return s.Run(context.Background())
}

func addAndCancel(s *durable.Scheduler, key string) error {
	ctx := context.Background()
	d := time.Duration(rand.IntN(300)) * time.Millisecond
	payload := strconv.AppendInt(nil, time.Now().Add(d).UnixNano(), 10)
	if _, err := s.Add(ctx, durable.Timer{Topic: "order", Key: key, Payload: payload}, d); err != nil {
		return err
	}
	fmt.Println("added", key)
	if rand.IntN(3) > 0 {
		return nil
	}
	fmt.Println("cancelling", key)
	status, err := s.Cancel(ctx, "order", key)
	if status == durable.Canceled {
		fmt.Println("cancelled", key)
	}
	return err
}

func scheduler(path string) (*durable.Scheduler, *Store, error) {
	w, err := timingwheel.New(timingwheel.Options{Tick: 5 * time.Millisecond})
	if err != nil {
		return nil, nil, err
	}
	store, err := Open(path, Options{LockTimeout: 5 * time.Second})
	if err != nil {
		return nil, nil, err
	}
	s, err := durable.New(w, store, durable.Options{})
	return s, store, err
}

// A ledger is what killed processes have said about a timer.
type ledger struct {
	mu                                sync.Mutex
	added, ran, cancelling, cancelled map[string]int
	early                             []string
	errs                              []string
}

func newLedger() *ledger {
	return &ledger{added: map[string]int{}, ran: map[string]int{}, cancelling: map[string]int{}, cancelled: map[string]int{}}
}

func (l *ledger) note(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "added":
		l.added[rest]++
	case "ran":
		l.ran[rest]++
	case "cancelling":
		l.cancelling[rest]++
	case "cancelled":
		l.cancelled[rest]++
	case "early":
		l.early = append(l.early, rest)
	default:
		l.errs = append(l.errs, line)
	}
}

// A process that adds, cancels and runs timers is killed again and again. Every
// add that was acknowledged, and not cancelled, runs; none does whose cancel was.
func TestKilledProcessLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timers.db")
	l := newLedger()
	cycles := rounds(12, 200)
	for range cycles {
		cmd, out := child(t, "load", path)
		var killer *time.Timer
		for out.Scan() {
			if killer == nil { // it is under way
				killer = time.AfterFunc(time.Duration(rand.IntN(250))*time.Millisecond, func() { cmd.Process.Kill() })
			}
			l.note(out.Text())
		}
		if err := cmd.Wait(); err == nil {
			t.Fatal("the process ended by itself: ", l.errs)
		}
	}
	drain(t, path, l)

	var lost, unwanted, twice int
	for key := range l.added {
		if l.cancelling[key] == 0 && l.ran[key] == 0 {
			lost++
		}
	}
	for key := range l.cancelled {
		if l.ran[key] > 0 {
			unwanted++
		}
	}
	for _, n := range l.ran {
		if n > 1 {
			twice++
		}
	}
	t.Logf("%d kills: %d adds and %d cancels acknowledged, %d ran, %d of them more than once",
		cycles, len(l.added), len(l.cancelled), len(l.ran), twice)
	if lost > 0 || unwanted > 0 || len(l.early) > 0 || len(l.errs) > 0 {
		t.Fatalf("%d lost, %d ran although cancelled, early: %v, errors: %v", lost, unwanted, l.early, l.errs)
	}
	if len(l.added) == 0 || len(l.cancelled) == 0 || len(l.ran) == 0 {
		t.Fatal("the test did nothing")
	}
}

// drain runs what is left in a file.
func drain(t *testing.T, path string, l *ledger) {
	t.Helper()
	s, store, err := scheduler(path)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	empty := make(chan struct{})
	err = s.Handle("order", func(ctx context.Context, d durable.Delivery) error {
		l.note("ran " + d.Key)
		if counts, err := store.Count(ctx); err != nil || counts.Live <= 1 {
			select {
			case empty <- struct{}{}:
			case <-ctx.Done():
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// One timer behind all others, so that there is a last one.
	if _, err := s.Add(t.Context(), durable.Timer{Topic: "order", Key: "last"}, 400*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-empty:
	case <-time.After(time.Minute):
		t.Error("the file does not become empty")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	counts, err := store.Count(t.Context())
	if err := errors.Join(err); err != nil || counts.Live > 1 || counts.Dead > 0 {
		t.Errorf("%+v are left, %v", counts, err)
	}
}
