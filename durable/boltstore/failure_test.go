package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fee15284/timingwheel/durable"
)

func put(key string, d time.Duration) []durable.Op {
	return []durable.Op{{Kind: durable.Put, Topic: "order", Key: key, Delay: d}}
}

// A commit whose sync fails is not tried again: after it nobody knows what is on
// disk.
func TestFailedSyncFailsTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timers.db")
	s := open(t, path, nil)
	if _, err := s.Apply(t.Context(), put("kept", time.Hour)); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	commits := 0
	s.commit = func(tx *bolt.Tx) error {
		mu.Lock()
		defer mu.Unlock()
		commits++
		return syscall.EIO // what fdatasync returns
	}
	calls := map[string]func() error{
		"Apply": func() error { _, err := s.Apply(t.Context(), put("lost", 0)); return err },
		"Claim": func() error { _, err := s.Claim(t.Context(), 1, time.Minute); return err },
		"Dead":  func() error { _, err := s.Dead(t.Context(), 0, 1); return err },
		"Count": func() error { _, err := s.Count(t.Context()); return err },
	}
	if err := calls["Apply"](); !errors.Is(err, durable.ErrFailed) || !errors.Is(err, syscall.EIO) ||
		!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "open the file again") {
		t.Fatal(err)
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, durable.ErrFailed) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("%s: %v", name, err)
		}
	}
	if commits != 1 {
		t.Fatalf("%d commits were tried", commits)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path, nil)
	if got, err := s.Count(t.Context()); err != nil || got.Live != 1 {
		t.Fatal(got, err)
	}
}

// All callers of a commit that fails get its error, and none of them a success.
func TestAllCallersOfAFailedCommitKnow(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "timers.db"), nil)
	s.commit = func(tx *bolt.Tx) error { return syscall.ENOSPC }
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if _, err := s.Apply(t.Context(), put(fmt.Sprint(i), 0)); !errors.Is(err, syscall.ENOSPC) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestFileInUseIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timers.db")
	s := open(t, path, nil)
	_, err := Open(path, Options{LockTimeout: 60 * time.Millisecond})
	if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another process") {
		t.Fatal(err)
	}
	if _, err := s.Apply(t.Context(), put("a", 0)); err != nil {
		t.Fatal(err) // the one that has it goes on
	}
	s.Close()
	open(t, path, nil)
}

func TestFileThatCannotBeWrittenIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "timers.db")
	open(t, path, nil).Close()
	if err := os.Chmod(path, 0o400); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{syscall.EROFS, fs.ErrPermission} {
		if says := openError(path, err).Error(); !strings.Contains(says, path+" cannot be written") {
			t.Fatal(says)
		}
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err == nil {
		f.Close()
		t.Skip("this user may write everything")
	}
	if _, err := Open(path, Options{}); !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), path) {
		t.Fatal(err)
	}
}

// A context that ends takes back what has not been begun, and only that.
func TestContextTakesBackWhatHasNotBegun(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "timers.db"), nil)
	begun, goOn := make(chan struct{}), make(chan struct{})
	s.commit = func(tx *bolt.Tx) error {
		close(begun)
		<-goOn
		s.commit = (*bolt.Tx).Commit // the writer's own field from here on
		return tx.Commit()
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() {
		_, err := s.Apply(ctx, put("first", time.Hour))
		first <- err
	}()
	<-begun
	second := make(chan error)
	go func() {
		_, err := s.Apply(ctx, put("second", time.Hour))
		second <- err
	}()
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Fatal(err) // it was under way: the disk decides
	}
	if got, err := s.Count(t.Context()); err != nil || got.Live != 1 {
		t.Fatal(got, err)
	}
}

// The wall clock may be set back: the store's time waits for it.
func TestClockThatStepsBack(t *testing.T) {
	now := time.Unix(2e9, 0)
	var mu sync.Mutex
	s := open(t, filepath.Join(t.TempDir(), "timers.db"), func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	})
	set := func(t time.Time) {
		mu.Lock()
		defer mu.Unlock()
		now = t
	}
	if _, err := s.Apply(t.Context(), put("a", time.Minute)); err != nil {
		t.Fatal(err)
	}
	set(now.Add(-time.Hour))
	if _, err := s.Apply(t.Context(), put("b", 0)); err != nil {
		t.Fatal(err)
	}
	b, err := s.Claim(t.Context(), 10, time.Minute)
	if err != nil || len(b.Claimed) != 1 || b.Claimed[0].Key != "b" || b.Now.Before(time.Unix(2e9, 0)) {
		t.Fatalf("%+v, %v", b, err)
	}
	set(time.Unix(2e9, 0).Add(time.Minute))
	if b, err = s.Claim(t.Context(), 10, time.Hour); err != nil || len(b.Claimed) != 2 {
		t.Fatalf("%+v, %v", b, err)
	}
}

// A fake clock may begin with 1970, and a timer is due at its very instant.
func TestTimersAreDueToTheNanosecond(t *testing.T) {
	now := time.Unix(0, 0)
	s := open(t, filepath.Join(t.TempDir(), "timers.db"), func() time.Time { return now })
	for _, d := range []time.Duration{0, 1, time.Minute} {
		if _, err := s.Apply(t.Context(), put("a", d)); err != nil {
			t.Fatal(err)
		}
		if d > 0 {
			now = now.Add(d - 1)
			b, err := s.Claim(t.Context(), 1, time.Minute)
			if err != nil || len(b.Claimed) != 0 || b.Next.Sub(b.Now) != 1 {
				t.Fatalf("a nanosecond early: %+v, %v", b, err)
			}
			now = now.Add(1)
		}
		b, err := s.Claim(t.Context(), 1, time.Minute)
		if err != nil || len(b.Claimed) != 1 || !b.Claimed[0].Due.Equal(now) {
			t.Fatalf("%+v, %v", b, err)
		}
	}
}

// What was in flight when the process died is due at once when the file is opened.
func TestLeasesEndWithTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timers.db")
	now := epoch()
	s := open(t, path, func() time.Time { return now })
	for _, key := range []string{"b", "a", "c"} {
		if _, err := s.Apply(t.Context(), put(key, 0)); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		if _, err := s.Claim(t.Context(), 1, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	s = open(t, path, func() time.Time { return now })
	b, err := s.Claim(t.Context(), 10, time.Hour)
	if err != nil || len(b.Claimed) != 3 {
		t.Fatalf("%+v, %v", b, err)
	}
	for _, c := range b.Claimed {
		if c.Attempt != 2 || !c.Due.Equal(now) {
			t.Fatalf("%+v", c)
		}
	}
}
