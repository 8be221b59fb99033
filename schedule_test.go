package timingwheel

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A plan notes from which times it is asked, and names times an hour later.
type plan struct{ asked []time.Time }

func (p *plan) Next(from time.Time) time.Time {
	p.asked = append(p.asked, from)
	return from.Add(time.Hour)
}

// A reading that another goroutine's has overtaken is moved forward, and keeps what it
// says besides its instant: where the wall clock was set since New, what it shows now.
// A zone that was set stands for that here, since no test can set the wall clock.
func TestAReadingThatWasOvertakenIsMovedForward(t *testing.T) {
	still := new(stillClock)
	w, err := New(Options{Clock: ClockOf(still)})
	require.NoError(t, err)
	zone := time.FixedZone("set since", 3600)
	for _, behind := range []time.Duration{0, 1, time.Hour, math.MaxInt64 - time.Hour} {
		reading := w.start.Add(time.Hour - behind).In(zone)
		w.latest = time.Hour
		require.Equal(t, w.start.Add(time.Hour).In(zone), w.clamp(reading), "by %d ns", behind)
	}
	w.latest = math.MaxInt64 // nothing is left to move by
	require.True(t, w.clamp(w.start.Add(-time.Hour)).Equal(w.start.Add(math.MaxInt64)))
	ahead := w.start.Add(2 * time.Hour).In(zone)
	w.latest = time.Hour
	require.Equal(t, ahead, w.clamp(ahead))
	require.Equal(t, 2*time.Hour, w.latest)
}

// Where the wall clock is set back, the monotonic one goes on, and a time that a
// schedule has named comes round again. It must not be named twice. No clock can be
// made to do that in a test, so the last time named is moved ahead instead.
func TestAScheduleIsNotAskedForATimeThatHasBeen(t *testing.T) {
	still := new(stillClock)
	w, err := New(Options{Clock: ClockOf(still)})
	require.NoError(t, err)
	start := still.Now()
	p := new(plan)
	task, err := w.AddSchedule(p, func() {})
	require.NoError(t, err)
	ahead := start.Add(90 * time.Minute)
	w.tasks.hook(task.index).series.last = ahead
	still.nanos.Add(int64(time.Hour))
	w.Sync()
	require.Equal(t, []time.Time{start, ahead}, p.asked)
	due, ok := w.Deadline(task)
	require.True(t, ok)
	require.Equal(t, ahead.Add(time.Hour), due)
}
