package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/fee15284/timingwheel"
)

// costs fills timers, measures every operation that is measured with so many
// pending, and empties them again: one fill serves all, since making 10M timeouts
// takes longer than measuring.
func costs[H any, T timers[H]](b *bench, impl string, t T, pending int) {
	defer t.close()
	name := func(what string) string { return fmt.Sprintf("%s/impl=%s/pending=%d", what, impl, pending) }
	empty := heapInUse()
	handles := fillCounting[H](b, name, t, pending)

	b.collect(name("GC"))
	b.timed(name("AddCancel"), func(from, n int) {
		for i := from; i < from+n; i++ {
			t.cancel(t.add(delay(i), callback(i)))
		}
	})
	if w, ok := any(t).(wheelTimers); ok {
		addAt(b, name("AddAtCancel"), w)
	}
	nsPerOp, n := b.parallel(runtime.GOMAXPROCS(0), b.window, func(g, from, n int) {
		for i := from; i < from+n; i++ {
			t.cancel(t.add(delay(i+g<<20), callback(i)))
		}
	})
	b.record(name("AddCancelParallel"), n, metric{"ns/op", nsPerOp})
	resetOne[H](b, name("Reset"), t)
	cancelRandom(b, name("CancelRandomAdd"), t, handles)

	for _, h := range handles {
		t.cancel(h)
	}
	handles = nil
	b.record(name("AfterBurst"), pending, metric{"B/task", (heapInUse() - empty) / float64(pending)})
	runtime.KeepAlive(t)
}

// fillCounting adds n tasks and records the time and the memory of each beside its
// closure and handle, which exist before.
func fillCounting[H any, T timers[H]](b *bench, name func(string) string, t T, n int) []H {
	callbacks := closures(n)
	handles := make([]H, n)
	before := heapInUse()
	begin := time.Now()
	for i := range handles {
		handles[i] = t.add(delay(i), callbacks[i])
	}
	nsPerOp := float64(time.Since(begin).Nanoseconds()) / float64(n)
	b.record(name("Add"), n, metric{"ns/op", nsPerOp})
	b.record(name("Memory"), n, metric{"B/task", (heapInUse() - before) / float64(n)})
	runtime.KeepAlive(callbacks)
	return handles
}

// addAt measures the wheel where the caller has the time at hand.
func addAt(b *bench, name string, w wheelTimers) {
	now := time.Now()
	b.timed(name, func(from, n int) {
		for i := from; i < from+n; i++ {
			task, err := w.AddAt(now.Add(delay(i)), callback(i))
			if err != nil {
				panic(err)
			}
			w.Cancel(task)
		}
	})
}

// resetOne moves one pending task, each time to a little later.
func resetOne[H any, T timers[H]](b *bench, name string, t T) {
	h := t.add(delay(0), callback(0))
	b.timed(name, func(from, n int) {
		for i := from; i < from+n; i++ {
			t.reset(h, delay(0)+time.Duration(i))
		}
	})
	t.cancel(h)
}

// cancelRandom takes back a random one of those pending, and adds another.
func cancelRandom[H any, T timers[H]](b *bench, name string, t T, handles []H) {
	r := rand.New(rand.NewPCG(1, 2))
	b.timed(name, func(from, n int) {
		for i := from; i < from+n; i++ {
			h := &handles[r.IntN(len(handles))]
			t.cancel(*h)
			*h = t.add(delay(i), callback(i))
		}
	})
}

// floor measures the least that adding and cancelling can cost with this interface
// (the closure, one reading of the clock, and two lock pairs that nobody contends
// for), the same without the locks, one reading of the clock, and a collection of
// the closures and handles that there are in any case with 1M tasks pending.
func floor(b *bench) {
	var mu sync.Mutex
	var kept func()
	var sum time.Duration
	start := time.Now()
	b.timed("Floor/impl=locks+closure+clock", func(from, n int) {
		for i := from; i < from+n; i++ {
			fn := callback(i)
			sum += time.Since(start) + delay(i)
			mu.Lock()
			kept = fn
			mu.Unlock()
			mu.Lock()
			kept = nil
			mu.Unlock()
		}
	})
	b.timed("Floor/impl=closure+clock", func(from, n int) {
		for i := from; i < from+n; i++ {
			kept = callback(i)
			sum += time.Since(start) + delay(i)
		}
	})
	b.timed("Floor/impl=clock", func(from, n int) {
		for range n {
			sum += time.Since(start)
		}
	})
	orders.Add(int64(sum))
	runtime.KeepAlive(kept)
	callbacks := closures(b.scaled(million))
	handles := make([]timingwheel.Task, len(callbacks))
	runtime.GC()
	b.collect("Floor/impl=GC")
	runtime.KeepAlive(callbacks)
	runtime.KeepAlive(handles)
}

// pendings are the numbers of pending tasks with which operations are measured.
func (b *bench) pendings() []int {
	return []int{b.scaled(10_000), b.scaled(100_000), b.scaled(1_000_000), b.scaled(10_000_000)}
}

// runCosts measures all that is counted per operation.
func runCosts(b *bench) {
	for _, pending := range b.pendings() {
		var experiments []func()
		for _, c := range contenders() {
			left := b.rounds
			if c.name == "gozero" && pending > b.scaled(million) {
				left = min(left, 2) // each takes a minute, and no target refers to it
			}
			experiments = append(experiments, func() {
				if left--; left >= 0 {
					c.costs(b, pending)
				}
			})
		}
		if pending == b.scaled(million) {
			experiments = append(experiments, func() { floor(b) })
		}
		b.interleave(fmt.Sprintf("operations with %d pending", pending), b.rounds, experiments...)
	}
}
