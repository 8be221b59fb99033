package timingwheel

import (
	"math"
	"time"
)

// A Bucket of Stats.Lateness counts the callbacks that started at most Bound late
// and later than the Bound of the bucket before. The counts of all buckets add up
// to Fired. The bounds are the same for every wheel: 1, 2, 5, 10, 20, 50, 100, 200
// and 500 milliseconds, 1, 2, 5, 10 and 60 seconds, and math.MaxInt64.
type Bucket struct {
	Bound time.Duration
	Count uint64
}

var latenessBounds = [...]time.Duration{
	1 * time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond,
	10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 200 * time.Millisecond, 500 * time.Millisecond,
	1 * time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, time.Minute,
	math.MaxInt64,
}

// A histogram counts by latenessBounds.
type histogram [len(latenessBounds)]uint64

// add looks from the front, where a wheel that keeps up has all it counts.
func (h *histogram) add(lateness time.Duration) {
	n := 0
	for lateness > latenessBounds[n] {
		n++
	}
	h[n]++
}

func (h *histogram) buckets() []Bucket {
	all := make([]Bucket, len(h))
	for n, count := range h {
		all[n] = Bucket{Bound: latenessBounds[n], Count: count}
	}
	return all
}
