package timingwheel

import (
	"slices"
	"time"
)

// A Snapshot is what a wheel can tell of itself at one moment: Stats, and what a
// picture of it needs besides. See Wheel.Snapshot.
type Snapshot struct {
	Stats

	Start time.Time // when New made it: slots and hands count from there
	Now   time.Time // by the wheel's clock
	Next  time.Time // when the wheel has work next, as Wheel.Next; zero: nothing is waiting

	Tick                    time.Duration // of Options, with defaults filled in, as
	Concurrency, MaxPending int           // are these
	Stopped                 bool

	// LongestRun is for how long the callback has been executing that began
	// first of those that have not returned; 0 if none is.
	LongestRun time.Duration

	Slots [][]uint32 // tasks per slot, one list for each of Levels
}

// Snapshot returns the state of the wheel. It costs as much as there are slots,
// some microseconds; the first call counts all pending tasks, and from then on Add
// and Cancel keep their number per slot. No lock is held for more than 512 tasks at
// a time. Callbacks may call it.
func (w *Wheel) Snapshot() Snapshot {
	now := w.elapsed()
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.wheels.watch() {
		w.breathe()
	}
	now = w.observe(now)
	s := Snapshot{
		Stats:       w.stats(now),
		Start:       w.start,
		Now:         w.start.Add(now),
		Tick:        w.tick,
		Concurrency: w.opts.Concurrency,
		MaxPending:  w.opts.MaxPending,
		Stopped:     w.stopped,
	}
	if w.oldest != nil {
		s.LongestRun = now - w.oldest.since
	}
	if next, ok := w.next(); ok {
		s.Next = w.instant(next)
	}
	for k := range w.wheels.levels {
		s.Slots = append(s.Slots, append([]uint32(nil), w.wheels.levels[k].counts...))
	}
	return s
}

// A Place says where a task is. See Wheel.Locate and Keyed.Locate.
type Place struct {
	Deadline time.Time // the instant of its due tick

	// A task that waits is in a slot of one of the wheels: Level is an index of
	// Stats.Levels, Slot one in that ring. Both are -1 for one that is due, which
	// is in the backlog until a callback returns and makes room, or runs.
	Level, Slot int

	Since time.Time // when its callback began; zero: it has not started
}

// Locate returns where a task is, and false if it is neither pending nor running:
// it has run, was cancelled, or belongs to another wheel. A task that Reset moved
// to a later time stays in its slot until that comes round. It costs O(1), and for
// a task that is not pending as much as callbacks are running. Callbacks may call
// it.
func (w *Wheel) Locate(t Task) (Place, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.wheel != w.id {
		return Place{}, false
	}
	waiting := func() *entry {
		if e := w.find(t); e != nil && e.place() != placeRunning {
			return e
		}
		return nil
	}
	return w.whereabouts(waiting, func(r *worker) bool { return r.task() == t })
}

// Locate returns where the task of a key is, and false if none is pending or
// running for it: the key was never added, was cancelled, or its callback has
// returned. A key that was added again while its callback runs is pending. It
// costs O(1), and for a key that is not pending as much as callbacks are running.
// Callbacks may call it.
func (k *Keyed[K]) Locate(key K) (Place, bool) {
	w := k.w
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := func() *entry {
		if i, pending := k.find(key); pending {
			return w.tasks.at(i)
		}
		return nil
	}
	return w.whereabouts(waiting, func(r *worker) bool {
		e, ok := r.keyed.(*expiring[K])
		return ok && e.k == k && e.key == key
	})
}

// whereabouts returns the place of the task that waiting returns, or else of the
// first running one that match picks. It is called with the lock held. Looking
// through those that run may let go of it, and one of them may have come to wait
// meanwhile.
func (w *Wheel) whereabouts(waiting func() *entry, match func(*worker) bool) (Place, bool) {
	if e := waiting(); e != nil {
		return w.placeOf(e), true
	}
	if p, ok := w.running(match); ok {
		return p, true
	}
	if e := waiting(); e != nil {
		return w.placeOf(e), true
	}
	return Place{}, false
}

// placeOf returns the place of a task that is in a list; it is called with the
// lock held.
func (w *Wheel) placeOf(e *entry) Place {
	p := Place{Deadline: w.instant(e.due), Level: -1, Slot: -1}
	if place := e.place(); place >= placeSlots {
		p.Level, p.Slot = w.wheels.slotOf(place)
	}
	return p
}

// running returns the place of a running task that match picks. It is called with
// the lock held, and lets go of it now and then. It goes from the last seat to the
// first: a worker that is dismissed meanwhile leaves its seat to the last one, which
// has been seen. Runs that begin meanwhile are shown to the search.
func (w *Wheel) running(match func(*worker) bool) (Place, bool) {
	s := &search{match: match}
	w.searches = append(w.searches, s)
	for seat := len(w.crew) - 1; seat >= 0 && s.found == nil; seat-- {
		s.see(w.crew[seat])
		if seat%batch == 0 && seat > 0 {
			w.breathe()
			seat = min(seat, len(w.crew))
		}
	}
	w.searches = slices.DeleteFunc(w.searches, func(other *search) bool { return other == s })
	if s.found == nil {
		return Place{}, false
	}
	return *s.found, true
}

// A search looks for a running task.
type search struct {
	match func(*worker) bool
	found *Place
}

func (s *search) see(r *worker) {
	if r.busy && s.match(r) {
		s.found = &Place{r.w.instant(r.due), -1, -1, r.w.start.Add(r.since)}
	}
}

// breathe lets go of the lock, which the caller holds, for others to take it.
func (w *Wheel) breathe() {
	if w.pause != nil {
		w.mu.Unlock()
		w.pause()
		w.mu.Lock()
	}
	w.mu.yield()
}
