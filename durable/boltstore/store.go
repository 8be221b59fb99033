// Package boltstore keeps durable timers in one file, for one process at a time. It
// needs no server: the file is a B+ tree of go.etcd.io/bbolt.
//
// What Apply and Claim have answered is on disk, synced, and outlives the process,
// the machine and the power supply. Calls of many goroutines share a commit, so
// that the disk's latency is paid once for all of them.
//
// Timers are kept by due time; which key is due when is also kept in memory, some
// 130 bytes beside the bytes of topic and key for each timer, and read back by
// Open. Leases are kept in memory only: a process that opens the file is the only
// one, so timers that were in flight are claimable at once then.
package boltstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fee15284/timingwheel/durable"
)

// The reasons for which Open refuses a file. The error says which file, and what
// can be done.
var (
	ErrLocked  = errors.New("boltstore: the file is in use")
	ErrDamaged = errors.New("boltstore: the file is damaged")
)

// DefaultLockTimeout is Options.LockTimeout where that is 0.
const DefaultLockTimeout = time.Second

// Options say how a store works. The zero value is right for production.
type Options struct {
	// Now is the clock of the store. nil means the wall clock as it was at Open,
	// moved on by the monotonic clock: a step of the wall clock changes nothing
	// before the next Open. If it steps back, the store's time stands still. It
	// must not call the store.
	Now func() time.Time

	// LockTimeout is how long Open waits for another process to let go of the
	// file. 0 means DefaultLockTimeout.
	LockTimeout time.Duration
}

// A Store is a durable.Store in a file. Make one with Open.
type Store struct {
	path string
	db   *bolt.DB
	now  func() time.Time
	wake chan struct{}
	bell chan struct{} // requests are queued, or the store is closed
	done chan struct{} // the writer has ended

	// commit is (*bolt.Tx).Commit; tests make it fail.
	commit func(*bolt.Tx) error

	mu     sync.Mutex // guards all below
	queue  []*request
	counts durable.Counts
	closed bool
	failed error

	state state // belongs to the writer
}

// Open opens a file of timers, and makes one if there is none. It reads the whole
// file and checks every byte of it that matters: half a second for a million
// timers.
//
// The error wraps durable.ErrInvalid for bad options, ErrLocked if another process
// has the file open, ErrDamaged if the file is not what was written, or the error
// of the file system. The file has not been changed then.
func Open(path string, opts Options) (*Store, error) {
	if opts.LockTimeout < 0 {
		return nil, fmt.Errorf("%w: Options.LockTimeout %v is negative", durable.ErrInvalid, opts.LockTimeout)
	}
	if opts.LockTimeout == 0 {
		opts.LockTimeout = DefaultLockTimeout
	}
	if opts.Now == nil {
		start := time.Now()
		opts.Now = func() time.Time { return start.Add(time.Since(start)) }
	}
	s := &Store{
		path:   path,
		now:    opts.Now,
		wake:   make(chan struct{}, 1),
		bell:   make(chan struct{}, 1),
		done:   make(chan struct{}),
		commit: (*bolt.Tx).Commit,
	}
	if err := s.open(opts.LockTimeout); err != nil {
		return nil, openError(path, err)
	}
	s.counts = s.state.counts()
	go s.write()
	return s, nil
}

// Wake implements durable.Store.
func (s *Store) Wake() <-chan struct{} { return s.wake }

// Apply implements durable.Store. It returns when the operations are synced to
// disk, together with those of other callers at that time. If ctx ends before they
// have been begun, nothing has happened; after that it waits for the disk.
func (s *Store) Apply(ctx context.Context, ops []durable.Op) ([]durable.Status, error) {
	if err := durable.CheckOps(ops); err != nil {
		return nil, err
	}
	r := &request{ops: ops, statuses: make([]durable.Status, len(ops)), done: make(chan struct{})}
	if err := s.do(ctx, r); err != nil {
		return nil, err
	}
	return r.statuses, nil
}

// Claim implements durable.Store. It writes only if it claims something.
func (s *Store) Claim(ctx context.Context, max int, lease time.Duration) (durable.Batch, error) {
	if err := durable.CheckClaim(max, lease); err != nil {
		return durable.Batch{}, err
	}
	r := &request{max: max, lease: lease, done: make(chan struct{})}
	if err := s.do(ctx, r); err != nil {
		return durable.Batch{}, err
	}
	return r.batch, nil
}

// Dead implements durable.Store, in the order of topics by length and keys. It
// costs O(skip + max).
func (s *Store) Dead(ctx context.Context, skip, max int) ([]durable.DeadTimer, error) {
	if err := durable.CheckDead(skip, max); err != nil {
		return nil, err
	}
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	var list []durable.DeadTimer
	err := guard(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			var err error
			list, err = listDead(tx.Bucket(bucketNames[deadBucket]), skip, max)
			return err
		})
	})
	switch {
	case err == nil:
		return list, nil
	case errors.Is(err, ErrDamaged):
		return nil, s.fail(err)
	}
	return nil, fmt.Errorf("boltstore: %s: %w", s.path, durable.ErrClosed) // while this was on its way
}

func listDead(b *bolt.Bucket, skip, max int) ([]durable.DeadTimer, error) {
	var list []durable.DeadTimer
	c := b.Cursor()
	for k, v := c.First(); k != nil && len(list) < max; k, v = c.Next() {
		if skip > 0 {
			skip--
			continue
		}
		r, err := decode(k, v)
		if err != nil {
			return nil, err
		}
		list = append(list, durable.DeadTimer{
			Timer:     timerOf(string(k), r.payload),
			Died:      time.Unix(0, r.at),
			Attempts:  r.attempts,
			LastError: string(r.err),
		})
	}
	return list, nil
}

// Count implements durable.Store.
func (s *Store) Count(ctx context.Context) (durable.Counts, error) {
	if err := s.usable(ctx); err != nil {
		return durable.Counts{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts, nil
}

// usable returns why the store cannot be used, if so.
func (s *Store) usable(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refusal()
}

// refusal is usable with the lock held.
func (s *Store) refusal() error {
	if s.closed {
		return fmt.Errorf("boltstore: %s: %w", s.path, durable.ErrClosed)
	}
	return s.failed
}

// Close implements durable.Store. It lets another process open the file.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.bell)
	s.mu.Unlock()
	<-s.done
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("boltstore: closing %s: %w", s.path, err)
	}
	return nil
}
