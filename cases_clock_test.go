package timingwheel_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheeltest"
)

// ticks are resolutions with and without a ring below one second, of one bit set
// and of several.
var ticks = []time.Duration{time.Second, 500 * time.Millisecond, 100 * time.Millisecond, 10 * time.Millisecond, time.Millisecond}

func TestADelayIsRoundedUpAtEveryPhaseOfTheClock(t *testing.T) {
	for _, tick := range ticks {
		for _, phase := range []time.Duration{0, 1, tick / 2, tick - 1} {
			for _, hand := range []time.Duration{0, 1, 59, 60, 3599} {
				for _, d := range []time.Duration{1, tick - 1, tick, tick + 1, 9 * tick / 10, 59*tick + 1, 60 * tick, 61*tick - 1, 3600 * tick} {
					w, c, j := stage(t, tick)
					c.move(hand*tick + phase)
					task := mustAdd(t, w, d, j.note(0))
					due := roundUp(hand*tick+phase+d, tick)
					what := fmt.Sprintf("tick %v, phase %v, hand %d, delay %v", tick, phase, hand, d)
					deadline, ok := w.Deadline(task)
					require.True(t, ok)
					require.Equal(t, c.start.Add(due), deadline, what)
					c.move(due - c.since() - 1)
					w.Sync()
					require.Zero(t, j.count(), "%s: 1 ns early", what)
					c.move(1)
					w.Sync()
					require.Equal(t, 1, j.count(), what)
				}
			}
		}
	}
}

func TestALateWheelDoesNotShortenADelay(t *testing.T) {
	const tick = time.Second
	for hand := time.Duration(0); hand < 3700; hand += 61 {
		for _, waiting := range []time.Duration{0, 1, 4, 60, 3600} { // what the hand has not come to yet
			w, c, j := stage(t, tick)
			c.silent = true
			c.move(hand * tick)
			if waiting > 0 {
				mustAdd(t, w, waiting*tick, func() {})
			}
			c.move(5 * tick)
			mustAdd(t, w, 3*tick, j.note(0))
			c.move(3*tick - 1)
			w.Sync()
			require.Zero(t, j.count(), "hand %d, waiting %d", hand, waiting)
			c.move(1)
			w.Sync()
			require.Equal(t, 1, j.count(), "hand %d, waiting %d", hand, waiting)
		}
	}
}

func TestWhatACallbackAddsFiresExactlyThenAndNotInTheSamePass(t *testing.T) {
	for _, k := range []time.Duration{1, 59, 60, 61, 3599, 3600} {
		w, c, j := stage(t, time.Second)
		delays := []time.Duration{0, 1, 59, 60, 61, 3600}
		mustAdd(t, w, k*time.Second, func() {
			for n, d := range delays {
				mustAdd(t, w, d*time.Second, j.note(n))
			}
		})
		wheeltest.Advance(w, c.move, (k+3601)*time.Second)
		require.Equal(t, upTo(len(delays)), j.runs())
		for n, d := range delays {
			require.Equal(t, (k+d)*time.Second, j.times[n], "from tick %d, %d ticks", k, d)
		}
	}
}

func TestAJumpFiresEachTaskOnceInOrder(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for _, jump := range []time.Duration{7 * time.Second, time.Hour, 24 * time.Hour, 5 * year} {
		for _, tasks := range []int{0, 1, 100_000} {
			if raceEnabled {
				tasks = min(tasks, 10_000)
			}
			w, c, j := stage(t, time.Second)
			for n := range tasks { // many of one tick, or far apart, in order of their deadlines
				mustAdd(t, w, time.Duration(float64(jump)*float64(n)/float64(tasks)), j.note(n))
			}
			c.move(jump)
			w.Sync()
			require.Equal(t, upTo(tasks), j.runs(), "jump of %v", jump)
			require.Zero(t, w.Len())
			_, ok := w.Next()
			require.False(t, ok)
			_, armed := c.alarm()
			require.False(t, armed, "an empty wheel has armed a timer")
		}
	}
}

func TestAClockThatStepsBackFiresNothingTwiceAndNothingEarly(t *testing.T) {
	for _, back := range []time.Duration{1, time.Second, time.Hour, 56 * 365 * 24 * time.Hour} {
		for _, silent := range []bool{false, true} {
			w, c, j := stage(t, time.Second)
			c.silent = silent
			mustAdd(t, w, 10*time.Second, j.note(0))
			mustAdd(t, w, 20*time.Second, j.note(1))
			mustAdd(t, w, 90*time.Second, j.note(2))
			c.move(10 * time.Second)
			w.Sync()
			require.Equal(t, []int{0}, j.runs())

			c.move(-back)
			w.Sync()
			require.Equal(t, c.start.Add(10*time.Second), w.Now(), "the wheel's time stands still")
			mustAdd(t, w, 0, j.note(3))
			w.Sync()
			require.Equal(t, []int{0, 3}, j.runs())
			late := mustAdd(t, w, 5*time.Second, j.note(4))
			deadline, _ := w.Deadline(late)
			require.Equal(t, c.start.Add(15*time.Second), deadline, "delays count from the latest reading")
			at, err := w.AddAt(c.start.Add(17*time.Second), j.note(5))
			require.NoError(t, err)
			deadline, _ = w.Deadline(at)
			require.Equal(t, c.start.Add(17*time.Second), deadline)

			c.move(back + 5*time.Second - 1)
			w.Sync()
			require.Equal(t, []int{0, 3}, j.runs(), "back by %v, then almost to the deadline", back)
			c.move(1)
			w.Sync()
			require.Equal(t, []int{0, 3, 4}, j.runs(), "back by %v", back)
			c.move(time.Hour)
			w.Sync()
			require.Equal(t, []int{0, 3, 4, 5, 1, 2}, j.runs())
		}
	}
}

func TestAClockSetBackBeforeTheStartDoesNoHarm(t *testing.T) {
	mock := clock.NewMock()
	mock.Set(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	w, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(mock), Concurrency: 1})
	require.NoError(t, err)
	j := &journal{}
	mustAdd(t, w, time.Minute, j.note(0))
	mock.Set(time.Unix(0, 0))
	mustAdd(t, w, time.Second, j.note(1))
	w.Sync()
	require.Zero(t, j.count())
	mock.Set(time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC))
	w.Sync()
	require.Equal(t, []int{1}, j.runs())
	mock.Set(time.Date(2026, 1, 1, 0, 1, 0, 0, time.UTC))
	w.Sync()
	require.Equal(t, []int{1, 0}, j.runs())
}

// From 1970 to 2026 at once, on the finest tick: 1.8e12 ticks.
func TestAMockSetFrom1970ToTodayWalksNoTicks(t *testing.T) {
	for _, pending := range []int{0, 1, 1000} {
		mock := clock.NewMock()
		w, err := timingwheel.New(timingwheel.Options{Tick: time.Millisecond, Clock: timingwheel.ClockOf(mock), Concurrency: 1})
		require.NoError(t, err)
		j := &journal{}
		for n := range pending {
			mustAdd(t, w, time.Duration(n+1)*time.Second, j.note(n))
		}
		mock.Set(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
		w.Sync()
		require.Equal(t, upTo(pending), j.runs())
		mustAdd(t, w, time.Second, j.note(-1))
		mock.Add(time.Second - 1)
		w.Sync()
		require.Len(t, j.runs(), pending)
		mock.Add(1)
		w.Sync()
		require.Len(t, j.runs(), pending+1)
	}
}

func TestAClockThatMovesATickAtEachReadingFiresAllNeverEarly(t *testing.T) {
	for _, perRead := range []time.Duration{time.Second / 8, time.Second, 61 * time.Second} {
		w, c, j := stage(t, time.Second)
		c.perRead = perRead
		deadlines := map[int]time.Duration{}
		for n, d := range []time.Duration{0, 1, 2, 59, 60, 61, 3600, 86400, 5 * 86400} {
			task := mustAdd(t, w, d*time.Second, j.note(n))
			deadlines[n] = (d + 1) * time.Second // not before the first reading, and d later
			if at, ok := w.Deadline(task); ok {
				deadlines[n] = at.Sub(c.start)
			}
		}
		for range 100 {
			c.move(5000 * time.Second)
			w.Sync()
		}
		runs := j.runs()
		slices.Sort(runs)
		require.Equal(t, upTo(9), runs, "moving %v at each reading", perRead)
		for k, n := range j.names {
			if n > 0 {
				require.GreaterOrEqual(t, j.times[k], deadlines[n], "task %d is early", n)
			}
		}
	}
}

func TestAfterTenIdleHoursADelayOfFiveTicksIsServedByTheFinestWheel(t *testing.T) {
	for _, tick := range ticks {
		for _, before := range []bool{false, true} {
			w, c, j := stage(t, tick)
			if before { // it was in use once
				mustAdd(t, w, tick, func() {})
				c.move(tick)
				w.Sync()
			}
			ahead := min(5*tick, time.Second-tick) // the ring of half seconds has two slots
			if tick == time.Second {
				ahead = 5 * tick
			}
			c.move(10*time.Hour + 1)
			mustAdd(t, w, ahead-1, j.note(0))
			require.Equal(t, 1, w.Stats().Levels[0].Tasks, "tick %v", tick)
			next, ok := w.Next()
			require.True(t, ok)
			require.Equal(t, roundUp(c.since()+ahead-1, tick), next.Sub(c.start))
			c.move(ahead - 2)
			w.Sync()
			require.Zero(t, j.count())
			c.move(1)
			w.Sync()
			require.Equal(t, 1, j.count())
		}
	}
}

// Whatever a clock does with its alarms, each task fires once and not early.
func TestAnyHabitOfAClocksAlarmsIsBorne(t *testing.T) {
	habits := map[string]func(*standIn){
		"as it should":         func(*standIn) {},
		"with its lock held":   func(c *standIn) { c.held = true },
		"twice":                func(c *standIn) { c.calls = 2 },
		"five times, held":     func(c *standIn) { c.calls, c.held = 5, true },
		"never":                func(c *standIn) { c.silent = true },
		"early, at each move":  func(c *standIn) { c.early = true },
		"early, twice, held":   func(c *standIn) { c.early, c.calls, c.held = true, 2, true },
		"and moves when asked": func(c *standIn) { c.perRead = 1 },
	}
	for habit, set := range habits {
		t.Run(habit, func(t *testing.T) {
			for _, step := range []time.Duration{time.Second / 3, time.Second, 7 * time.Second, 70 * time.Second} {
				w, c, j := stage(t, time.Second)
				set(c)
				for n := range 50 {
					mustAdd(t, w, time.Duration(n*n)*time.Second, j.note(n))
				}
				for c.since() < 2500*time.Second {
					c.move(step)
					w.Sync()
				}
				require.Equal(t, upTo(50), j.runs())
				for n, at := range j.times {
					due := time.Duration(n*n) * time.Second
					require.GreaterOrEqual(t, at, due)
					require.Less(t, at, due+max(step, time.Second)+2*time.Second)
				}
			}
		})
	}
}

// Without any Sync the alarm alone must bring the wheel to each deadline.
func TestTheAlarmIsArmedForTheNextSlotAndForNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, j := stage(t, time.Second)
		_, armed := c.alarm()
		require.False(t, armed, "nothing is pending")
		far := mustAdd(t, w, 50*time.Second, j.note(0))
		at, _ := c.alarm()
		require.Equal(t, 50*time.Second, at)
		require.Equal(t, 1, c.armed)
		for range 1000 { // later ones do not touch it
			mustAdd(t, w, 51*time.Second, func() {})
		}
		require.Equal(t, 1, c.armed)
		near := mustAdd(t, w, 5*time.Second, j.note(1))
		at, _ = c.alarm()
		require.Equal(t, 5*time.Second, at, "an earlier one re-arms it before Add returns")
		require.Equal(t, 2, c.armed)
		require.True(t, w.Cancel(near))
		require.True(t, w.Cancel(far))
		require.Equal(t, 2, c.armed, "a cancel touches no timer")
		at, _ = c.alarm()
		require.Equal(t, 5*time.Second, at)
		c.move(5 * time.Second)
		synctest.Wait()
		at, _ = c.alarm()
		require.Equal(t, 51*time.Second, at)
		require.Zero(t, j.count())
	})
}

// The goroutine can lose the processor between its reading of the clock and the
// arming of the timer. The clock here moves on just then.
func TestALossOfTheProcessorWhileArmingKeepsTheDeadline(t *testing.T) {
	for _, lost := range []time.Duration{time.Second / 2, time.Second, 4 * time.Second, 10 * time.Second, time.Hour} {
		for _, times := range []int{1, 2} {
			w, c, j := stage(t, time.Second)
			ran := make(chan struct{})
			left := times
			c.onArm = func() {
				if left > 0 {
					left--
					c.mu.Lock()
					c.now = c.now.Add(lost)
					c.mu.Unlock()
				}
			}
			mustAdd(t, w, 10*time.Second, func() { j.note(0)(); close(ran) })
			if since := c.since(); since < 10*time.Second {
				at, armed := c.alarm()
				require.True(t, armed)
				require.LessOrEqual(t, at, 10*time.Second, "%v lost, %d times", lost, times)
				c.move(10*time.Second - since)
			}
			<-ran // without any other move of the clock
			require.Equal(t, 1, j.count())
		}
	}
}

// 292 years is as far as durations reach; a fake that begins in the year 1 and is
// set to today lies beyond. Time then stands still, and nothing may spin.
func TestAJumpBeyondTheEndOfTimeStopsTheWheelsTimeThere(t *testing.T) {
	for _, tick := range ticks {
		synctest.Test(t, func(t *testing.T) {
			w, c, j := stage(t, tick)
			mustAdd(t, w, time.Hour, j.note(0))
			never := mustAdd(t, w, math.MaxInt64, j.note(1))
			c.mu.Lock()
			c.now = c.now.AddDate(1000, 0, 0)
			c.mu.Unlock()
			c.move(0)
			w.Sync()
			require.Equal(t, []int{0}, j.runs())
			late := mustAdd(t, w, time.Second, j.note(2))
			mustAdd(t, w, 0, j.note(3))
			w.Sync()
			require.Equal(t, []int{0, 3}, j.runs(), "what is due at once still runs")
			synctest.Wait() // it comes to rest
			require.True(t, w.Cancel(never))
			require.True(t, w.Cancel(late))
			require.Zero(t, w.Len())
		})
	}
}

func TestDelaysOfAnyLengthAreLegal(t *testing.T) {
	const day = 24 * time.Hour
	for _, tick := range ticks {
		for _, phase := range []time.Duration{0, 1, tick - 1, 100 * day} {
			w, c, j := stage(t, tick)
			c.move(phase)
			far := []time.Duration{25 * time.Hour, 8*day + 3*time.Hour, 400 * day, 5 * 365 * day}
			for n, d := range far {
				mustAdd(t, w, d, j.note(n))
			}
			var never []timingwheel.Task
			for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - phase, math.MaxInt64 - tick} {
				never = append(never, mustAdd(t, w, d, j.note(-1)))
			}
			for n, d := range far {
				due := roundUp(phase+d, tick)
				c.move(due - 1 - c.since())
				w.Sync()
				require.Len(t, j.runs(), n, "%v, 1 ns early", d)
				c.move(1)
				w.Sync()
				require.Equal(t, upTo(n+1), j.runs(), "%v", d)
			}
			c.move(280 * 365 * day)
			w.Sync()
			require.Len(t, j.runs(), len(far))
			for _, task := range never {
				deadline, ok := w.Deadline(task)
				require.True(t, ok)
				require.True(t, deadline.After(c.start.AddDate(290, 0, 0)))
				require.True(t, w.Cancel(task))
			}
		}
	}
}

func TestWhatIsDueInThePastRunsAtOnceAndOnce(t *testing.T) {
	for _, hand := range []time.Duration{0, 1, 59, 60, 3600} {
		for _, waiting := range []bool{false, true} {
			w, c, j := stage(t, time.Second)
			if waiting {
				c.silent = true
				mustAdd(t, w, time.Second, j.note(0))
			} else {
				j.note(0)()
			}
			c.move(hand*time.Second + 1)
			for n, d := range []time.Duration{-1, -time.Second, 0, -math.MaxInt64, math.MinInt64} {
				task := mustAdd(t, w, d, j.note(n+1))
				if deadline, ok := w.Deadline(task); ok {
					require.Equal(t, c.start.Add(hand*time.Second), deadline)
				}
			}
			for n, at := range []time.Time{time.Unix(0, 0), {}, c.start.Add(-1), c.start} {
				_, err := w.AddAt(at, j.note(6+n))
				require.NoError(t, err)
			}
			w.Sync()
			if waiting && hand == 0 {
				require.Equal(t, upTo(10)[1:], j.runs())
				continue
			}
			require.Equal(t, upTo(10), j.runs(), "hand %d: behind everything due earlier", hand)
			c.move(time.Hour)
			w.Sync()
			require.Len(t, j.runs(), 10)
		}
	}
}
