package timingwheel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
)

func TestALoopBodyOverPendingMayPanicOrLeave(t *testing.T) {
	w, _, _ := stage(t, time.Second)
	k := timingwheel.NewKeyed(w, func(int) {})
	for key := range 1000 {
		require.NoError(t, k.Add(key, time.Duration(key)*time.Second+1))
	}
	for name, loop := range map[string]func(){
		"keys": func() {
			for range k.Pending() {
				panic("in the body")
			}
		},
		"tasks": func() {
			for range w.Pending() {
				panic("in the body")
			}
		},
	} {
		require.Panics(t, loop, name)
		require.Equal(t, 1000, w.Len(), "%s: no lock is left held", name)
	}
	for range k.Pending() {
		break
	}
	for range w.Pending() {
		break
	}
	seen := 0
	for key := range k.Pending() { // the body may take away what it sees, and what it does not
		seen++
		k.Cancel(key)
		k.Cancel(key + 1)
	}
	require.GreaterOrEqual(t, seen, 500)
	require.Zero(t, k.Len())
	require.Zero(t, w.Len())
}

// A map of keys that was large is dropped when it is empty, also while somebody
// iterates over it.
func TestKeysMayComeAndGoWhileTheyAreListed(t *testing.T) {
	w, c, _ := stage(t, time.Second)
	k := timingwheel.NewKeyed(w, func(int) {})
	for round := range 20 {
		for key := range 500 {
			require.NoError(t, k.Add(key, time.Hour))
		}
		for key := range k.Pending() {
			if key >= 500 {
				continue
			}
			for other := range 500 {
				k.Cancel(other)
			}
			require.NoError(t, k.Add(1000+round, time.Second))
		}
		require.Equal(t, 1, k.Len())
		c.move(time.Second)
		w.Sync()
		require.Zero(t, k.Len())
	}
	require.Zero(t, w.Len())
}

func TestAReplacedKeyMakesItsOldHandleStale(t *testing.T) {
	w, c, j := stage(t, time.Second)
	k := timingwheel.NewKeyed(w, func(key int) { j.note(key)() })
	require.NoError(t, k.Add(7, time.Second))
	var old timingwheel.Task
	for task := range w.Pending() {
		old = task
	}
	require.NoError(t, k.Add(7, 2*time.Second))
	require.False(t, w.Cancel(old))
	require.False(t, w.Reset(old, 0))
	_, ok := w.Deadline(old)
	require.False(t, ok)
	require.Equal(t, 1, k.Len())
	c.move(time.Second)
	w.Sync()
	require.Empty(t, j.runs())
	c.move(time.Second)
	w.Sync()
	require.Equal(t, []int{7}, j.runs())
}
