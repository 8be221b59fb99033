package wheelhttp

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/stretchr/testify/require"
)

func countOf(s, part string) int { return strings.Count(s, part) }

// A viewer that applies what has changed sees what a page made anew would show,
// because a page is filled from nothing but cells, always the same ones.
func TestCellsKeepTheirOrder(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Tick: 100 * time.Millisecond})
	orders := timingwheel.NewKeyed(w, func(int) {})
	h := only(w, Lookup("order", orders, nil, nil)).(*handler)
	before := h.report(h.stream.latest(), map[string][]string{"key": {"1"}}).cells()
	seen := map[string]bool{}
	for _, c := range before {
		require.False(t, seen[c.ID+"/"+c.Attr], "%s %s is there twice", c.ID, c.Attr)
		seen[c.ID+"/"+c.Attr] = true
	}
	for range 20 {
		require.NoError(t, orders.Add(rand.IntN(5), time.Duration(rand.Int64N(int64(2*time.Hour)))))
		mock.Add(time.Duration(rand.Int64N(int64(10 * time.Minute))))
		w.Sync()
		now := h.report(h.stream.latest(), map[string][]string{"key": {"1"}}).cells()
		require.Len(t, now, len(before))
		for n := range now {
			require.Equal(t, before[n].ID, now[n].ID)
			require.Equal(t, before[n].Attr, now[n].Attr)
		}
		require.Less(t, len(changed(before, now)), len(now))
		require.Empty(t, changed(now, now))
		before = now
	}
}

// Where the page says the hand comes at is where a task leaves its slot.
func TestRoundAtIsWhenTheHandComes(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		w, mock := newWheel(t, timingwheel.Options{Tick: 200 * time.Millisecond})
		mock.Add(time.Duration(rnd.Int64N(int64(30 * time.Hour))))
		w.Sync()
		task, err := w.Add(time.Duration(1+rnd.Int64N(int64(1)<<(28+rnd.IntN(18)))), func() {})
		require.NoError(t, err)
		for {
			p, ok := w.Locate(task)
			if !ok {
				break
			}
			s := w.Snapshot()
			at := ringsOf(&s)[p.Level].roundAt(p.Slot)
			require.False(t, at.After(p.Deadline), "seed %d", seed)
			require.True(t, at.After(s.Now))
			mock.Set(at.Add(-1))
			w.Sync()
			same, ok := w.Locate(task)
			require.True(t, ok)
			require.Equal(t, p, same, "seed %d", seed)
			mock.Set(at)
			w.Sync()
			next, ok := w.Locate(task)
			require.False(t, ok && next == p, "seed %d: it is still in %v", seed, p)
		}
	}
}

func TestSegmentsCoverEachSlotOnce(t *testing.T) {
	for _, n := range []int{2, 5, 24, 60, 100, 125, 200, 500, 1000} {
		r := ring{Counts: make([]uint32, n)}
		for slot := range r.Counts {
			r.Counts[slot] = uint32(slot + 1)
		}
		next, sum := 0, uint64(0)
		for _, s := range r.segments() {
			require.Equal(t, next, s.from)
			next, sum = s.to, sum+s.tasks
			require.NotContains(t, s.path(0, n), "NaN")
		}
		require.Equal(t, n, next)
		require.LessOrEqual(t, len(r.segments()), mostSegments)
		require.EqualValues(t, n*(n+1)/2, sum)
	}
	require.Equal(t, "slot 3", segment{from: 3, to: 4}.slots())
	require.Equal(t, "slots 30 to 39", segment{from: 30, to: 40}.slots())
}

func TestShadesTellEmptyFromFew(t *testing.T) {
	require.Equal(t, "0", shade(0, 1000))
	require.NotEqual(t, "0", shade(1, 1_000_000))
	require.Equal(t, "1.00", shade(7, 7))
}

func TestWords(t *testing.T) {
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		require.Equal(t, want, number(n))
	}
	for d, want := range map[time.Duration]string{
		0: "0 s", 441 * time.Microsecond: "0.441 ms", 12 * time.Millisecond: "12 ms", time.Second: "1 s",
		1234 * time.Millisecond: "1.2 s", 59 * time.Second: "59 s", time.Minute: "1 min", 723 * time.Second: "12 min 3 s",
		time.Hour: "1 h", 26 * time.Hour: "1 d 2 h", 400 * 24 * time.Hour: "1 y 35 d", -time.Second: "-1 s",
		math.MaxInt64: "292 y 171 d", math.MinInt64: "-292 y 171 d",
	} {
		require.Equal(t, want, span(d))
	}
	for r, want := range map[float64]string{0: "0", 0.001: "<0.01", 0.5: "0.50", 12345.6: "12,346"} {
		require.Equal(t, want, rate(r))
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		time.Minute: "12:01:00", 1500 * time.Millisecond: "12:00:01.500", 24 * time.Hour: "Mar 2 12:00:00",
		365 * 24 * time.Hour: "2027-03-01 12:00:00",
	} {
		require.Equal(t, want, moment(now.Add(d), now), fmt.Sprint(d))
	}
}
