package main

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/zeromicro/go-zero/core/collection"
	"github.com/zeromicro/go-zero/core/timex"
)

// A volley is many callbacks that run at about the same time, each of which does
// what a small callback does: it writes to memory of its own and counts.
type volley struct {
	start       time.Time
	seen        []int32
	begun       atomic.Bool
	left        atomic.Int64
	first, last time.Duration // when the first began and the last ended, since start
	done        chan struct{}
}

func newVolley(n int) *volley {
	v := &volley{start: time.Now(), seen: make([]int32, n), done: make(chan struct{})}
	v.left.Store(int64(n))
	return v
}

func (v *volley) callback(i int) func() {
	return func() {
		if !v.begun.Load() && v.begun.CompareAndSwap(false, true) {
			v.first = time.Since(v.start)
		}
		v.seen[i]++
		if v.left.Add(-1) == 0 {
			v.last = time.Since(v.start)
			close(v.done)
		}
	}
}

// record waits for the last callback and records what one took.
func (v *volley) record(b *bench, impl string) {
	<-v.done
	n := len(v.seen)
	b.record(fmt.Sprintf("FireAtOnce/impl=%s/due=%d", impl, n), n,
		metric{"ns/task", float64((v.last - v.first).Nanoseconds()) / float64(n)})
}

// fireAtOnce lets n callbacks fall due at one instant and measures from the first
// start to the last end. If adding takes longer than the time until then, it tries
// again with more time.
func fireAtOnce[H any, T timers[H]](b *bench, impl string, t T, n int) {
	defer t.close()
	for lead := 200*time.Millisecond + time.Duration(n)*time.Microsecond; ; lead *= 2 {
		v := newVolley(n)
		due := v.start.Add(lead)
		for i := range n {
			t.add(time.Until(due), v.callback(i))
		}
		runtime.GC()
		if time.Now().Before(due) {
			v.record(b, impl)
			return
		}
		<-v.done
	}
}

// goZeroAtOnce is fireAtOnce for go-zero's wheel with a ticker in the hand of the
// experiment: on a real one, callbacks with one due instant that are added at
// different times can fall into two ticks.
func goZeroAtOnce(b *bench, n int) {
	ticker := timex.NewFakeTicker()
	w, err := collection.NewTimingWheelWithTicker(time.Second, goZeroSlots, runValue, ticker)
	if err != nil {
		panic(err)
	}
	defer w.Stop()
	v := newVolley(n)
	for i := range n {
		if err := w.SetTimer(i, v.callback(i), time.Second); err != nil {
			panic(err)
		}
	}
	runtime.GC()
	ticker.Tick()
	v.record(b, "gozero")
}

// A stepClock is a clock that moves when it is told to. It starts no timers: the
// wheel's Sync looks at the clock.
type stepClock struct{ passed atomic.Int64 } // ns

func (c *stepClock) Now() time.Time { return time.Unix(0, c.passed.Load()) }

func (c *stepClock) AfterFunc(time.Duration, func()) timingwheel.Stopper { return unarmed{} }

type unarmed struct{}

func (unarmed) Stop() bool { return true }

// spread runs n callbacks that are spread over an hour, by one jump of the clock:
// each cascades from the minute wheel, and fires.
func spread(b *bench, n int) {
	clock := new(stepClock)
	inner, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(clock)})
	if err != nil {
		panic(err)
	}
	w := wheelTimers{inner}
	for i := range n {
		w.add(time.Duration(1+scatter(i, 3_599_999))*time.Millisecond, callback(i))
	}
	runtime.GC()
	begin := time.Now()
	clock.passed.Add(int64(time.Hour))
	w.Sync()
	b.record(fmt.Sprintf("JumpAnHour/impl=wheel/due=%d", n), n,
		metric{"ns/task", float64(time.Since(begin).Nanoseconds()) / float64(n)})
	w.Stop()
}

func runFire(b *bench) {
	million, ten := b.scaled(1_000_000), b.scaled(10_000_000)
	var experiments []func()
	for _, c := range contenders() {
		experiments = append(experiments, func() { c.fireAtOnce(b, million) })
	}
	b.interleave("callbacks due at one instant", b.rounds, experiments...)
	b.interleave("callbacks spread over an hour", b.rounds,
		func() { spread(b, million) }, func() { spread(b, ten) })
}
