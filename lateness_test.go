package timingwheel

import (
	"math"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"
)

// Each callback is counted once, in the bucket of its lateness, and the bounds
// belong to the lower bucket.
func TestLatenessIsCountedInFixedBuckets(t *testing.T) {
	for _, c := range []struct{ late, bound time.Duration }{
		{0, time.Millisecond},
		{time.Millisecond, time.Millisecond},
		{time.Millisecond + 1, 2 * time.Millisecond},
		{30 * time.Millisecond, 50 * time.Millisecond},
		{time.Second, time.Second},
		{time.Minute, time.Minute},
		{time.Minute + 1, math.MaxInt64},
		{5 * 365 * 24 * time.Hour, math.MaxInt64},
	} {
		mock := clock.NewMock()
		w, err := New(Options{Clock: ClockOf(mock), Concurrency: 1})
		require.NoError(t, err)
		_, err = w.Add(time.Second, func() {})
		require.NoError(t, err)
		w.mu.Lock() // holds up the alarm, so that one late reading is all the wheel sees
		mock.Set(mock.Now().Add(time.Second + c.late))
		w.mu.Unlock()
		w.Sync()
		s := w.Stats()
		require.Equal(t, c.late, s.LatenessSum)
		require.Equal(t, c.late, s.MaxLateness)
		for _, b := range s.Lateness {
			want := uint64(0)
			if b.Bound == c.bound {
				want = 1
			}
			require.Equal(t, want, b.Count, "%v late, bucket up to %v", c.late, b.Bound)
		}
	}
}

func TestLatenessBoundsRise(t *testing.T) {
	w, err := New(Options{})
	require.NoError(t, err)
	last := time.Duration(0)
	for _, b := range w.Stats().Lateness {
		require.Greater(t, b.Bound, last)
		require.Zero(t, b.Count)
		last = b.Bound
	}
	require.Equal(t, time.Duration(math.MaxInt64), last)
}
