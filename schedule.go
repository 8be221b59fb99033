package timingwheel

import "time"

// A Schedule says when a task runs next: the first instant after the one given.
// The zero time, or one that is not after the one given, ends the task. The
// schedules of github.com/robfig/cron and of most other cron libraries have this
// shape.
type Schedule interface{ Next(time.Time) time.Time }

// A series is what a recurring task has beside its entry. It is guarded by the
// wheel's lock, but for over, which belongs to the worker that runs the task.
type series struct {
	hook
	period time.Duration // 0: plan says when
	plan   Schedule
	next   time.Duration // elapsed time of the next run
	last   time.Time     // what plan said last
	over   bool          // plan has no further time, or is being asked
}

// AddEvery runs fn every period: run k is due at k periods from now, rounded up
// to its tick, without drift. Runs of one task never overlap. Periods whose tick
// has come when a run starts or ends, because a callback was slow or the clock
// was stepped, are merged into one run, due at once; the others among them are
// counted in Stats.Skipped.
//
// The task counts in Len and Options.MaxPending also while it runs, and ends with
// Cancel, which its callback may call. It costs O(1) and two allocations. The
// error wraps ErrNilFunc, ErrStopped, ErrFull, or ErrPeriod if the period is less
// than one tick. Callbacks may call it.
func (w *Wheel) AddEvery(period time.Duration, fn func()) (Task, error) {
	if fn == nil {
		return Task{}, w.reject(refuse(ErrNilFunc, "AddEvery: fn is nil"))
	}
	if period < w.tick {
		return Task{}, w.reject(refuse(ErrPeriod, "AddEvery: period %v is less than a tick of %v", period, w.tick))
	}
	return w.addSeries("AddEvery", &series{period: period}, w.elapsed(), fn)
}

// AddSchedule runs fn at the times that a schedule names, each rounded up to its
// tick. After each run it asks s for the first time after that run's, or after
// now if that is later; so runs of one task never overlap, and times that pass
// while a run lasts are left out. The task ends with the schedule, or with Cancel,
// which its callback may call.
//
// Next is called without a lock held, first by AddSchedule itself and then by the
// goroutine of the callback; if it panics there, that is reported like a panic of
// the callback, and ends the task.
//
// It costs O(1) and two allocations. The error wraps ErrNilFunc, ErrStopped,
// ErrFull, or ErrPeriod if the schedule has no first time. Callbacks may call it.
func (w *Wheel) AddSchedule(s Schedule, fn func()) (Task, error) {
	if fn == nil {
		return Task{}, w.reject(refuse(ErrNilFunc, "AddSchedule: fn is nil"))
	}
	if s == nil {
		return Task{}, w.reject(refuse(ErrPeriod, "AddSchedule: the schedule is nil"))
	}
	now := w.Now()
	next := s.Next(now)
	if next.IsZero() || !next.After(now) {
		return Task{}, w.reject(refuse(ErrPeriod, "AddSchedule: the schedule's Next(%v) is %v, not later", now, next))
	}
	elapsed := now.Sub(w.start)
	return w.addSeries("AddSchedule", &series{plan: s, last: next, next: after(elapsed, next.Sub(now))}, elapsed, fn)
}

// addSeries is called without the lock.
func (w *Wheel) addSeries(method string, s *series, now time.Duration, fn func()) (Task, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.refusal(method); err != nil {
		return Task{}, err
	}
	s.series = s
	now = w.observe(now)
	if s.period > 0 {
		s.next = after(now, s.period)
	} // else the schedule has named an instant, however long it took to do so
	i := w.tasks.add(fn, &s.hook, w.group(s.next, 0))
	w.count.Added++
	w.scheduleAt(i, now, s.next)
	return w.handle(i), nil
}

// begin starts a run: all periods that have come by an elapsed time are one run.
// It returns how many were merged into it.
func (s *series) begin(now time.Duration) uint64 {
	if s.period == 0 {
		return 0
	}
	merged := max(0, now-s.next) / s.period
	s.next = after(s.next+merged*s.period, s.period)
	return uint64(merged)
}

// move makes the next run due at an elapsed time, and further ones follow from
// there.
func (s *series) move(next time.Duration) { s.next, s.last = next, time.Time{} }

// reschedule asks the schedule of the task that has just run for its next time.
// It is called without the lock.
func (r *worker) reschedule() {
	s := r.series
	if !r.busy || s == nil || s.plan == nil || s.over || !r.w.holds(r) {
		return
	}
	s.over = true // if Next panics, it is not asked again
	now := r.w.Now()
	from := now
	if s.last.After(now) {
		from = s.last // the wall clock was set back: that time has been
	}
	next := s.plan.Next(from)
	if next.IsZero() || !next.After(from) {
		return
	}
	s.over, s.last = false, next
	s.next = after(now.Sub(r.w.start), next.Sub(now))
}

// holds reports whether a worker's task was not cancelled while it ran; it is
// called without the lock.
func (w *Wheel) holds(r *worker) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.tasks.find(r.index, r.seq) != nil
}
