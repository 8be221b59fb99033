package timingwheel

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"
)

// logged returns the records that slog's default logger writes during f.
func logged(t *testing.T, f func()) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewJSONHandler(&out, nil)))
	defer slog.SetDefault(before)
	f()
	var records []map[string]any
	for dec := json.NewDecoder(&out); dec.More(); {
		var r map[string]any
		require.NoError(t, dec.Decode(&r))
		records = append(records, r)
	}
	return records
}

func TestPanicIsLoggedWithTaskDeadlineAndStack(t *testing.T) {
	mock := clock.NewMock()
	w, err := New(Options{Clock: ClockOf(mock)})
	require.NoError(t, err)
	var task Task
	records := logged(t, func() {
		task, err = w.Add(15*time.Minute, explode)
		require.NoError(t, err)
		mock.Add(20 * time.Minute)
		w.Sync()
	})
	require.Len(t, records, 1)
	r := records[0]
	require.Equal(t, "ERROR", r["level"])
	require.Equal(t, "boom", r["panic"])
	require.Equal(t, task.String(), r["task"])
	deadline, err := time.Parse(time.RFC3339Nano, r["deadline"].(string))
	require.NoError(t, err)
	require.True(t, deadline.Equal(time.Unix(0, 0).Add(15*time.Minute)), deadline)
	require.Contains(t, r["stack"], "timingwheel.explode")
	require.EqualValues(t, 1, w.Stats().Panicked)
}

func explode() { panic("boom") }

// Whoever uses a Keyed never sees a Task: the key is what the timeout is known by.
func TestPanicOfAKeyIsLoggedWithTheKey(t *testing.T) {
	w, err := New(Options{Clock: ClockOf(clock.NewMock())})
	require.NoError(t, err)
	orders := NewKeyed(w, func(order string) { panic("boom") })
	records := logged(t, func() {
		require.NoError(t, orders.Add("order-42", 0))
		w.Sync()
	})
	require.Len(t, records, 1)
	require.Equal(t, "order-42", records[0]["key"])
	require.NoError(t, orders.Add("order-42", time.Second), "its place is free again")
}

// What the host is told it is told by the log too, if its own function breaks.
func TestPanicInOnPanicIsLoggedWithTheFirst(t *testing.T) {
	w, err := New(Options{
		Clock:   ClockOf(clock.NewMock()),
		OnPanic: func(any, []byte) { panic("worse") },
	})
	require.NoError(t, err)
	records := logged(t, func() {
		_, err = w.Add(0, explode)
		require.NoError(t, err)
		w.Sync()
	})
	require.Len(t, records, 2)
	require.Equal(t, "worse", records[0]["panic"])
	require.Equal(t, "boom", records[1]["panic"])
}

// A broken object may panic both as a callback and as a schedule; the program goes on.
func TestAScheduleThatPanicsAfterItsCallbackWasLostEndsItsTask(t *testing.T) {
	for name, c := range map[string]struct {
		fn       func()
		onPanic  func()
		reported []any
	}{
		"panic":                     {explode, func() {}, []any{"boom", "no idea"}},
		"Goexit":                    {runtime.Goexit, func() {}, []any{"no idea"}},
		"panic, and OnPanic Goexit": {explode, runtime.Goexit, []any{"boom", "no idea"}},
	} {
		t.Run(name, func(t *testing.T) {
			still := new(stillClock)
			var values []any
			w, err := New(Options{Clock: ClockOf(still), Concurrency: 1, OnPanic: func(v any, _ []byte) {
				values = append(values, v)
				c.onPanic()
			}})
			require.NoError(t, err)
			_, err = w.AddSchedule(&brokenPlan{}, c.fn)
			require.NoError(t, err)
			ran := false
			_, err = w.Add(time.Hour, func() { ran = true })
			require.NoError(t, err)
			still.nanos.Add(int64(time.Hour))
			w.Sync()
			require.True(t, ran)
			require.Equal(t, c.reported, values)
			require.Zero(t, w.Len())
			require.Zero(t, w.Stats().Running)
			require.EqualValues(t, len(c.reported), w.Stats().Panicked)
		})
	}
}

// A brokenPlan names one time, and then panics.
type brokenPlan struct{ named bool }

func (p *brokenPlan) Next(from time.Time) time.Time {
	if p.named {
		panic("no idea")
	}
	p.named = true
	return from.Add(time.Hour)
}

func TestTaskHasAName(t *testing.T) {
	require.Equal(t, "no task", Task{}.String())
	require.Equal(t, "task 42 of wheel 7", Task{seq: 42, index: 3, wheel: 7}.String())
}
