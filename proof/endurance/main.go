// Command endurance loads a wheel on the real clock with a mix of everything for
// some minutes, and checks that no callback was early, lost or doubled, and that
// neither goroutines nor memory are left at the end. It is not part of the tests:
//
//	go run ./endurance -for 5m
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fee15284/timingwheel"
)

var (
	length  = flag.Duration("for", 5*time.Minute, "how long to add tasks")
	tick    = flag.Duration("tick", 10*time.Millisecond, "tick of the wheel")
	adders  = flag.Int("adders", 4, "goroutines that add, cancel and reset")
	workers = flag.Int("concurrency", 256, "callbacks at once")
	longest = flag.Duration("longest", 70*time.Second, "longest delay")
	rate    = flag.Int("rate", 20_000, "operations per second and goroutine")
)

// A record is one task: its bits say how it ended.
type record struct {
	task     timingwheel.Task
	deadline atomic.Int64 // not before it, in nanoseconds since the start
	moved    atomic.Bool  // by Reset: how late it is cannot be told
	ran      atomic.Int32
	canceled atomic.Int32
}

// A tally is what was counted, all goroutines together.
type tally struct {
	added, ran, canceled, reset, keyed, early, series atomic.Int64
	late                                              [8]atomic.Int64 // in ticks: under 1, 2, 4 ...
	worst                                             atomic.Int64
}

func main() {
	flag.Parse()
	before := memory()
	goroutines := runtime.NumGoroutine()
	w, err := timingwheel.New(timingwheel.Options{Tick: *tick, Concurrency: *workers})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%v on %d processors, %s, tick %v, %d goroutines with %d operations per second each\n",
		*length, runtime.GOMAXPROCS(0), runtime.Version(), *tick, *adders, *rate)
	var c tally
	start := time.Now()
	stop := make(chan struct{})
	series := addSeries(w, &c, start)
	var wait sync.WaitGroup
	for g := range *adders {
		wait.Go(func() { load(w, &c, start, uint64(g), stop) })
	}
	for left := *length; left > 0; left -= min(left, 30*time.Second) {
		time.Sleep(min(left, 30*time.Second))
		fmt.Printf("after %4.0f s: %d pending, %d goroutines, heap %d KiB, %d added, %d ran, %d canceled, %d early\n",
			time.Since(start).Seconds(), w.Len(), runtime.NumGoroutine(), memory()>>10, c.added.Load(), c.ran.Load(), c.canceled.Load(), c.early.Load())
	}
	close(stop)
	wait.Wait()
	for _, task := range series {
		w.Cancel(task)
	}
	for w.Len() > 0 { // the rest falls due within the longest delay
		time.Sleep(time.Second)
	}
	bad := verdict(w, &c, before, goroutines)
	if err := w.Shutdown(context.Background()); err != nil || bad {
		os.Exit(1)
	}
}

// addSeries adds recurring tasks which check that run k is not before k periods.
func addSeries(w *timingwheel.Wheel, c *tally, start time.Time) (tasks []timingwheel.Task) {
	for n := range 50 {
		period := time.Duration(n+1) * 37 * time.Millisecond
		first := time.Since(start)
		runs := 0
		task, err := w.AddEvery(period, func() {
			runs++ // runs of one task never overlap
			c.series.Add(1)
			if time.Since(start)-first < time.Duration(runs)*period {
				c.early.Add(1)
			}
		})
		if err != nil {
			panic(err)
		}
		tasks = append(tasks, task)
	}
	return tasks
}

// load adds, cancels and resets tasks until it is stopped, and then waits for its
// own to end, so that it can tell whether each did so once.
func load(w *timingwheel.Wheel, c *tally, start time.Time, seed uint64, stop <-chan struct{}) {
	rng := rand.New(rand.NewPCG(seed, 1))
	delay := func() time.Duration {
		if rng.IntN(10) == 0 {
			return 0
		}
		return time.Duration(rng.Int64N(int64(*longest)))
	}
	var ring [1 << 15]*record // tasks to cancel or reset
	keys := timingwheel.NewKeyed(w, func(uint64) { c.keyed.Add(1) })
	for n := 0; ; n++ {
		if n%100 == 0 {
			select {
			case <-stop:
				return
			default:
				// 100 operations at a time, at the given rate
				time.Sleep(100 * time.Second / time.Duration(*rate))
			}
		}
		r := ring[rng.IntN(len(ring))]
		switch op := rng.IntN(10); {
		case op < 3 && r != nil:
			if w.Cancel(r.task) {
				c.canceled.Add(1)
				if r.canceled.Add(1)+r.ran.Load() != 1 {
					panic("a task was cancelled that had ended")
				}
			}
		case op < 5 && r != nil:
			// It must run at neither time early, whether or not Reset comes too late.
			d := delay()
			r.moved.Store(true)
			r.deadline.Store(min(r.deadline.Load(), int64(time.Since(start)+d)))
			if w.Reset(r.task, d) {
				c.reset.Add(1)
			}
		case op == 5:
			_ = keys.Add(uint64(rng.IntN(1000)), delay())
		case op == 6:
			keys.Cancel(uint64(rng.IntN(1000)))
		default:
			ring[rng.IntN(len(ring))] = add(w, c, start, delay())
		}
	}
}

func add(w *timingwheel.Wheel, c *tally, start time.Time, d time.Duration) *record {
	r := &record{}
	r.deadline.Store(int64(time.Since(start) + d))
	task, err := w.Add(d, func() {
		now := int64(time.Since(start))
		if r.ran.Add(1)+r.canceled.Load() != 1 {
			panic("a task ran that had ended")
		}
		c.ran.Add(1)
		late := now - r.deadline.Load()
		if late < 0 {
			c.early.Add(1)
		}
		if r.moved.Load() {
			return
		}
		n := 0
		for ticks := late / int64(*tick); ticks > 0 && n < len(c.late)-1; ticks >>= 1 {
			n++
		}
		c.late[n].Add(1)
		for worst := c.worst.Load(); late > worst && !c.worst.CompareAndSwap(worst, late); {
			worst = c.worst.Load()
		}
	})
	if err != nil {
		panic(err)
	}
	r.task = task
	c.added.Add(1)
	return r
}

func verdict(w *timingwheel.Wheel, c *tally, before uint64, goroutines int) (bad bool) {
	check := func(ok bool, format string, args ...any) {
		verdict := "ok"
		if !ok {
			verdict, bad = "WRONG", true
		}
		fmt.Printf("%-6s%s\n", verdict, fmt.Sprintf(format, args...))
	}
	w.Sync()
	added, ran, canceled := c.added.Load(), c.ran.Load(), c.canceled.Load()
	check(c.early.Load() == 0, "%d early", c.early.Load())
	check(added == ran+canceled, "%d added = %d ran + %d canceled; %d resets", added, ran, canceled, c.reset.Load())
	s := w.Stats()
	check(s.Fired == uint64(ran+c.keyed.Load()+c.series.Load()), "%d fired: %d tasks, %d keys, %d runs of series", s.Fired, ran, c.keyed.Load(), c.series.Load())
	fmt.Printf("      lateness after the deadline asked for, in ticks: ")
	for n := range c.late {
		fmt.Printf(" under %d: %d;", 1<<n, c.late[n].Load())
	}
	fmt.Printf(" worst %v\n", time.Duration(c.worst.Load()))
	fmt.Printf("      after the due tick: worst %v; %d wakeups, %d moved by cascades\n", s.MaxLateness, s.Wakeups, s.Moved)
	for range 100 { // workers that are about to end
		if runtime.NumGoroutine() > goroutines {
			runtime.Gosched()
		}
	}
	check(runtime.NumGoroutine() <= goroutines, "%d goroutines, %d at the start", runtime.NumGoroutine(), goroutines)
	after := memory()
	check(after < before+1<<20, "heap %d KiB, %d KiB at the start", after>>10, before>>10)
	return bad
}

func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
