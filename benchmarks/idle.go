package main

import (
	"runtime"
	"syscall"
	"time"
)

// idle lets time pass and records what that costs the process. wakeups may be nil.
func idle(b *bench, state string, wakeups func() uint64) {
	runtime.GC()
	time.Sleep(b.window) // what collected garbage comes to rest
	before, begin := processCPU(), time.Now()
	var woken uint64
	if wakeups != nil {
		woken = wakeups()
	}
	time.Sleep(10 * b.window)
	metrics := []metric{{"cpu-µs/s", float64((processCPU() - before).Microseconds()) / time.Since(begin).Seconds()}}
	if wakeups != nil {
		metrics = append(metrics, metric{"wakeups", float64(wakeups() - woken)})
	}
	b.record("Idle/state="+state, 1, metrics...)
}

// processCPU returns the processor time that the process has used.
func processCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func runIdle(b *bench) {
	wheel := func(state string, tasks int) {
		w := openWheel(10 * time.Millisecond)
		for range tasks {
			w.add(time.Hour, callback(1))
		}
		idle(b, state, func() uint64 { return w.Stats().Wakeups })
		w.close()
	}
	b.interleave("idle", b.rounds,
		func() { idle(b, "no-timers", nil) },
		func() { wheel("wheel-empty", 0) },
		func() { wheel("wheel-one-task-in-an-hour", 1) },
		func() {
			g := openGoZero(10 * time.Millisecond)
			idle(b, "gozero-empty", nil)
			g.close()
		})
}
