package timingwheel_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
)

func TestAddAndCancelAtOnceLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, delay := range []time.Duration{0, 1, time.Second, time.Hour, 100 * time.Hour} {
			w, c, j := stage(t, time.Second)
			// With no worker free even what is due at once has not started.
			block, started := make(chan struct{}), make(chan struct{})
			mustAdd(t, w, 0, func() { close(started); <-block })
			<-started
			for range 2000 {
				require.True(t, w.Cancel(mustAdd(t, w, delay, j.note(0))))
			}
			require.Zero(t, w.Len())
			stats := w.Stats()
			require.Zero(t, stats.Pending+stats.Due)
			for _, level := range stats.Levels {
				require.Zero(t, level.Tasks+level.Occupied)
			}
			close(block)
			c.move(1000 * time.Hour)
			synctest.Wait()
			require.LessOrEqual(t, w.Stats().Wakeups, uint64(1), "at most one wake in vain")
			require.Zero(t, j.count())
		}
	})
}

func TestACallbackMayCancelOthersOfItsTick(t *testing.T) {
	for _, n := range []int{1, 3000} {
		for _, backwards := range []bool{false, true} {
			w, c, j := stage(t, time.Second)
			tasks := make([]timingwheel.Task, n)
			won := 0
			mustAdd(t, w, time.Minute, func() {
				for k := range tasks {
					if backwards {
						k = n - 1 - k
					}
					if w.Cancel(tasks[k]) {
						won++
					}
				}
			})
			for k := range tasks {
				tasks[k] = mustAdd(t, w, time.Minute, j.note(k))
			}
			last := mustAdd(t, w, time.Minute, j.note(-1))
			c.move(time.Minute)
			w.Sync()
			require.Equal(t, n, won)
			require.Equal(t, []int{-1}, j.runs())
			require.False(t, w.Cancel(last))
			require.Zero(t, w.Len())
		}
	}
}

func TestWhatIsDueBehindABlockedCallbackCanBeCancelled(t *testing.T) {
	w, c, j := stage(t, time.Second)
	block, started := make(chan struct{}), make(chan struct{})
	mustAdd(t, w, time.Second, func() { close(started); <-block })
	var tasks []timingwheel.Task
	for k := range 10 {
		tasks = append(tasks, mustAdd(t, w, time.Second, j.note(k)))
	}
	c.move(time.Second)
	<-started
	for w.Stats().Due < 10 { // the alarm's goroutine may still be collecting
		runtime.Gosched()
	}
	require.Equal(t, 10, w.Len())
	for k, task := range tasks {
		require.True(t, w.Cancel(task))
		require.False(t, w.Cancel(task))
		require.Equal(t, 9-k, w.Len())
		require.Equal(t, 9-k, w.Stats().Due)
	}
	close(block)
	w.Sync()
	require.Zero(t, j.count())
}

func TestCancelTellsOnlyTheOneWhoPreventedTheRun(t *testing.T) {
	w, c, j := stage(t, time.Second)
	cancelled := mustAdd(t, w, time.Second, j.note(0))
	require.True(t, w.Cancel(cancelled))
	require.False(t, w.Cancel(cancelled), "twice")

	fired := mustAdd(t, w, time.Second, j.note(1))
	var own timingwheel.Task
	inside := true
	own = mustAdd(t, w, time.Second, func() { inside = w.Cancel(own) })
	c.move(time.Second)
	w.Sync()
	require.False(t, w.Cancel(fired), "after it ran")
	require.False(t, inside, "from inside its own callback")
	require.False(t, w.Cancel(timingwheel.Task{}), "the zero Task")

	other, _, _ := stage(t, time.Second)
	task := mustAdd(t, w, time.Second, j.note(2))
	mustAdd(t, other, time.Second, j.note(3))
	require.False(t, other.Cancel(task), "another wheel's")
	require.False(t, other.Reset(task, time.Hour))
	_, ok := other.Deadline(task)
	require.False(t, ok)
	require.Equal(t, 1, other.Len())
	c.move(time.Second)
	w.Sync()
	require.Equal(t, []int{1, 2}, j.runs())
}

func TestAStaleHandleHurtsNobodyAfterItsMemoryWasReused(t *testing.T) {
	w, c, j := stage(t, time.Second)
	var stale []timingwheel.Task
	seen := map[timingwheel.Task]bool{}
	for k := range 1000 {
		task := mustAdd(t, w, time.Second, j.note(k))
		require.False(t, seen[task], "a handle was given twice")
		seen[task] = true
		switch k % 3 {
		case 0:
			require.True(t, w.Cancel(task))
		case 1:
			c.move(time.Second)
			w.Sync()
		default:
			require.True(t, w.Reset(task, 0))
			w.Sync()
		}
		stale = append(stale, task)
	}
	ran := j.count()
	var live []timingwheel.Task
	for k := range 1000 {
		live = append(live, mustAdd(t, w, time.Hour, j.note(k)))
	}
	for _, task := range stale {
		require.False(t, w.Cancel(task))
		require.False(t, w.Reset(task, 0))
		_, ok := w.Deadline(task)
		require.False(t, ok)
	}
	require.Equal(t, 1000, w.Len())
	for _, task := range live {
		_, ok := w.Deadline(task)
		require.True(t, ok)
	}
	c.move(time.Hour)
	w.Sync()
	require.Equal(t, upTo(1000), j.runs()[ran:])
}

// Every task ends in exactly one of two ways, whoever is first.
func TestCancelAgainstFireHasExactlyOneWinner(t *testing.T) {
	rounds := 1_000_000
	if raceEnabled || testing.Short() {
		rounds = 50_000
	}
	for _, concurrency := range []int{1, 2, 256} {
		w, c, _ := stage(t, time.Second, func(o *timingwheel.Options) { o.Concurrency = concurrency })
		const batch = 1000
		ran := make([]atomic.Int32, batch)
		won := make([]atomic.Int32, batch)
		fns := make([]func(), batch)
		for k := range fns {
			fns[k] = func() { ran[k].Add(1) }
		}
		tasks := make([]timingwheel.Task, batch)
		for round := 0; round < rounds/3/batch; round++ {
			for k := range tasks {
				ran[k].Store(0)
				won[k].Store(0)
				tasks[k] = mustAdd(t, w, time.Second, fns[k])
			}
			var wait sync.WaitGroup
			for _, seed := range []uint64{1, 2} {
				wait.Go(func() {
					order := rand.New(rand.NewPCG(uint64(round), seed)).Perm(batch)
					for _, k := range order {
						if w.Cancel(tasks[k]) {
							won[k].Add(1)
						}
					}
				})
			}
			c.move(time.Second)
			wait.Wait()
			w.Sync()
			for k := range tasks {
				if n := ran[k].Load() + won[k].Load(); n != 1 {
					t.Fatalf("round %d: a task ran %d times and was cancelled %d times", round, ran[k].Load(), won[k].Load())
				}
			}
			require.Zero(t, w.Len())
		}
	}
}

func TestResetRunsATaskOnceAtItsNewTimeFromEveryHand(t *testing.T) {
	delays := []time.Duration{-1, 0, 1, time.Second, 2 * time.Second, 5 * time.Second, 59 * time.Second, 60 * time.Second, 61 * time.Second, time.Hour, 25 * time.Hour}
	step := time.Duration(1)
	if raceEnabled || testing.Short() {
		step = 17
	}
	for hand := time.Duration(0); hand < 61; hand += step {
		for _, from := range delays[2:] {
			for _, to := range delays {
				w, c, j := stage(t, time.Second)
				c.move(hand*time.Second + 1)
				task := mustAdd(t, w, from, j.note(0))
				require.True(t, w.Reset(task, to))
				if deadline, ok := w.Deadline(task); to > 0 {
					require.True(t, ok)
					due := roundUp(hand*time.Second+1+to, time.Second)
					require.Equal(t, due, deadline.Sub(c.start))
					c.move(due - 1 - c.since())
					w.Sync()
					require.Zero(t, j.count(), "hand %d, from %v to %v", hand, from, to)
					c.move(1)
				}
				w.Sync()
				require.Equal(t, 1, j.count(), "hand %d, from %v to %v", hand, from, to)
				c.move(200 * time.Hour)
				w.Sync()
				require.Equal(t, 1, j.count(), "hand %d, from %v to %v", hand, from, to)
				require.False(t, w.Reset(task, time.Second), "it has run")
			}
		}
	}
}

func TestResetOfATaskThatIsDueButHasNotStartedMovesIt(t *testing.T) {
	w, c, j := stage(t, time.Second)
	block, started := make(chan struct{}), make(chan struct{})
	blocker := mustAdd(t, w, 0, func() { close(started); <-block })
	<-started
	require.False(t, w.Reset(blocker, time.Second), "it is running")
	first := mustAdd(t, w, 0, j.note(0))
	mustAdd(t, w, 0, j.note(1))
	require.Equal(t, 2, w.Stats().Due)
	require.True(t, w.Reset(first, 3*time.Second))
	require.Equal(t, 1, w.Stats().Due)
	require.Equal(t, 2, w.Len())
	close(block)
	w.Sync()
	require.Equal(t, []int{1}, j.runs())
	c.move(3*time.Second - 1)
	w.Sync()
	require.Equal(t, []int{1}, j.runs())
	c.move(1)
	w.Sync()
	require.Equal(t, []int{1, 0}, j.runs())
}

func TestAfterTheEarliestIsCancelledTheNextStillFires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, j := stage(t, time.Second)
		for round := range 50 {
			first := mustAdd(t, w, 5*time.Second, j.note(-1))
			mustAdd(t, w, 9*time.Second, j.note(round))
			require.True(t, w.Cancel(first))
			before := w.Stats().Wakeups
			for range 9 {
				c.move(time.Second)
				synctest.Wait()
			}
			require.Equal(t, round+1, j.count())
			require.LessOrEqual(t, w.Stats().Wakeups-before, uint64(2), "one for the task, one in vain")
		}
		require.Equal(t, upTo(50), j.runs())
	})
}

func TestCancelledTasksAreCollectedWithoutTheClockMoving(t *testing.T) {
	n := 1_000_000
	if raceEnabled || testing.Short() {
		n = 100_000
	}
	w, _, _ := stage(t, time.Second)
	mustAdd(t, w, time.Hour, func() {})
	tasks := make([]timingwheel.Task, n)
	base := reachable()
	for k := range tasks {
		payload := make([]byte, 64)
		tasks[k] = mustAdd(t, w, time.Hour, func() { _ = payload })
	}
	require.Greater(t, reachable()-base, int64(64*n))
	for _, task := range tasks {
		require.True(t, w.Cancel(task))
	}
	require.Less(t, reachable()-base, int64(64<<10))
	runtime.KeepAlive(tasks)

	// Each single closure goes at once, also while others stay.
	freed := make(chan struct{})
	var keep []timingwheel.Task
	for range 10 {
		keep = append(keep, mustAdd(t, w, time.Hour, func() {}))
	}
	func() {
		payload := &struct{ b [64]byte }{}
		runtime.AddCleanup(payload, func(int) { close(freed) }, 0)
		task := mustAdd(t, w, time.Hour, func() { _ = payload.b })
		require.True(t, w.Cancel(task))
	}()
	runtime.GC()
	<-freed
	require.Len(t, keep, 10)
}

func TestAWheelThatIsDroppedCanBeCollected(t *testing.T) {
	uses := map[string]func(*timingwheel.Wheel){
		"unused": func(*timingwheel.Wheel) {},
		"drained": func(w *timingwheel.Wheel) {
			mustAdd(t, w, 0, func() {})
			w.Sync()
		},
		"stopped with tasks": func(w *timingwheel.Wheel) {
			mustAdd(t, w, time.Hour, func() {})
			_, err := w.AddEvery(time.Hour, func() {})
			require.NoError(t, err)
			w.Stop()
			require.Equal(t, 2, w.Len())
		},
	}
	for name, use := range uses {
		t.Run(name, func(t *testing.T) {
			freed := make(chan struct{})
			func() {
				w, err := timingwheel.New(timingwheel.Options{})
				require.NoError(t, err)
				runtime.AddCleanup(w, func(int) { close(freed) }, 0)
				use(w)
			}()
			for { // a worker of it may be on its last steps
				runtime.GC()
				select {
				case <-freed:
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
}

func TestTheFirstTasksOfTwoWheelsAreNotEachOthers(t *testing.T) {
	one, _, _ := stage(t, time.Second)
	two, _, _ := stage(t, time.Second)
	first, second := mustAdd(t, one, time.Hour, func() {}), mustAdd(t, two, time.Hour, func() {})
	require.NotEqual(t, first, second)
	require.False(t, one.Cancel(second))
	require.False(t, two.Reset(first, 0))
	_, ok := one.Deadline(second)
	require.False(t, ok)
	require.Equal(t, 1, one.Len())
	require.Equal(t, 1, two.Len())
}
