// Package durable runs handlers at least once, never before their time, also if
// the process that set the timer has died.
//
// A timeout that must outlive the process cannot be a closure. Here a timer is
// data: a topic, a key, a due time and a payload, kept by a Store; a handler is
// registered for each topic. A Scheduler joins the two, and sleeps on a
// timingwheel.Wheel until the next timer is due. Stores are packages of their own:
// durable/boltstore keeps timers in a file of this process, durable/redisstore
// shares them among many processes, durable/memstore is for tests. The program is
// the same, but for the constructor.
//
// # What holds
//
// At least once: a timer whose Add returned without an error is delivered until a
// handler has returned nil for it, it is cancelled or replaced, or
// Options.MaxAttempts are used up; then it is in the dead list, with its last error,
// until it is redriven. It can be delivered twice, so handlers check before they
// act.
//
// Never early: not before its due time on the store's clock, and at most a tick of
// the wheel later while a process has places free. The clocks of several machines
// need not agree, since with a shared store the server's decides.
//
// What was answered, holds: a Cancel that answered Canceled keeps the handler from
// running, for good, and adding a key anew is one step, with no moment in which
// there is neither the old timer nor the new one.
//
// Nobody holds a timer for ever: a claim is a lease. The scheduler extends it while
// the handler runs; if the process dies the timer comes back when the lease ends,
// and the attempt counts, so that a timer that takes its process down ends in the
// dead list.
//
// Nothing due costs nothing: the scheduler knows when the next timer is due and
// does not poll. What other processes put is announced by the store.
//
// # Tests
//
// With a fake clock for both the wheel and the store (boltstore.Options.Now, the
// argument of memstore.New) whole days pass in a test, exactly, in milliseconds; see
// Scheduler.Sync and the example of a fake clock. Those who write a Store test it
// with package durable/storetest.
package durable
