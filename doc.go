// Package timingwheel runs callbacks when their time has come, for services that
// hold very many timeouts of which most are taken back: orders that must be paid
// within 15 minutes, leases, sessions, idle connections.
//
//	w, err := timingwheel.New(timingwheel.Options{})
//	...
//	task, err := w.Add(15*time.Minute, func() { cancelOrder(id) })
//	...
//	if !w.Cancel(task) {
//		// too late: the callback has started
//	}
//
// # Model
//
// A Wheel counts time in ticks from the moment of New. Its slots are rings: 60
// seconds, 60 minutes and 24 hours, and below them one ring of ticks if a tick is
// shorter than a second. A task lies in the finest ring that reaches its due tick.
// When the hand comes to a slot of a coarser ring, that slot's tasks move to finer
// ones, and when it comes to a slot of the finest ring they are due. Tasks more
// than a day away stay in their hour slot until their day has come. This is the
// hierarchical wheel of G. Varghese and T. Lauck, "Hashed and Hierarchical Timing
// Wheels" (1987).
//
// One timer is armed, for the next slot that holds anything, and none if nothing is
// pending. Due tasks wait in a queue for a goroutine; goroutines are started on
// demand, at most Options.Concurrency, and end when the queue is empty.
//
// # Guarantees
//
// A callback starts once, never before its deadline by the wheel's clock, and at
// most one tick later plus what the machine's scheduler takes, as long as fewer
// than Options.Concurrency callbacks are running. Callbacks start in the order of
// their due ticks and, within a tick, in that of adding; with a Concurrency of 1
// they also run in that order. A task that has not started ends in exactly one way:
// its callback starts, or one call of Cancel returns true.
//
// No lock is held while a callback runs. It may call every method but Sync and
// Shutdown, which would wait for it. A callback that blocks takes up one place of
// Concurrency and delays nothing else; once all places are taken, due tasks wait,
// are counted in Stats.Due and can still be cancelled. A panic is reported to
// Options.OnPanic and ends that callback only, and so does runtime.Goexit.
//
// What happens before a call of Add happens before its callback, and what a
// callback does happens before a Sync or Shutdown returns that waited for it.
//
// # Clocks
//
// With the zero Clock only monotonic time counts: setting the wall clock changes
// nothing, except that AddAt with a time that has no monotonic reading, and the
// times of AddSchedule, mean what the wall clock shows when they are given. While a
// machine is suspended, Go's monotonic clock stands still on Linux, macOS and most
// others (on Windows it may go on): a timeout then comes later on the wall clock by
// as long as the machine slept, and nothing is lost. Those who need wall time across
// a suspension re-add such tasks with AddAt after waking.
//
// ClockOf takes the clock of any clock package. When it steps forward, by whatever
// amount, everything due fires once and in order, at a cost that depends on the
// tasks and slots and not on the ticks passed. When it steps back, the wheel's time
// stands still until the clock has caught up.
//
// # Tests
//
// On a fake clock, move the clock and call Sync; it returns when the callbacks have.
// Package wheeltest moves a fake clock from one due instant to the next. In a
// testing/synctest bubble the zero Clock works without either.
//
// # Costs
//
// Add, Cancel and Reset are O(1) and allocate nothing in steady state. A pending task
// takes 32 bytes beside its callback, and is one pointer to the garbage collector.
// Memory is held in blocks of 4 KiB for 127 tasks. Blocks that become free are given
// back, but for one, and for as many as hold room for a sixteenth of the tasks that
// stay. An idle wheel takes less than 16 KiB. No lock is held for more than 512 tasks,
// however many move or fall due at once. A task more than a day away is looked at once
// for each day until then on which another task of its hour slot is due.
//
// All of a wheel's methods share one lock, and take as long however many goroutines
// want it. A program in which many processors add and cancel at the same time, and do
// little else, can give each part of its work a wheel of its own: that costs no more
// than the wheel's memory. To choose one of several wheels anew for each order does not
// help, and time.AfterFunc, which has a heap for each processor, scales better
// (BENCHMARKS.md).
//
// # When not to use it
//
// A few hundred timers, or delays that must be finer than a millisecond, are better
// served by time.AfterFunc. A task is a function in memory and ends with the process:
// timeouts that must outlive it belong into a store, and work that must be done, not
// only begun, into a job queue.
//
// # Metrics
//
// Stats can be published through expvar in one line:
//
//	expvar.Publish("timingwheel", expvar.Func(func() any { return w.Stats() }))
package timingwheel
