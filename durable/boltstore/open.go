package boltstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// open checks the file and reads it into the state.
func (s *Store) open(timeout time.Duration) error {
	info, err := os.Stat(s.path)
	fresh := errors.Is(err, fs.ErrNotExist)
	records := 0
	if err == nil && info.Size() > 0 {
		if records, err = verifyLocked(s.path, timeout); err != nil {
			return err
		}
	}
	s.state.next = never
	s.state.index = make(map[string]int64, records)
	err = guard(func() error {
		s.db, err = bolt.Open(s.path, 0o600, &bolt.Options{
			Timeout:        timeout,
			NoFreelistSync: true,
			FreelistType:   bolt.FreelistMapType,
			NoStatistics:   true,
		})
		return err
	})
	if err != nil {
		return err
	}
	if err = guard(s.load); err == nil && fresh {
		err = syncDir(filepath.Dir(s.path))
	}
	if err != nil {
		s.db.Close()
	}
	return err
}

// verifyLocked checks a file while no process writes it: bbolt's shared lock for
// readers sees to that. bbolt itself trusts what it reads, and a damaged page can
// end the process from a goroutine of its own, so it must not see one.
func verifyLocked(path string, timeout time.Duration) (records int, err error) {
	err = guard(func() error {
		db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: timeout, NoStatistics: true})
		var system *fs.PathError
		var errno syscall.Errno
		switch {
		case err == nil:
		case errors.Is(err, berrors.ErrTimeout), errors.As(err, &system), errors.As(err, &errno):
			return err
		default:
			return fmt.Errorf("%w: %w", ErrDamaged, err) // bbolt does not know the file
		}
		defer db.Close()
		records, err = verify(path)
		return err
	})
	return records, err
}

// load reads the file into the state. Timers that were in flight become pending
// again, due when they were: their holder is gone.
func (s *Store) load() error {
	st := &s.state
	fresh, leased := false, false
	err := s.db.View(func(tx *bolt.Tx) error {
		for i, name := range bucketNames {
			b := tx.Bucket(name)
			if b == nil {
				fresh = true
				continue
			}
			st.sums[i] = b.Sequence()
			for c, key := b.Cursor(), []byte(nil); ; {
				if key == nil {
					key, _ = c.First()
				} else {
					key, _ = c.Next()
				}
				if key == nil {
					break
				}
				switch i {
				case dueBucket:
					st.index[string(key[8:])] = dueOf(key)
				case deadBucket:
					st.index[string(key)] = isDead
					st.dead++
				default:
					leased = true
				}
			}
		}
		return nil
	})
	st.most = len(st.index)
	if err == nil && fresh {
		err = s.db.Update(makeBuckets)
	}
	if err == nil && leased {
		err = s.db.Update(s.release)
	}
	return err
}

func makeBuckets(tx *bolt.Tx) error {
	for _, name := range bucketNames {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return nil
}

// release makes leased timers pending.
func (s *Store) release(tx *bolt.Tx) error {
	c := s.state.begin(tx, s.now())
	var ids [][]byte
	cursor := c.buckets[leasedBucket].Cursor()
	for id, _ := cursor.First(); id != nil; id, _ = cursor.Next() {
		ids = append(ids, append([]byte(nil), id...))
	}
	for _, id := range ids {
		r, sum, err := c.fetch(leasedBucket, id)
		if err != nil {
			return err
		}
		r = r.clone()
		if err := c.remove(leasedBucket, id, sum); err != nil {
			return err
		}
		c.key = append(appendDue(c.key[:0], r.at), id...)
		c.index[string(id)] = r.at
		if _, err := c.insert(dueBucket, c.key, &r); err != nil {
			return err
		}
	}
	return c.seal()
}

// dueOf returns the due time in a key of the due bucket, or never for none.
func dueOf(key []byte) int64 {
	if key == nil {
		return never
	}
	return int64(binary.BigEndian.Uint64(key))
}

// syncDir makes a new file's name as durable as its content.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // a directory cannot be synced there
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// openError says what is wrong with a file and what to do about it.
func openError(path string, err error) error {
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return fmt.Errorf("boltstore: %s: %w: another process, or another Open in this one, has it; "+
			"end that one, or give this one a file of its own", path, ErrLocked)
	case errors.Is(err, ErrDamaged):
		return fmt.Errorf("boltstore: %s: %w: nothing in it was changed; put a copy aside, "+
			"then restore the file from a backup, or move it away to begin without timers", path, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return fmt.Errorf("boltstore: %s cannot be written: %w: the process needs to write the file and its directory", path, err)
	}
	return fmt.Errorf("boltstore: opening %s: %w", path, err)
}
