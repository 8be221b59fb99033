package timingwheel

import (
	"math/bits"
	"time"
)

// Stats is what a wheel holds and has done. See Wheel.Stats.
type Stats struct {
	Pending int // tasks that wait in a slot
	Due     int // tasks that are due and have not started: the backlog
	Running int // callbacks that are executing

	// Since New:
	Added    uint64 // tasks taken by Add and its kind
	Fired    uint64 // callbacks started
	Canceled uint64 // tasks taken back, or replaced by Keyed.Add
	Rejected uint64 // calls of Add and its kind that returned an error
	Panicked uint64 // callbacks that panicked
	Skipped  uint64 // periods of AddEvery that were merged into a later run
	Wakeups  uint64 // times the armed timer called
	Moved    uint64 // tasks moved to a finer wheel by cascades

	// From the deadline of a task to the start of its callback, by the wheel's
	// clock: the largest, the latest, the sum of all, and how they spread. A task
	// that was added without delay counts from the beginning of that tick.
	MaxLateness, LastLateness, LatenessSum time.Duration
	Lateness                               []Bucket

	Levels []LevelStats // the wheels, finest first
}

// LevelStats is the state of one of the wheels that make up a Wheel.
type LevelStats struct {
	Name     string // "ticks" (below one second), "seconds", "minutes" or "hours"
	Slots    int    // in the ring
	Occupied int    // slots that hold tasks
	Tasks    int    // in all its slots
	Hand     int    // the slot of the current tick
}

// Stats returns what the wheel holds and has done, all at one moment. It costs
// about a microsecond and some allocations. Callbacks may call it.
func (w *Wheel) Stats() Stats {
	now := w.elapsed()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stats(w.observe(now))
}

// stats is Stats at a reading, with the lock held.
func (w *Wheel) stats(now time.Duration) Stats {
	w.wheels.skip(w.floor(now)) // the hand rests while there is nothing to do
	w.turned()
	s := w.count
	s.Pending = w.wheels.count()
	s.Due = w.due.count
	s.Moved = w.wheels.moved
	s.Lateness = w.late.buckets()
	s.Levels = w.wheels.stats()
	return s
}

var levelNames = [...]string{"ticks", "seconds", "minutes", "hours"}

func (h *hierarchy) stats() []LevelStats {
	all := make([]LevelStats, len(h.levels))
	names := levelNames[len(levelNames)-len(h.levels):]
	for n := range h.levels {
		l := &h.levels[n]
		all[n] = LevelStats{Name: names[n], Slots: len(l.slots), Tasks: l.count, Hand: l.hand}
		for _, word := range l.occupied {
			all[n].Occupied += bits.OnesCount64(word)
		}
	}
	return all
}
