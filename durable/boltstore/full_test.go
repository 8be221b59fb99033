//go:build linux

package boltstore

import (
	"context"
	"fmt"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func init() { children["full"] = fillUp }

// fillUp adds timers until the file cannot grow any more.
func fillUp(path string) error {
	signal.Ignore(syscall.SIGXFSZ) // else it ends the process; a full disk does not
	limit := syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	s, err := Open(path, Options{})
	if err != nil {
		return err
	}
	for i := range 1000 {
		op := put(fmt.Sprint(i), time.Hour)
		op[0].Payload = make([]byte, 10_000)
		if _, err := s.Apply(context.Background(), op); err != nil {
			return err
		}
		fmt.Println("added", i)
	}
	return nil
}

// When a file cannot grow, the caller is told so, and what was acknowledged before
// is there when there is room again.
func TestFullDiskLosesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timers.db")
	cmd, out := child(t, "full", path)
	l := newLedger()
	for out.Scan() {
		l.note(out.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	said := strings.Join(l.errs, "\n")
	if !strings.Contains(said, path) || !strings.Contains(said, "file too large") || !strings.Contains(said, "has room") {
		t.Fatalf("it said %q", said)
	}
	s := open(t, path, nil)
	got, err := s.Count(t.Context())
	if err != nil || got.Live != len(l.added) || len(l.added) == 0 {
		t.Fatalf("%d were acknowledged, %+v are there, %v", len(l.added), got, err)
	}
}
