package timingwheel_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheeltest"
)

func some(many, few int) int {
	if raceEnabled || testing.Short() {
		return few
	}
	return many
}

func TestNoneOfAHundredThousandChainedAddsIsLost(t *testing.T) {
	links := some(100_000, 10_000)
	for _, delay := range []time.Duration{0, time.Second} {
		w, c, j := stage(t, time.Second)
		left := links
		var next func()
		next = func() {
			if left--; left > 0 {
				mustAdd(t, w, delay, next)
				return
			}
			j.note(0)()
		}
		mustAdd(t, w, delay, next)
		wheeltest.Advance(w, c.move, time.Duration(links)*delay)
		require.Equal(t, 1, j.count())
		require.Zero(t, w.Len())
	}
}

// A worker that starts while the others are blocked must take the next task at once,
// before other goroutines have had their turn: one after the other, 64 of them would
// start 64 turns late.
func TestCallbacksThatBlockStartWithoutWaitingForOtherGoroutines(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const tasks, busy = 64, 4
	w, c, _ := stage(t, time.Second, func(o *timingwheel.Options) { o.Concurrency = tasks })
	gate, all := make(chan struct{}), make(chan struct{})
	var began, turns, turnsThen atomic.Int64
	for range tasks {
		mustAdd(t, w, time.Second, func() {
			if began.Add(1) == tasks {
				turnsThen.Store(turns.Load())
				close(all)
			}
			<-gate
		})
	}
	var stop atomic.Bool
	var wait sync.WaitGroup
	for range busy {
		wait.Go(func() {
			for !stop.Load() {
				turns.Add(1)
				runtime.Gosched()
			}
		})
	}
	c.move(time.Second)
	<-all
	stop.Store(true)
	close(gate)
	wait.Wait()
	require.Less(t, turnsThen.Load(), int64(busy*tasks/2), "turns of the other goroutines until all had begun")
	w.Sync()
}

// On the system clock: the timer is about to be armed for a later task while an
// earlier one is added. In a bubble the clock stands until all wait, so a deadline
// that is missed shows as one tick too late.
func TestAnEarlierTaskThatComesWhileTheTimerIsArmedIsNotLate(t *testing.T) {
	rounds := some(20_000, 2000)
	synctest.Test(t, func(t *testing.T) {
		w, err := timingwheel.New(timingwheel.Options{Tick: time.Millisecond})
		require.NoError(t, err)
		var late, ran atomic.Int64
		for range rounds {
			var wait sync.WaitGroup
			for _, d := range []time.Duration{5, 3, 1, 4, 2} {
				wait.Go(func() {
					due := time.Now().Add(d * time.Millisecond)
					mustAdd(t, w, d*time.Millisecond, func() {
						ran.Add(1)
						if !time.Now().Equal(due) {
							late.Add(1)
						}
					})
				})
			}
			wait.Wait()
			time.Sleep(2 * time.Millisecond) // the next round finds the timer armed
		}
		time.Sleep(time.Second)
		synctest.Wait()
		require.Zero(t, late.Load())
		require.Equal(t, int64(5*rounds), ran.Load())
		require.Zero(t, w.Len())
	})
}

func TestANewEarliestTaskWakesAWheelThatSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := timingwheel.New(timingwheel.Options{})
		require.NoError(t, err)
		mustAdd(t, w, time.Hour, func() {})
		time.Sleep(10 * time.Minute)
		start := time.Now()
		ran := make(chan time.Duration, 1)
		mustAdd(t, w, 2*time.Second, func() { ran <- time.Since(start) })
		require.Equal(t, 2*time.Second, <-ran)
	})
}

func TestEachAddThatRacesStopIsRefusedOrPending(t *testing.T) {
	rounds := some(3000, 300)
	for round := range rounds {
		w, err := timingwheel.New(timingwheel.Options{Concurrency: 2})
		require.NoError(t, err)
		var refused, added, ran atomic.Int64
		var wait sync.WaitGroup
		begin := make(chan struct{})
		for g := range 4 {
			wait.Go(func() {
				<-begin
				for n := range 20 {
					_, err := w.Add(time.Duration(n%2*(g+1))*time.Hour, func() { ran.Add(1) })
					if errors.Is(err, timingwheel.ErrStopped) {
						refused.Add(1)
					} else if err == nil {
						added.Add(1)
					}
				}
			})
		}
		wait.Go(func() {
			<-begin
			for range round % 50 {
				runtime.Gosched()
			}
			w.Stop()
		})
		close(begin)
		wait.Wait()
		require.NoError(t, w.Shutdown(context.Background()))
		listed := int64(0)
		for task := range w.Pending() {
			_, ok := w.Deadline(task)
			require.True(t, ok)
			listed++
		}
		require.Equal(t, int64(80), refused.Load()+added.Load())
		require.Equal(t, added.Load(), ran.Load()+listed, "each that was added ran or is pending")
		require.Equal(t, int(listed), w.Len())
		require.Equal(t, uint64(refused.Load()), w.Stats().Rejected)
	}
}

func TestStopIsLegalAtAnyTimeAndAnyNumberOfTimes(t *testing.T) {
	unused, _, _ := stage(t, time.Second)
	unused.Stop() // before the first Add
	unused.Stop()
	_, err := unused.Add(0, func() {})
	require.ErrorIs(t, err, timingwheel.ErrStopped)
	require.NoError(t, unused.Shutdown(context.Background()))
	unused.Sync()

	w, c, j := stage(t, time.Second)
	mustAdd(t, w, time.Second, func() { j.note(0)(); w.Stop(); w.Stop() })
	mustAdd(t, w, time.Second, j.note(1)) // due too, but nothing starts any more
	mustAdd(t, w, time.Hour, j.note(2))
	c.move(time.Second)
	w.Sync()
	require.NoError(t, w.Shutdown(context.Background()))
	require.Equal(t, []int{0}, j.runs())
	require.Equal(t, 2, w.Len())
	_, armed := c.alarm()
	require.False(t, armed)
	c.move(100 * time.Hour)
	w.Sync()
	require.Equal(t, []int{0}, j.runs())

	w, _, _ = stage(t, time.Second)
	mustAdd(t, w, time.Second, func() {})
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(w.Stop)
		wait.Go(func() { require.NoError(t, w.Shutdown(context.Background())) })
	}
	wait.Wait()
	require.Equal(t, 1, w.Len())
}

func TestShutdownWaitsForCallbacksOrItsContext(t *testing.T) {
	w, c, _ := stage(t, time.Second, func(o *timingwheel.Options) { o.Concurrency = 3 })
	block := make(chan struct{})
	var started, ended atomic.Int32
	for range 3 {
		mustAdd(t, w, time.Second, func() { started.Add(1); <-block; ended.Add(1) })
	}
	c.move(time.Second)
	for started.Load() < 3 {
		runtime.Gosched()
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, w.Shutdown(ctx), context.Canceled)
	require.ErrorIs(t, w.Shutdown(ctx), context.Canceled)
	require.Equal(t, 3, w.Stats().Running)
	close(block)
	require.NoError(t, w.Shutdown(context.Background()))
	require.Equal(t, int32(3), ended.Load())
	require.Zero(t, w.Stats().Running)
}

func TestAWheelThatWasDrainedServesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, j := stage(t, time.Second)
		for round := range 300 {
			c.move(time.Duration(round*round) * time.Second)
			synctest.Wait()
			_, armed := c.alarm()
			require.False(t, armed)
			mustAdd(t, w, 2*time.Second, j.note(round))
			at, _ := c.alarm()
			require.Equal(t, c.since()+2*time.Second, at)
			c.move(2 * time.Second)
			synctest.Wait()
			require.Equal(t, round+1, j.count())
			require.Zero(t, w.Len())
		}
	})
}

func TestCallbacksThatBlockForEverHoldUpNothingElse(t *testing.T) {
	const places = 256
	synctest.Test(t, func(t *testing.T) {
		w, c, j := stage(t, time.Second, func(o *timingwheel.Options) { o.Concurrency = places })
		block := make(chan struct{})
		var running atomic.Int32
		for range 3000 {
			mustAdd(t, w, time.Second, func() { running.Add(1); <-block })
		}
		c.move(time.Second)
		synctest.Wait()
		require.Equal(t, int32(places), running.Load())
		require.Equal(t, 3000-places, w.Stats().Due, "the backlog is visible")
		var tasks []timingwheel.Task
		for k := range 10_000 {
			tasks = append(tasks, mustAdd(t, w, time.Duration(k%100)*time.Second, j.note(0)))
		}
		c.move(3700 * time.Second)
		synctest.Wait()
		stats := w.Stats()
		require.Zero(t, stats.Pending, "the hands still move")
		require.Equal(t, 3000-places+10_000, stats.Due)
		require.Equal(t, 3701%60, stats.Levels[0].Hand)
		for _, task := range tasks {
			require.True(t, w.Cancel(task))
		}
		require.Equal(t, 3000-places, w.Len())
		close(block)
		w.Sync()
		require.Equal(t, int32(3000), running.Load())
		require.Zero(t, j.count()+w.Len())
	})
}

func TestPanicsAndExitsInTheMiddleOfABatchHarmNoOther(t *testing.T) {
	for _, concurrency := range []int{1, 2, 256} {
		var reported atomic.Int32
		w, c, _ := stage(t, time.Second, func(o *timingwheel.Options) {
			o.Concurrency = concurrency
			o.OnPanic = func(value any, stack []byte) {
				reported.Add(1)
				require.Equal(t, "in a callback", value)
				require.Contains(t, string(stack), "TestPanicsAndExits")
			}
		})
		var ran atomic.Int32
		const batch = 3000
		for k := range batch {
			mustAdd(t, w, time.Second, func() {
				ran.Add(1)
				switch k % 3 {
				case 0:
					panic("in a callback")
				case 1:
					runtime.Goexit()
				}
			})
		}
		c.move(time.Second)
		w.Sync()
		stats := w.Stats()
		require.Equal(t, int32(batch), ran.Load())
		require.Equal(t, int32(batch/3), reported.Load())
		require.Equal(t, uint64(batch/3), stats.Panicked)
		require.Equal(t, uint64(batch), stats.Fired)
		require.Zero(t, stats.Running+stats.Due+w.Len())
	}
}

func TestAPanicInOnPanicAndAnExitThereAreBorne(t *testing.T) {
	for name, onPanic := range map[string]func(any, []byte){
		"none":  nil,
		"panic": func(any, []byte) { panic("and again") },
		"exit":  func(any, []byte) { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			before := slog.Default()
			slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
			defer slog.SetDefault(before)
			w, c, j := stage(t, time.Second, func(o *timingwheel.Options) { o.OnPanic = onPanic })
			for k := range 20 {
				mustAdd(t, w, time.Second, func() { j.note(k)(); panic("first") })
			}
			c.move(time.Second)
			w.Sync()
			require.Equal(t, upTo(20), j.runs())
			require.Equal(t, uint64(20), w.Stats().Panicked)
			require.Zero(t, w.Stats().Running)
			wanted := map[string][2]int{"none": {20, 0}, "panic": {20, 20}, "exit": {0, 0}}[name]
			require.Equal(t, wanted[0], strings.Count(log.String(), "panic=first"))
			require.Equal(t, wanted[1], strings.Count(log.String(), `panic="and again"`))
			if onPanic == nil {
				require.Contains(t, log.String(), "level=ERROR")
				require.Contains(t, log.String(), "TestAPanicInOnPanic", "the stack of the panic")
			}
		})
	}
}

// A callback that adds itself without delay must not starve tasks that are due by
// the clock, nor Stop.
func TestACallbackThatAddsItselfForEverStarvesNobody(t *testing.T) {
	mock := clock.NewMock()
	w, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(mock), Concurrency: 1})
	require.NoError(t, err)
	var rounds atomic.Int64
	var again func()
	again = func() {
		rounds.Add(1)
		_, err := w.Add(0, again)
		if err != nil && !errors.Is(err, timingwheel.ErrStopped) {
			t.Error(err)
		}
	}
	mustAdd(t, w, 0, again)
	for k := range 20 {
		ran := make(chan struct{})
		mustAdd(t, w, time.Duration(k%3)*time.Second, func() { close(ran) })
		mock.Add(time.Duration(k%3) * time.Second)
		<-ran
	}
	w.Stop()
	require.NoError(t, w.Shutdown(context.Background()))
	require.LessOrEqual(t, w.Len(), 1, "its next run, unless that was refused")
	require.Positive(t, rounds.Load())
}

func TestSixteenGoroutinesMayFillOneSlot(t *testing.T) {
	w, c, _ := stage(t, time.Second, func(o *timingwheel.Options) { o.Concurrency = 2 })
	per := some(10_000, 1000)
	var ran atomic.Int64
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() {
			for range per {
				mustAdd(t, w, 3*time.Second, func() { ran.Add(1) })
			}
		})
	}
	wait.Wait()
	require.Equal(t, 16*per, w.Stats().Levels[0].Tasks)
	require.Equal(t, 1, w.Stats().Levels[0].Occupied)
	c.move(3 * time.Second)
	w.Sync()
	require.Equal(t, int64(16*per), ran.Load())
}

func TestABubbleEndsThoughTheWheelIsNeverStopped(t *testing.T) {
	for _, source := range []string{"system", "mock"} {
		synctest.Test(t, func(t *testing.T) {
			opts := timingwheel.Options{Tick: 100 * time.Millisecond}
			mock := clock.NewMock()
			if source == "mock" {
				opts.Clock = timingwheel.ClockOf(mock)
			}
			w, err := timingwheel.New(opts)
			require.NoError(t, err)
			ran := 0
			mustAdd(t, w, time.Minute, func() { ran++ })
			mustAdd(t, w, time.Hour, func() { ran++ })
			_, err = w.AddEvery(time.Minute, func() {})
			require.NoError(t, err)
			if source == "mock" {
				mock.Add(time.Minute)
			} else {
				time.Sleep(time.Minute)
			}
			w.Sync()
			require.Equal(t, 1, ran)
		})
	}
}
