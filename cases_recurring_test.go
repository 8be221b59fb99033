package timingwheel_test

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheeltest"
)

func TestRunKIsDueAtKPeriodsWithoutDrift(t *testing.T) {
	const tick = time.Second
	runs, step := 1000, 7
	if raceEnabled || testing.Short() {
		runs, step = 100, 31
	}
	for period := 1; period <= 200; period += step {
		for _, hand := range []time.Duration{0, 1, 59, 3599} {
			for _, odd := range []time.Duration{0, 1, 333 * time.Millisecond} { // off the grid of ticks
				w, c, j := stage(t, tick)
				c.move(hand*tick + odd)
				start := c.since()
				every := time.Duration(period)*tick + odd
				task, err := w.AddEvery(every, j.note(0))
				require.NoError(t, err)
				for k := 1; k <= runs/period+3; k++ {
					due := roundUp(start+time.Duration(k)*every, tick)
					deadline, ok := w.Deadline(task)
					require.True(t, ok)
					require.Equal(t, due, deadline.Sub(c.start), "period %v, run %d", every, k)
					c.move(due - 1 - c.since())
					w.Sync()
					require.Equal(t, k-1, j.count(), "period %v, run %d, 1 ns early", every, k)
					c.move(1)
					w.Sync()
					require.Equal(t, k, j.count(), "period %v, run %d", every, k)
				}
				require.Zero(t, w.Stats().Skipped)
			}
		}
	}
}

func TestEveryPeriodRunsAThousandTimesInOneAdvance(t *testing.T) {
	periods := []int{1, 2, 7, 59, 60, 61, 119, 120, 121, 199, 200}
	if !raceEnabled && !testing.Short() {
		periods = upTo(201)[1:]
	}
	for _, period := range periods {
		w, c, j := stage(t, time.Second)
		c.move(time.Duration(period) * 37 * time.Second) // some hand
		start := c.since()
		every := time.Duration(period) * time.Second
		_, err := w.AddEvery(every, j.note(0))
		require.NoError(t, err)
		runs := 1000
		if raceEnabled || testing.Short() {
			runs = 200
		}
		wheeltest.Advance(w, c.move, time.Duration(runs)*every)
		require.Equal(t, runs, j.count(), "period %d", period)
		for k, at := range j.times {
			require.Equal(t, start+time.Duration(k+1)*every, at)
		}
	}
}

func TestAJumpMergesThePeriodsItPassesAndKeepsTheGrid(t *testing.T) {
	for _, phase := range []time.Duration{0, 1, 500 * time.Millisecond} {
		w, c, j := stage(t, time.Second)
		c.move(phase)
		task, err := w.AddEvery(5*time.Second, j.note(0))
		require.NoError(t, err)
		c.move(time.Hour)
		w.Sync()
		require.Equal(t, 1, j.count(), "720 periods are one run")
		merged := uint64(719)
		if phase > 0 {
			merged-- // the tick of the last one has not come yet
		}
		require.Equal(t, merged, w.Stats().Skipped)
		deadline, ok := w.Deadline(task)
		require.True(t, ok)
		next := roundUp(phase+time.Duration(merged+2)*5*time.Second, time.Second)
		require.Equal(t, next, deadline.Sub(c.start), "back on the grid")
		c.move(next - c.since() - 1)
		w.Sync()
		require.Equal(t, 1, j.count())
		c.move(1)
		w.Sync()
		require.Equal(t, 2, j.count())
		c.move(2 * time.Second) // between two of them nothing is merged
		w.Sync()
		require.Equal(t, 2, j.count())
		require.Equal(t, merged, w.Stats().Skipped)
	}
}

func TestASlowCallbackDoesNotOverlapAndItsPeriodsAreMerged(t *testing.T) {
	w, c, j := stage(t, time.Second, func(o *timingwheel.Options) { o.Concurrency = 4 })
	block, started := make(chan struct{}), make(chan struct{}, 10)
	running := 0
	task, err := w.AddEvery(5*time.Second, func() {
		if running++; running > 1 {
			t.Error("two runs at once")
		}
		started <- struct{}{}
		<-block
		j.note(0)()
		running--
	})
	require.NoError(t, err)
	c.move(5 * time.Second)
	<-started
	require.Equal(t, 1, w.Len(), "it counts while it runs")
	require.False(t, w.Reset(task, time.Hour), "it is running")
	deadline, ok := w.Deadline(task)
	require.True(t, ok)
	require.Equal(t, 10*time.Second, deadline.Sub(c.start))
	c.move(23 * time.Second) // 10, 15, 20 and 25 come meanwhile
	close(block)
	w.Sync()
	require.Equal(t, 2, j.count(), "one run for the four")
	require.Equal(t, uint64(3), w.Stats().Skipped)
	deadline, ok = w.Deadline(task)
	require.True(t, ok)
	require.Equal(t, 30*time.Second, deadline.Sub(c.start), "back on the grid")
}

func TestACallbackThatAddsItselfKeepsItsPeriodExactly(t *testing.T) {
	for _, ticks := range []time.Duration{1, 59, 60, 61} {
		for _, step := range []bool{true, false} {
			w, c, j := stage(t, time.Second)
			c.move(17 * time.Second)
			var again func()
			again = func() {
				j.note(0)()
				mustAdd(t, w, ticks*time.Second, again)
			}
			mustAdd(t, w, ticks*time.Second, again)
			if step {
				wheeltest.Advance(w, c.move, 300*ticks*time.Second)
			} else {
				for range 300 * ticks {
					c.move(time.Second)
					w.Sync()
				}
			}
			require.Equal(t, 300, j.count())
			for k, at := range j.times {
				require.Equal(t, (17+time.Duration(k+1)*ticks)*time.Second, at)
			}
		}
	}
}

func TestCancelEndsASeriesFromInsideFromOutsideAndBetween(t *testing.T) {
	for _, how := range []string{"inside", "outside while it runs", "between", "after Stop"} {
		t.Run(how, func(t *testing.T) {
			w, c, j := stage(t, time.Second)
			var task timingwheel.Task
			block, started := make(chan struct{}), make(chan struct{})
			task, err := w.AddEvery(time.Second, func() {
				j.note(0)()
				switch how {
				case "inside":
					if !w.Cancel(task) || w.Cancel(task) {
						t.Error("Cancel from inside ends it, once")
					}
				case "outside while it runs":
					close(started)
					<-block
				}
			})
			require.NoError(t, err)
			c.move(time.Second)
			switch how {
			case "outside while it runs":
				<-started
				require.True(t, w.Cancel(task))
				require.False(t, w.Cancel(task))
				require.Zero(t, w.Len())
				close(block)
			case "between":
				w.Sync()
				require.True(t, w.Cancel(task))
			case "after Stop":
				w.Sync()
				w.Stop()
				require.Equal(t, 1, w.Len())
				require.True(t, w.Cancel(task))
			}
			w.Sync()
			require.Zero(t, w.Len())
			c.move(time.Hour)
			w.Sync()
			require.Equal(t, 1, j.count())
			require.False(t, w.Cancel(task))
			_, ok := w.Deadline(task)
			require.False(t, ok)
			require.Equal(t, uint64(1), w.Stats().Canceled)
		})
	}
}

func TestResetMovesTheGridOfASeries(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 2 * time.Second, 30 * time.Second, time.Hour} {
		w, c, j := stage(t, time.Second)
		task, err := w.AddEvery(7*time.Second, j.note(0))
		require.NoError(t, err)
		c.move(10*time.Second + 1)
		w.Sync()
		require.Equal(t, 1, j.count())
		require.True(t, w.Reset(task, d))
		for k := range 5 {
			due := roundUp(10*time.Second+1+d+time.Duration(k)*7*time.Second, time.Second)
			if d == 0 && k == 0 {
				w.Sync()
				require.Equal(t, 2, j.count(), "at once")
				continue
			}
			c.move(due - 1 - c.since())
			w.Sync()
			require.Equal(t, 1+k, j.count(), "reset to %v, run %d early", d, k)
			c.move(1)
			w.Sync()
			require.Equal(t, 2+k, j.count(), "reset to %v, run %d", d, k)
		}
	}
}

// A plan is a schedule that is made of a function, and counts how it is asked.
type plan struct {
	next  func(time.Time) time.Time
	asked []time.Time
}

func (p *plan) Next(t time.Time) time.Time {
	p.asked = append(p.asked, t)
	return p.next(t)
}

func TestASchedulePicksItsTimesAndEnds(t *testing.T) {
	w, c, j := stage(t, time.Second)
	times := []time.Duration{3 * time.Second, 3*time.Second + 1, 90 * time.Second, 25 * time.Hour}
	p := &plan{next: func(after time.Time) time.Time {
		for _, at := range times {
			if c.start.Add(at).After(after) {
				return c.start.Add(at)
			}
		}
		return time.Time{}
	}}
	task, err := w.AddSchedule(p, j.note(0))
	require.NoError(t, err)
	for k, at := range times {
		due := roundUp(at, time.Second)
		deadline, ok := w.Deadline(task)
		require.True(t, ok)
		require.Equal(t, due, deadline.Sub(c.start))
		c.move(due - c.since() - 1)
		w.Sync()
		require.Equal(t, k, j.count())
		c.move(1)
		w.Sync()
		require.Equal(t, k+1, j.count(), "the run of %v", at)
	}
	require.Zero(t, w.Len(), "it has ended")
	require.False(t, w.Cancel(task))
	require.Len(t, p.asked, len(times)+1)
}

func TestAScheduleThatTurnsBackOrPanicsEnds(t *testing.T) {
	ends := map[string]func(time.Time) time.Time{
		"zero":      func(time.Time) time.Time { return time.Time{} },
		"the same":  func(after time.Time) time.Time { return after },
		"earlier":   func(after time.Time) time.Time { return after.Add(-time.Hour) },
		"a panic":   func(time.Time) time.Time { panic("no more") },
		"an exit":   func(time.Time) time.Time { runtime.Goexit(); return time.Time{} },
		"the start": func(time.Time) time.Time { return time.Unix(0, 0) },
	}
	for how, end := range ends {
		t.Run(how, func(t *testing.T) {
			panics := 0
			w, c, j := stage(t, time.Second, func(o *timingwheel.Options) {
				o.OnPanic = func(any, []byte) { panics++ }
			})
			p := &plan{}
			p.next = func(after time.Time) time.Time {
				if len(p.asked) > 1 {
					return end(after)
				}
				return after.Add(time.Second)
			}
			_, err := w.AddSchedule(p, j.note(0))
			require.NoError(t, err)
			c.move(time.Second)
			w.Sync()
			require.Equal(t, 1, j.count())
			require.Zero(t, w.Len())
			require.Equal(t, how == "a panic", panics == 1)
			c.move(time.Hour)
			w.Sync()
			require.Equal(t, 1, j.count())
			mustAdd(t, w, 0, j.note(1)) // its place is not lost
			w.Sync()
			require.Equal(t, 2, j.count())

			p.asked = make([]time.Time, 5)
			if how != "a panic" && how != "an exit" {
				_, err = w.AddSchedule(p, j.note(0))
				require.ErrorIs(t, err, timingwheel.ErrPeriod)
			}
		})
	}
}

func TestASeriesOutlivesPanicsAndExitsOfItsCallback(t *testing.T) {
	panics := 0
	w, c, j := stage(t, time.Second, func(o *timingwheel.Options) {
		o.OnPanic = func(any, []byte) { panics++ }
	})
	n := 0
	_, err := w.AddEvery(time.Second, func() {
		j.note(n)()
		n++
		switch n % 3 {
		case 1:
			panic("once more")
		case 2:
			runtime.Goexit()
		}
	})
	require.NoError(t, err)
	for k := range 30 {
		c.move(time.Second)
		w.Sync()
		require.Equal(t, k+1, j.count())
	}
	require.Equal(t, 10, panics)
	require.Equal(t, uint64(10), w.Stats().Panicked)
}

func TestOnTheSystemClockASeriesKeepsItsGrid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := timingwheel.New(timingwheel.Options{Tick: 10 * time.Millisecond})
		require.NoError(t, err)
		start := time.Now()
		k := 0
		task, err := w.AddEvery(33*time.Millisecond, func() {
			k++
			require.Equal(t, roundUp(time.Duration(k)*33*time.Millisecond, 10*time.Millisecond), time.Since(start))
		})
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Equal(t, 303, k)
		require.True(t, w.Cancel(task))
	})
}

func TestASeriesThatIsLateQueuesBehindWhatWasDueBefore(t *testing.T) {
	w, c, j := stage(t, time.Second)
	block, again := make(chan struct{}), make(chan struct{})
	started := make(chan struct{}, 2)
	first := true
	series, err := w.AddEvery(5*time.Second, func() {
		if j.note(0)(); first {
			first = false
			started <- struct{}{}
			<-block
		}
	})
	require.NoError(t, err)
	mustAdd(t, w, 12*time.Second, func() { j.note(1)(); started <- struct{}{}; <-again })
	c.move(5 * time.Second)
	<-started
	c.move(23*time.Second + 1)
	for w.Stats().Due == 0 { // the alarm's goroutine may still be on its way
		runtime.Gosched()
	}
	close(block)
	<-started // the other one runs first, and blocks the only worker
	deadline, ok := w.Deadline(series)
	require.True(t, ok)
	require.Equal(t, 28*time.Second, deadline.Sub(c.start), "it is due at once, by the tick in which its run ended")
	close(again)
	w.Sync()
	require.Equal(t, []int{0, 1, 0}, j.runs())
}
