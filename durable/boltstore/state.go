package boltstore

import (
	"math"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fee15284/timingwheel/durable"
)

// The buckets of a file. The number in the names is that of the format.
const (
	dueBucket = iota
	leasedBucket
	deadBucket
	bucketCount
)

var bucketNames = [bucketCount][]byte{[]byte("1.due"), []byte("1.leased"), []byte("1.dead")}

// state is what the writer keeps in memory of the committed file.
//
// Each bucket's sequence number is the sum of the checksums of its records. It
// lies in a page that every commit writes anyway, so it costs nothing, and when a
// file is opened a page that was lost, or is there in an older version, shows.
type state struct {
	index  map[string]int64 // id -> due time, or one of the marks
	most   int              // of its entries since it was made
	leases leases
	dead   int
	sums   [bucketCount]uint64
	latest int64 // the clock has been there
	next   int64 // what the last claim said, or never
	arena  []byte
}

// never is the end of the store's time: the clock does not get there.
const never = math.MaxInt64

// Marks in the index, where a due time would be negative.
const (
	isLeased = -1
	isDead   = -2
)

// smallIndex is the number of timers up to which an empty index is kept for reuse:
// Go's maps do not shrink.
const smallIndex = 1024

func (s *state) counts() durable.Counts {
	return durable.Counts{Live: len(s.index) - s.dead, Dead: s.dead}
}

// A change is a transaction under way.
type change struct {
	*state
	buckets  [bucketCount]*bolt.Bucket
	dirty    bool
	earliest int64 // among what became pending, or never
	id       []byte
	key      []byte
}

// begin begins a change at a time of the clock.
func (s *state) begin(tx *bolt.Tx, now time.Time) *change {
	s.latest = max(s.latest, now.UnixNano())
	s.arena = s.arena[:0]
	if len(s.index) == 0 && s.most > smallIndex {
		s.index, s.most = make(map[string]int64), 0
	}
	c := &change{state: s, earliest: never}
	for i, name := range bucketNames {
		c.buckets[i] = tx.Bucket(name)
	}
	// Most timers are added behind those that are there: full pages stay full.
	c.buckets[dueBucket].FillPercent = 0.9
	return c
}

// seal puts the sums where the commit takes them along.
func (c *change) seal() error {
	for i, b := range c.buckets {
		if b.Sequence() != c.sums[i] {
			if err := b.SetSequence(c.sums[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// sooner reports whether something is due before the last claim said.
func (c *change) sooner() bool {
	if c.earliest >= c.next {
		return false
	}
	c.next = c.earliest
	return true
}

// after returns the time d from now, cut off at the end.
func (c *change) after(d time.Duration) int64 {
	if d <= 0 {
		return c.latest
	}
	if int64(d) > never-c.latest {
		return never
	}
	return c.latest + int64(d)
}

// insert puts a record into a bucket and returns its checksum.
func (c *change) insert(bucket int, key []byte, r *record) (uint32, error) {
	var value []byte
	c.arena, value = r.encode(c.arena, key)
	c.dirty = true
	c.sums[bucket] += uint64(sumOf(value))
	return sumOf(value), c.buckets[bucket].Put(key, value)
}

// remove takes the record with a checksum out of a bucket.
func (c *change) remove(bucket int, key []byte, sum uint32) error {
	c.dirty = true
	c.sums[bucket] -= uint64(sum)
	return c.buckets[bucket].Delete(key)
}

// fetch returns a record and its checksum. It is valid until something is
// inserted or removed.
func (c *change) fetch(bucket int, key []byte) (record, uint32, error) {
	value := c.buckets[bucket].Get(key)
	r, err := decode(key, value)
	if err != nil {
		return record{}, 0, err
	}
	return r, sumOf(value), nil
}

// schedule makes a timer pending that is in no bucket.
func (c *change) schedule(id string, r *record, d time.Duration) error {
	r.at = c.after(d)
	c.key = append(appendDue(c.key[:0], r.at), id...)
	c.index[id] = r.at
	c.most = max(c.most, len(c.index))
	c.earliest = min(c.earliest, r.at)
	_, err := c.insert(dueBucket, c.key, r)
	return err
}
