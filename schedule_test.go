package timingwheel

import (
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
