package wheelprom

import (
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/fee15284/timingwheel"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func newWheel(t *testing.T, opts timingwheel.Options) (*timingwheel.Wheel, *clock.Mock) {
	t.Helper()
	mock := clock.NewMock()
	opts.Clock = timingwheel.ClockOf(mock)
	w, err := timingwheel.New(opts)
	require.NoError(t, err)
	return w, mock
}

func TestMetricsSayWhatTheWheelDid(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Concurrency: 4, MaxPending: 100, OnPanic: func(any, []byte) {}})
	add := func(d time.Duration, fn func()) timingwheel.Task {
		task, err := w.Add(d, fn)
		require.NoError(t, err)
		return task
	}
	add(time.Second, func() {})
	add(time.Second, func() { panic("expected") })
	w.Cancel(add(time.Minute, func() {}))
	add(30*time.Second, func() {})
	add(time.Hour+time.Minute, func() {})
	_, err := w.Add(time.Second, nil)
	require.Error(t, err)
	mock.Add(2 * time.Second)
	w.Sync()

	c := NewCollector(map[string]*timingwheel.Wheel{"orders": w, "none": nil})
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP timingwheel_added_tasks_total Tasks added.
# TYPE timingwheel_added_tasks_total counter
timingwheel_added_tasks_total{wheel="orders"} 5
# HELP timingwheel_canceled_tasks_total Tasks cancelled or replaced before they started.
# TYPE timingwheel_canceled_tasks_total counter
timingwheel_canceled_tasks_total{wheel="orders"} 1
# HELP timingwheel_due_tasks Tasks that are due and have not started.
# TYPE timingwheel_due_tasks gauge
timingwheel_due_tasks{wheel="orders"} 0
# HELP timingwheel_fired_tasks_total Callbacks started.
# TYPE timingwheel_fired_tasks_total counter
timingwheel_fired_tasks_total{wheel="orders"} 2
# HELP timingwheel_panicked_callbacks_total Callbacks that panicked.
# TYPE timingwheel_panicked_callbacks_total counter
timingwheel_panicked_callbacks_total{wheel="orders"} 1
# HELP timingwheel_pending_tasks Tasks that wait in a slot.
# TYPE timingwheel_pending_tasks gauge
timingwheel_pending_tasks{ring="hours",wheel="orders"} 1
timingwheel_pending_tasks{ring="minutes",wheel="orders"} 0
timingwheel_pending_tasks{ring="seconds",wheel="orders"} 1
# HELP timingwheel_pending_tasks_limit Tasks that the wheel may hold.
# TYPE timingwheel_pending_tasks_limit gauge
timingwheel_pending_tasks_limit{wheel="orders"} 100
# HELP timingwheel_rejected_tasks_total Tasks that were refused.
# TYPE timingwheel_rejected_tasks_total counter
timingwheel_rejected_tasks_total{wheel="orders"} 1
# HELP timingwheel_running_callbacks_limit Callbacks that may execute at once.
# TYPE timingwheel_running_callbacks_limit gauge
timingwheel_running_callbacks_limit{wheel="orders"} 4
# HELP timingwheel_stopped Whether the wheel is stopped.
# TYPE timingwheel_stopped gauge
timingwheel_stopped{wheel="orders"} 0
`), "timingwheel_added_tasks_total", "timingwheel_canceled_tasks_total", "timingwheel_due_tasks", "timingwheel_fired_tasks_total",
		"timingwheel_panicked_callbacks_total", "timingwheel_pending_tasks", "timingwheel_pending_tasks_limit",
		"timingwheel_rejected_tasks_total", "timingwheel_running_callbacks_limit", "timingwheel_stopped"))
}

// One callback that does not return holds up the next: the lateness of the second
// shows in the histogram, and before that as overdue.
func TestMetricsShowABacklog(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Concurrency: 1})
	began, goOn := make(chan struct{}), make(chan struct{})
	for range 2 {
		_, err := w.Add(0, func() { began <- struct{}{}; <-goOn })
		require.NoError(t, err)
	}
	<-began
	mock.Add(3 * time.Second)
	c := NewCollector(map[string]*timingwheel.Wheel{"orders": w})
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(`
# HELP timingwheel_due_tasks Tasks that are due and have not started.
# TYPE timingwheel_due_tasks gauge
timingwheel_due_tasks{wheel="orders"} 1
# HELP timingwheel_longest_run_seconds Time that the callback has been executing that began first.
# TYPE timingwheel_longest_run_seconds gauge
timingwheel_longest_run_seconds{wheel="orders"} 3
# HELP timingwheel_overdue_seconds Time since the first task fell due that has not started.
# TYPE timingwheel_overdue_seconds gauge
timingwheel_overdue_seconds{wheel="orders"} 3
# HELP timingwheel_running_callbacks Callbacks that are executing.
# TYPE timingwheel_running_callbacks gauge
timingwheel_running_callbacks{wheel="orders"} 1
`), "timingwheel_due_tasks", "timingwheel_longest_run_seconds", "timingwheel_overdue_seconds", "timingwheel_running_callbacks"))
	goOn <- struct{}{}
	<-began
	goOn <- struct{}{}
	w.Stop()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, f := range families {
		switch m := f.GetMetric()[0]; f.GetName() {
		case "timingwheel_lateness_seconds":
			h := m.GetHistogram()
			require.EqualValues(t, 2, h.GetSampleCount())
			require.EqualValues(t, 3, h.GetSampleSum())
			for _, b := range h.GetBucket() {
				want := uint64(1)
				if b.GetUpperBound() >= 5 {
					want = 2
				}
				require.Equal(t, want, b.GetCumulativeCount(), b.GetUpperBound())
			}
		case "timingwheel_stopped":
			require.EqualValues(t, 1, m.GetGauge().GetValue())
		}
	}
}

func TestMetricsKeepPrometheusConventions(t *testing.T) {
	w, _ := newWheel(t, timingwheel.Options{Tick: time.Millisecond, MaxPending: 5})
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(NewCollector(map[string]*timingwheel.Wheel{"a": w, "b\xff": w})))
	problems, err := testutil.GatherAndLint(registry)
	require.NoError(t, err)
	require.Empty(t, problems)
}
