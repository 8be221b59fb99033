package main

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A target is one line of what the library is measured by.
type target struct {
	what, limit string
	measured    string
	met         bool
}

// size is a number of tasks in this run, which was a fraction of it in quick mode.
func (r *results) size(n int) int {
	var scale int
	if _, err := fmt.Sscan(r.get("scale"), &scale); err != nil || scale < 1 {
		scale = 1
	}
	return n / scale
}

// cost returns the time of an operation with about so many tasks pending.
func (r *results) cost(what, impl string, pending int) sample {
	return r.sample(fmt.Sprintf("%s/impl=%s/pending=%d", what, impl, r.size(pending)), "ns/op")
}

func (q ratio) String() string { return fmt.Sprintf("%.2f (%.2f to %.2f)", q.value, q.low, q.high) }

// atMost is a target for the ratio of two samples.
func atMost(what string, limit float64, a, b sample) target {
	q := ratioOf(a, b)
	return target{what, fmt.Sprintf("<= %.2f", limit), q.String(), q.value <= limit}
}

const (
	million = 1_000_000
	vsAfter = " of AfterFunc+Stop"
)

// targets compares a run to what was asked for.
func targets(r *results) []target {
	list := operationTargets(r)
	list = append(list, firingTargets(r)...)
	list = append(list, memoryTargets(r)...)
	list = append(list, latencyTargets(r)...)
	list = append(list, idleTargets(r)...)
	return append(list, keyedTargets(r)...)
}

func operationTargets(r *results) []target {
	against := func(what, op string, limit float64) target {
		return atMost(what, limit, r.cost(op, "wheel", million), r.cost(op, "afterfunc", million))
	}
	floor := r.sample("Floor/impl=locks+closure+clock", "ns/op")
	allocs := r.sample(fmt.Sprintf("AddCancel/impl=wheel/pending=%d", r.size(million)), "allocs/op")
	beside := math.Round((allocs.median()-1)*100) / 100
	clock := r.sample("Floor/impl=clock", "ns/op").median()
	saved := r.cost("AddCancel", "wheel", million).median() - r.cost("AddAtCancel", "wheel", million).median()
	return []target{
		against("Add+Cancel, 1M pending, one goroutine:"+vsAfter, "AddCancel", 0.40),
		{"the same: allocations beside the closure", "0", fmt.Sprintf("%.2f", beside), beside == 0},
		atMost("the same: of the floor (the closure, one time.Since, two uncontended lock pairs)", 1.6,
			r.cost("AddCancel", "wheel", million), floor),
		atMost("the same, 10M against 10K pending", 1.25,
			r.cost("AddCancel", "wheel", 10*million), r.cost("AddCancel", "wheel", million/100)),
		against("the same from GOMAXPROCS goroutines:"+vsAfter, "AddCancelParallel", 0.80),
		{"AddAt+Cancel with a time the caller has: saves against Add+Cancel", "the clock reading (>= 0.8 of it)",
			fmt.Sprintf("%.1f ns; a reading takes %.1f ns", saved, clock), saved >= 0.8*clock},
		against("Reset of a pending task: of Timer.Reset", "Reset", 0.90),
		against("cancel a random one of 1M, add another:"+vsAfter, "CancelRandomAdd", 0.90),
	}
}

func firingTargets(r *results) []target {
	atOnce := func(impl string) sample {
		return r.sample(fmt.Sprintf("FireAtOnce/impl=%s/due=%d", impl, r.size(million)), "ns/task")
	}
	jump := func(n int) sample {
		return r.sample(fmt.Sprintf("JumpAnHour/impl=wheel/due=%d", r.size(n)), "ns/task")
	}
	mix := func(impl, unit string) sample { return r.sample(mixName(impl, false), unit) }
	faster := ratioOf(mix("wheel", "orders/s"), mix("afterfunc", "orders/s"))
	return []target{
		atMost("1M distinct callbacks due at one instant, until the last has run: of AfterFunc", 0.15, atOnce("wheel"), atOnce("afterfunc")),
		{"1M callbacks spread over an hour, fake clock, one jump: each", "<= 300 ns", spread1("%.0f ns", jump(million)), jump(million).median() <= 300},
		atMost("the same with 10M against 1M, each (linear is 1)", 1.25, jump(10*million), jump(million)),
		{"order mix, all processors: orders per second of AfterFunc's", ">= 1.5", faster.String(), faster.value >= 1.5},
		{"the same with a wheel for each goroutine", "reported", ratioOf(mix("own", "orders/s"), mix("afterfunc", "orders/s")).String(), true},
		{"the same: share of CPU in the collector", "reported", fmt.Sprintf("wheel %.1f %%, AfterFunc %.1f %%",
			mix("wheel", "gc-cpu-%").median(), mix("afterfunc", "gc-cpu-%").median()), true},
	}
}

func memoryTargets(r *results) []target {
	bytes := func(what, impl string) float64 {
		return r.sample(fmt.Sprintf("%s/impl=%s/pending=%d", what, impl, r.size(million)), "B/task").median()
	}
	held, kept := bytes("Memory", "wheel"), bytes("AfterBurst", "wheel")
	gc := atMost("one garbage collection, 1M pending: of AfterFunc", 0.20,
		r.cost("GC", "wheel", million), r.cost("GC", "afterfunc", million))
	gc.measured += fmt.Sprintf("; the closures alone %.2f",
		r.sample("Floor/impl=GC", "ns/op").median()/r.cost("GC", "afterfunc", million).median())
	return []target{
		{"memory per pending task beside the closure, 1M pending", "<= 40 B",
			fmt.Sprintf("%.1f B; AfterFunc %.1f B", held, bytes("Memory", "afterfunc")), held <= 40},
		{"the same after the burst", "back to the collector (<= 1 B)",
			fmt.Sprintf("%.2f B; AfterFunc %.2f B", kept, bytes("AfterBurst", "afterfunc")), kept <= 1},
		gc,
	}
}

func latencyTargets(r *results) []target {
	add := func(phase, unit string) sample {
		return r.sample("AddLatency/impl=wheel/phase="+phase, unit)
	}
	late := func(unit string) sample { return r.sample("Lateness/impl=wheel", unit) }
	long := func(phase string) string { return micros(add(phase, "max-ns").median()) }
	const tick = float64(10 * time.Millisecond)
	early := late("early-%").max()
	p99 := late("p99-ns").median()
	return []target{
		atMost("Add latency p99.99 while 1M tasks cascade: of quiet", 3, add("cascade", "p99.99-ns"), add("quiet", "p99.99-ns")),
		atMost("Add latency p99.99 while 1M fall due: of quiet", 3, add("due", "p99.99-ns"), add("quiet", "p99.99-ns")),
		{"the same, longest", "reported", fmt.Sprintf("quiet %s, cascade %s, due %s", long("quiet"), long("cascade"), long("due")), true},
		{"lateness at 20K adds/s, tick 10 ms: never early", "0 early", fmt.Sprintf("%g %% early", early), early == 0},
		{"the same, p99", "<= one tick + 1 ms", fmt.Sprintf("p50 %s, p99 %s, max %s", millis(late("p50-ns").median()),
			millis(p99), millis(late("max-ns").max())), p99 <= tick+float64(time.Millisecond)},
	}
}

func idleTargets(r *results) []target {
	var list []target
	none := r.sample("Idle/state=no-timers", "cpu-µs/s").median()
	for _, state := range []string{"empty", "one-task-in-an-hour"} {
		name := "Idle/state=wheel-" + state
		woken := r.sample(name, "wakeups").max()
		list = append(list, target{"idle, " + strings.ReplaceAll(state, "-", " "), "0 wake-ups",
			fmt.Sprintf("%g wake-ups; CPU %.0f µs/s, a process without timers %.0f", woken, r.sample(name, "cpu-µs/s").median(), none), woken == 0})
	}
	return list
}

func keyedTargets(r *results) []target {
	figure := func(impl, unit string) sample {
		return r.sample(fmt.Sprintf("Keyed/impl=%s/pending=%d", impl, r.size(million)), unit)
	}
	wheel, after := figure("wheel", "B/task").median(), figure("afterfunc", "B/task").median()
	return []target{
		atMost("Keyed.Add+Cancel, string keys, 1M pending: of AfterFunc+Stop and a guarded map", 1.5, figure("wheel", "ns/op"), figure("afterfunc", "ns/op")),
		{"the same: memory per key", "less", fmt.Sprintf("%.0f B; %.0f B", wheel, after), wheel < after},
	}
}

func micros(ns float64) string { return fmt.Sprintf("%.1f µs", ns/1e3) }
func millis(ns float64) string { return fmt.Sprintf("%.2f ms", ns/1e6) }

// targetTable renders the targets.
func targetTable(r *results) string {
	rows := [][]string{{"what", "target", "measured", "met"}}
	for _, t := range targets(r) {
		met := "**no**"
		if t.met {
			met = "yes"
		}
		rows = append(rows, []string{t.what, t.limit, t.measured, met})
	}
	return table(rows)
}
