package main

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/fee15284/timingwheel"
)

// contend adds and cancels on several goroutines, with 100K pending, and records
// what an operation takes and how long goroutines waited for locks. Where there are
// several timers, pick says on which an order of a goroutine is.
func contend[H any, T timers[H]](b *bench, impl string, goroutines int, pick func(g, i int) int, ts ...T) {
	handles := make([]H, b.scaled(100_000))
	for i := range handles {
		handles[i] = ts[i%len(ts)].add(delay(i), callback(i))
	}
	runtime.GC()
	waited := readMetric("/sync/mutex/wait/total:seconds")
	nsPerOp, n := b.parallel(goroutines, 2*b.window, func(g, from, n int) {
		for i := from; i < from+n; i++ {
			t := ts[pick(g, i)%len(ts)]
			t.cancel(t.add(delay(i+g<<20), callback(i)))
		}
	})
	waited = readMetric("/sync/mutex/wait/total:seconds") - waited
	b.record(fmt.Sprintf("Contention/impl=%s/goroutines=%d", impl, goroutines), n,
		metric{"ns/op", nsPerOp}, metric{"wait-ns/op", waited * 1e9 / float64(n)})
	for i, h := range handles {
		ts[i%len(ts)].cancel(h)
	}
	for _, t := range ts {
		t.close()
	}
}

func byOrder(g, i int) int     { return g + i }
func byGoroutine(g, _ int) int { return g }

// runContention measures the wheel, the runtime's timers, and several wheels, picked
// by the number of the order or of the goroutine, with as many goroutines as
// processors and with more.
func runContention(b *bench) {
	var experiments []func()
	for _, factor := range []int{1, 4, 16} {
		g := factor * runtime.GOMAXPROCS(0)
		for _, c := range contenders()[:2] {
			experiments = append(experiments, func() { c.contend(b, g) })
		}
		for _, wheels := range []int{2, 4, 8} {
			experiments = append(experiments, func() {
				contend[timingwheel.Task](b, fmt.Sprintf("wheels-%d", wheels), g, byOrder, openWheels(wheels, time.Second)...)
			})
		}
		experiments = append(experiments, func() {
			contend[timingwheel.Task](b, "wheels-8-own", g, byGoroutine, openWheels(8, time.Second)...)
		})
	}
	b.interleave("contention", b.rounds, experiments...)
	b.interleave("mutex profile", 1, func() { profileMutex(b) })
}

// profileMutex takes the mutex profile of a mixed load with four goroutines per
// processor, and records which share of all waiting each method's unlocking ended.
func profileMutex(b *bench) {
	w := openWheel(10 * time.Millisecond)
	before := waitingByMethod()
	defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(1))
	_, n := b.parallel(4*runtime.GOMAXPROCS(0), 10*b.window, func(g, from, n int) {
		for i := from; i < from+n; i++ {
			task := w.add(time.Duration(scatter(i, 100))*time.Millisecond, callback(i))
			if i%20 != 0 { // 5 % fire
				w.Reset(task, delay(i+g<<20))
				w.cancel(task)
			}
		}
	})
	var sum float64
	after := waitingByMethod()
	for method, cycles := range after {
		after[method] = cycles - before[method]
		sum += after[method]
	}
	for _, method := range []string{"Add", "Cancel", "Reset", "next", "catchUp", "other"} {
		b.record("MutexProfile/method="+method, n, metric{"%-of-waiting", 100 * after[method] / sum})
	}
	w.close()
}

// waitingByMethod sums the mutex profile, which knows of goroutines that were parked
// but not of those that wait awake, by the method of the package that held
// the lock. Those that are not asked for count as other.
func waitingByMethod() map[string]float64 {
	records := make([]runtime.BlockProfileRecord, 1000)
	n, _ := runtime.MutexProfile(records)
	sums := map[string]float64{}
	for _, r := range records[:n] {
		sums[lockHolder(r.Stack())] += float64(r.Cycles)
	}
	return sums
}

func lockHolder(stack []uintptr) string {
	frames := runtime.CallersFrames(stack)
	for {
		frame, more := frames.Next()
		if name, ok := strings.CutPrefix(frame.Function, "github.com/fee15284/timingwheel."); ok {
			if strings.HasPrefix(name, "(*lock).") {
				continue
			}
			name = name[strings.LastIndexByte(name, '.')+1:]
			switch name {
			case "Add", "Cancel", "Reset", "next", "catchUp":
				return name
			case "breathe":
				return "catchUp"
			}
			return "other"
		}
		if !more {
			return "other"
		}
	}
}

// readMetric returns a metric of the runtime that is a number of seconds.
func readMetric(name string) float64 {
	s := []metrics.Sample{{Name: name}}
	metrics.Read(s)
	return s[0].Value.Float64()
}
