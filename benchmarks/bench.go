package main

import (
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// A bench runs experiments and records what they measure.
type bench struct {
	results *results
	log     io.Writer
	quick   bool
	rounds  int           // counts of each experiment
	window  time.Duration // for how long an operation is repeated in one count
	started time.Time
}

// newBench returns a bench that takes so many counts; 0 means the default.
func newBench(quick bool, counts int, log io.Writer) *bench {
	b := &bench{
		results: &results{procs: runtime.GOMAXPROCS(0)},
		log:     log, quick: quick, rounds: 10, window: 100 * time.Millisecond, started: time.Now(),
	}
	if quick {
		b.rounds, b.window = 2, 10*time.Millisecond
	}
	if counts > 0 {
		b.rounds = counts
	}
	return b
}

// quickScale is what quick mode divides numbers of tasks by.
const quickScale = 100

// scaled returns n, or in quick mode a part of it.
func (b *bench) scaled(n int) int {
	if b.quick {
		return n / quickScale
	}
	return n
}

func (b *bench) record(name string, n int, metrics ...metric) {
	b.results.records = append(b.results.records, record{name, n, metrics})
}

// interleave takes all counts of some experiments: one of each, then again one of
// each, so that what the machine does besides falls on all of them.
func (b *bench) interleave(what string, counts int, experiments ...func()) {
	begin := time.Now()
	for count := range counts {
		if time.Since(begin) > 20*time.Second {
			fmt.Fprintf(b.log, "         count %d of %d: %s\n", count+1, counts, what)
		}
		for _, experiment := range experiments {
			runtime.GC()
			experiment()
		}
	}
	fmt.Fprintf(b.log, "%6.1fs  %s: %d counts of %d in %.1fs\n", time.Since(b.started).Seconds(),
		what, counts, len(experiments), time.Since(begin).Seconds())
}

// timed repeats an operation for the window and records what one costs. The body
// gets the number of its first operation and how many to do.
func (b *bench) timed(name string, body func(from, n int)) {
	const batch = 1024
	body(0, batch)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, begin := 0, time.Now()
	for time.Since(begin) < b.window {
		body(n, batch)
		n += batch
	}
	elapsed := time.Since(begin)
	runtime.ReadMemStats(&after)
	b.record(name, n,
		metric{"ns/op", float64(elapsed.Nanoseconds()) / float64(n)},
		metric{"B/op", float64(after.TotalAlloc-before.TotalAlloc) / float64(n)},
		metric{"allocs/op", float64(after.Mallocs-before.Mallocs) / float64(n)})
}

// parallel repeats an operation for a while on several goroutines and returns the
// wall time that one took, and how many there were. The body gets the number of
// its goroutine besides.
func (b *bench) parallel(goroutines int, d time.Duration, body func(g, from, n int)) (nsPerOp float64, total int) {
	const batch = 256
	var stop atomic.Bool
	var ops atomic.Int64
	var done sync.WaitGroup
	begin := time.Now()
	for g := range goroutines {
		done.Go(func() {
			n := 0
			for ; !stop.Load(); n += batch {
				body(g, n, batch)
			}
			ops.Add(int64(n))
		})
	}
	time.Sleep(d)
	stop.Store(true)
	done.Wait()
	total = int(ops.Load())
	return float64(time.Since(begin).Nanoseconds()) / float64(total), total
}

var orders atomic.Int64 // what callbacks do: count the order

// callback returns the closure of one order.
func callback(order int) func() { return func() { orders.Add(int64(order)) } }

// closures returns the closures of n orders.
func closures(n int) []func() {
	all := make([]func(), n)
	for i := range all {
		all[i] = callback(i)
	}
	return all
}

// collect records what a garbage collection takes.
func (b *bench) collect(name string) {
	begin := time.Now()
	runtime.GC()
	b.record(name, 1, metric{"ns/op", float64(time.Since(begin).Nanoseconds())})
}

// scatter spreads consecutive numbers over 0 … n-1.
func scatter(i, n int) int { return int(uint64(uint32(i)*2654435761) * uint64(n) >> 32) }

// delay returns 10 to 60 minutes.
func delay(i int) time.Duration {
	return 10*time.Minute + time.Duration(scatter(i, 3_000_000))*time.Millisecond
}

// heapInUse returns the bytes that are reachable.
func heapInUse() float64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
