package boltstore

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/storetest"
)

func open(t testing.TB, path string, now func() time.Time) *Store {
	t.Helper()
	s, err := Open(path, Options{Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) *storetest.Harness {
		t.Parallel() // most of the time goes into syncing
		mock := clock.NewMock()
		path := filepath.Join(t.TempDir(), "timers.db")
		s := open(t, path, mock.Now)
		return &storetest.Harness{
			Store:   s,
			Advance: mock.Add,
			Unit:    time.Minute,
			Reopen: func() durable.Store {
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				s = open(t, path, mock.Now)
				return s
			},
		}
	})
}
