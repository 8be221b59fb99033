// Package wheeltest moves fake clocks for tests of code that uses a
// timingwheel.Wheel.
package wheeltest

import (
	"time"

	"github.com/fee15284/timingwheel"
)

// Advance moves a fake clock forward by d: it stops at every instant at which w
// has work to do, and goes on when the callbacks of that instant have returned. So
// each callback sees on the clock the instant at which it was due, and what
// callbacks add in between has its turn. move is the fake's own method: mock.Add,
// fake.Advance, fake.Step.
//
// A test that does not look at the clock in callbacks needs less: move the clock
// and call w.Sync. Like Sync, Advance is not for callbacks, and the clock must be
// the one that w was made with. A d that is not positive moves nothing and runs
// what is due.
func Advance(w *timingwheel.Wheel, move func(time.Duration), d time.Duration) {
	w.Sync()
	for d > 0 {
		step := d
		if next, ok := w.Next(); ok {
			if wait := max(next.Sub(w.Now()), 1) + w.Behind(); wait > 0 { // else it overflows
				step = min(step, wait)
			}
		}
		move(step)
		d -= step
		w.Sync()
	}
}
