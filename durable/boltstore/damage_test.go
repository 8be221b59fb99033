package boltstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fee15284/timingwheel/durable"
)

// rounds scales the tests that try their luck: TIMINGWHEEL_LONG=1 is the long
// version.
func rounds(short, long int) int {
	if os.Getenv("TIMINGWHEEL_LONG") != "" {
		return long
	}
	return short
}

func epoch() time.Time { return time.Unix(1e9, 0) }

// fill makes a file with timers in all states and several levels of pages, and
// returns its bytes.
func fill(t *testing.T, path string, timers int) []byte {
	t.Helper()
	s := open(t, path, epoch)
	ctx := t.Context()
	apply := func(op durable.Op) {
		t.Helper()
		if _, err := s.Apply(ctx, []durable.Op{op}); err != nil {
			t.Fatal(err)
		}
	}
	ops := make([]durable.Op, 0, durable.MaxBatch)
	for i := range timers {
		size := 20
		if i%500 == 7 {
			size = 20_000 // on pages of their own
		}
		ops = append(ops, durable.Op{Kind: durable.Put, Topic: "order", Key: fmt.Sprintf("%06d", i),
			Delay: time.Duration(i*7919%timers) * time.Second, Payload: bytes.Repeat([]byte{byte(i)}, size)})
		if len(ops) == cap(ops) || i == timers-1 {
			if _, err := s.Apply(ctx, ops); err != nil {
				t.Fatal(err)
			}
			ops = ops[:0]
		}
	}
	for i := 0; i < timers; i += 30 {
		ops = ops[:0]
		for k := i; k < min(i+30, timers); k += 3 {
			ops = append(ops, durable.Op{Kind: durable.Cancel, Topic: "order", Key: fmt.Sprintf("%06d", k)})
		}
		if _, err := s.Apply(ctx, ops); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		apply(durable.Op{Kind: durable.Put, Topic: "mail", Key: fmt.Sprint(rand.Uint64())})
	}
	b, err := s.Claim(ctx, 9, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.Claimed[:5] {
		apply(durable.Op{Kind: durable.Bury, Topic: c.Topic, Key: c.Key, Token: c.Token, Error: "no"})
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// inventory opens a file and lists all that is in it, or returns why it cannot be
// opened.
func inventory(path string) (map[string]string, error) {
	s, err := Open(path, Options{Now: epoch})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	all := make(map[string]string)
	err = s.db.View(func(tx *bolt.Tx) error {
		for _, name := range bucketNames {
			err := tx.Bucket(name).ForEach(func(k, v []byte) error {
				all[string(name)+string(k)] = string(v)
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// refused checks that an error says which file is damaged and what to do.
func refused(t *testing.T, path, what string, err error) {
	t.Helper()
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "backup") {
		t.Fatalf("%s: %v", what, err)
	}
}

// A file with flipped bytes is refused, or has everything in it. It never brings
// the process down.
func TestFlippedBytesAreFound(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "whole.db")
	fill(t, path, 600)
	want, err := inventory(path) // releases leases, so that later opens change nothing
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %d timers in %d bytes", seed, len(want), len(data))
	rnd := rand.New(rand.NewPCG(seed, 0))
	bad := filepath.Join(dir, "flipped.db")
	found := 0
	root := rootPage(t, data)
	for i := range rounds(400, 20_000) {
		copied := bytes.Clone(data)
		at := rnd.IntN(len(copied))
		switch {
		case i < 128: // what is rare by chance and hurts most: the root,
			at = root + i
		case i%3 == 0: // and a page's header
			at = at/os.Getpagesize()*os.Getpagesize() + rnd.IntN(48)
		}
		was := copied[at]
		copied[at] ^= byte(1 + rnd.IntN(255))
		if i%2 == 0 && was != 0 {
			copied[at] = 0
		}
		if err := os.WriteFile(bad, copied, 0o600); err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("byte %d of page %d changed from %#x to %#x", at%os.Getpagesize(), at/os.Getpagesize(), was, copied[at])
		got, err := inventory(bad)
		if err != nil {
			refused(t, bad, what, err)
			found++
			if after, _ := os.ReadFile(bad); !bytes.Equal(after, copied) {
				t.Fatalf("%s: a refused file was changed", what)
			}
			continue
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d timers of %d are left, and no error", what, len(got), len(want))
		}
		for key, value := range want {
			if got[key] != value {
				t.Fatalf("%s: %q has changed, and no error", what, key)
			}
		}
	}
	t.Logf("%d were refused, the others hit nothing that matters", found)
	if found == 0 {
		t.Fatal("nothing was found")
	}
}

// rootPage returns where the root page of a file begins.
func rootPage(t *testing.T, data []byte) int {
	t.Helper()
	path := filepath.Join(t.TempDir(), "root.db")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v := &verifier{file: f, size: int64(len(data))}
	root, err := v.metas()
	if err != nil {
		t.Fatal(err)
	}
	return int(root) * int(v.pageSize)
}

func TestFileThatWasCutIsRefused(t *testing.T) {
	dir := t.TempDir()
	data := fill(t, filepath.Join(dir, "whole.db"), 600)
	want, err := inventory(filepath.Join(dir, "whole.db"))
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	bad := filepath.Join(dir, "cut.db")
	sizes := []int{1, 79, 80, os.Getpagesize(), 2 * os.Getpagesize(), 3*os.Getpagesize() - 1, len(data) - 1}
	for range rounds(100, 3000) {
		sizes = append(sizes, 1+rnd.IntN(len(data)-1))
	}
	for _, size := range sizes {
		if err := os.WriteFile(bad, data[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := inventory(bad)
		if err != nil {
			refused(t, bad, fmt.Sprintf("cut to %d bytes", size), err)
		} else if len(got) != len(want) { // what was cut off was not in use
			t.Fatalf("cut to %d of %d bytes: %d timers of %d, and no error", size, len(data), len(got), len(want))
		}
	}
}

// A file in which blocks were zeroed or swapped, or are those of an older version:
// each block by itself is fine, or nothing at all.
func TestMisplacedBlocksAreFound(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "whole.db")
	fill(t, path, 600)
	if _, err := inventory(path); err != nil { // releases leases
		t.Fatal(err)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, path, epoch)
	for i := range 30 {
		op := durable.Op{Kind: durable.Put, Topic: "order", Key: fmt.Sprintf("%06d", i*20), Delay: time.Duration(i) * time.Second}
		if _, err := s.Apply(t.Context(), []durable.Op{op}); err != nil {
			t.Fatal(err)
		}
	}
	s.Close()
	want, err := inventory(path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	size := os.Getpagesize()
	bad := filepath.Join(dir, "misplaced.db")
	blocks := len(old) / size
	for page := range blocks {
		for kind := range 3 {
			copied := bytes.Clone(data)
			block := copied[page*size:][:size]
			switch kind {
			case 0:
				clear(block)
			case 1:
				copy(block, data[(page+1)%blocks*size:][:size])
			case 2:
				copy(block, old[page*size:])
			}
			if err := os.WriteFile(bad, copied, 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := inventory(bad)
			what := fmt.Sprintf("page %d, kind %d", page, kind)
			if err != nil {
				refused(t, bad, what, err)
				continue
			}
			if len(got) != len(want) {
				t.Fatalf("%s: %d timers of %d, and no error", what, len(got), len(want))
			}
			for key, value := range want {
				if got[key] != value {
					t.Fatalf("%s: %q has changed, and no error", what, key)
				}
			}
		}
	}
}

// A process that died when it had just made the file has left one that can be used.
func TestFileWithoutItsFirstCommitIsUsed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timers.db")
	db, err := bolt.Open(path, 0o600, nil)
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	open(t, path, nil).Close()
	open(t, path, nil)
}

func TestOtherFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, bytes.Repeat([]byte("not a database\n"), 5000), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(text, Options{})
	refused(t, text, "a text", err)

	other := filepath.Join(dir, "other.db")
	db, err := bolt.Open(other, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("users"))
		return err
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = Open(other, Options{})
	refused(t, other, "another program's database", err)

	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), dir) {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "no", "such", "directory.db")
	if _, err := Open(missing, Options{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Fatal(err)
	}
	if _, err := Open(other, Options{LockTimeout: -1}); !errors.Is(err, durable.ErrInvalid) {
		t.Fatal(err)
	}
}

// A file that rots while it is open, after Open had checked it, fails the store.
func TestRotWhileOpenFailsTheStore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "timers.db")
	fill(t, path, 3000)
	s := open(t, path, epoch)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	rot := bytes.Repeat([]byte{0xa5}, int(info.Size())-2*os.Getpagesize())
	if _, err := f.WriteAt(rot, int64(2*os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
	_, err = s.Claim(t.Context(), 10, time.Hour)
	if !errors.Is(err, durable.ErrFailed) || !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Fatal(err)
	}
	_, err = s.Apply(context.Background(), []durable.Op{{Kind: durable.Cancel, Topic: "order", Key: "1"}})
	if !errors.Is(err, durable.ErrFailed) {
		t.Fatal(err)
	}
}
