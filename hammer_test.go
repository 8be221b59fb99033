package timingwheel_test

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
)

// everyMinute is a schedule.
type everyMinute struct{}

func (everyMinute) Next(t time.Time) time.Time { return t.Add(time.Minute) }

// Every method against every other, itself included, on one wheel whose clock
// moves; the race detector watches.
func TestEveryPairOfMethodsMayRunAtOnce(t *testing.T) {
	type target struct {
		w     *timingwheel.Wheel
		k     *timingwheel.Keyed[int]
		c     *standIn
		tasks [8]atomic.Value
	}
	task := func(x *target, n int) timingwheel.Task {
		task, _ := x.tasks[n%8].Load().(timingwheel.Task)
		return task
	}
	keep := func(x *target, n int, task timingwheel.Task, err error) {
		if err == nil {
			x.tasks[n%8].Store(task)
		}
	}
	delays := []time.Duration{0, 1, time.Second, 59 * time.Second, time.Hour}
	methods := map[string]func(x *target, n int){
		"Add": func(x *target, n int) { task, err := x.w.Add(delays[n%5], func() {}); keep(x, n, task, err) },
		"AddAt": func(x *target, n int) {
			task, err := x.w.AddAt(x.c.Now().Add(delays[n%5]), func() {})
			keep(x, n, task, err)
		},
		"AddEvery":    func(x *target, n int) { task, err := x.w.AddEvery(time.Hour, func() {}); keep(x, n, task, err) },
		"AddSchedule": func(x *target, n int) { task, err := x.w.AddSchedule(everyMinute{}, func() {}); keep(x, n, task, err) },
		"Cancel":      func(x *target, n int) { x.w.Cancel(task(x, n)) },
		"Reset":       func(x *target, n int) { x.w.Reset(task(x, n), delays[n%5]) },
		"Deadline":    func(x *target, n int) { x.w.Deadline(task(x, n)) },
		"Len":         func(x *target, n int) { x.w.Len() },
		"Now":         func(x *target, n int) { x.w.Now() },
		"Next":        func(x *target, n int) { x.w.Next() },
		"Pending": func(x *target, n int) {
			for task := range x.w.Pending() {
				x.w.Deadline(task)
			}
		},
		"Stats": func(x *target, n int) { x.w.Stats() },
		"Sync":  func(x *target, n int) { x.w.Sync() },
		"Stop": func(x *target, n int) {
			if n == 20 {
				x.w.Stop()
			}
		},
		"Keyed.Add":      func(x *target, n int) { _ = x.k.Add(n%5, delays[n%5]) },
		"Keyed.AddNew":   func(x *target, n int) { _, _ = x.k.AddNew(n%5, delays[n%4]) },
		"Keyed.Cancel":   func(x *target, n int) { x.k.Cancel(n % 5) },
		"Keyed.Reset":    func(x *target, n int) { x.k.Reset(n%5, delays[n%5]) },
		"Keyed.Deadline": func(x *target, n int) { x.k.Deadline(n % 5) },
		"Keyed.Len":      func(x *target, n int) { x.k.Len() },
		"Keyed.Pending": func(x *target, n int) {
			for key := range x.k.Pending() {
				x.k.Cancel(key)
			}
		},
		"the clock":        func(x *target, n int) { x.c.move(delays[n%5]) },
		"the clock, back":  func(x *target, n int) { x.c.move(-delays[n%3]) },
		"NewKeyed and Add": func(x *target, n int) { _ = timingwheel.NewKeyed(x.w, func(string) {}).Add("key", delays[n%5]) },
		"callbacks that add": func(x *target, n int) {
			_, _ = x.w.Add(delays[n%3], func() { _, _ = x.w.Add(delays[(n+1)%3], func() {}) })
		},
	}
	for first, f := range methods {
		for second, g := range methods {
			if first > second {
				continue
			}
			w, c, _ := stage(t, time.Second, func(o *timingwheel.Options) { o.Concurrency = 2 })
			x := &target{w: w, c: c, k: timingwheel.NewKeyed(w, func(int) {})}
			for n := range 8 {
				methods["Add"](x, n)
			}
			var wait sync.WaitGroup
			for _, method := range []func(*target, int){f, g} {
				wait.Go(func() {
					for n := range 40 {
						method(x, n)
						if n%8 == 0 {
							runtime.Gosched()
						}
					}
				})
			}
			wait.Wait()
			w.Sync()
			stats := w.Stats()
			require.Equal(t, w.Len(), stats.Pending+stats.Due, "%s and %s", first, second)
			require.Zero(t, stats.Running, "%s and %s", first, second)
		}
	}
}

// Millions of adds, cancels, resets and fires at once: each task ends in exactly
// one way, and the counters of the wheel say the same.
func TestEachOfMillionsOfTasksEndsInExactlyOneWay(t *testing.T) {
	for _, concurrency := range []int{1, 2, 256} {
		w, c, _ := stage(t, time.Second, func(o *timingwheel.Options) { o.Concurrency = concurrency })
		const goroutines = 4
		per := some(250_000, 10_000)
		type record struct {
			task timingwheel.Task
			ends atomic.Int32
		}
		records := make([][]record, goroutines)
		var fired, canceled, reset atomic.Int64
		var working atomic.Int32
		working.Store(goroutines)
		var wait sync.WaitGroup
		for g := range goroutines {
			records[g] = make([]record, per)
			wait.Go(func() {
				defer working.Add(-1)
				rng := rand.New(rand.NewPCG(uint64(g), uint64(concurrency)))
				mine := records[g]
				for k := range mine {
					r := &mine[k]
					task, err := w.Add(time.Duration(rng.IntN(5))*time.Second, func() {
						r.ends.Add(1)
						fired.Add(1)
					})
					if err != nil {
						t.Error(err)
						return
					}
					r.task = task
					switch victim := &mine[max(0, k-rng.IntN(2000))]; rng.IntN(4) {
					case 0:
						if w.Cancel(victim.task) {
							victim.ends.Add(1)
							canceled.Add(1)
						}
					case 1:
						if w.Reset(victim.task, time.Duration(rng.IntN(7))*time.Second) {
							reset.Add(1)
						}
					}
				}
			})
		}
		for working.Load() > 0 {
			c.move(time.Second)
			w.Sync()
		}
		wait.Wait()
		c.move(time.Minute)
		w.Sync()
		for g := range records {
			for k := range records[g] {
				if n := records[g][k].ends.Load(); n != 1 {
					t.Fatalf("concurrency %d: task %d of goroutine %d ended %d times", concurrency, k, g, n)
				}
			}
		}
		stats := w.Stats()
		require.Equal(t, uint64(goroutines*per), stats.Added)
		require.Equal(t, uint64(fired.Load()), stats.Fired)
		require.Equal(t, uint64(canceled.Load()), stats.Canceled)
		require.Equal(t, int64(goroutines*per), fired.Load()+canceled.Load())
		require.Positive(t, reset.Load())
		require.Zero(t, w.Len())
	}
}
