package main

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
)

// A sampler times calls of add from one goroutine, one every few microseconds,
// while other things happen to the timers. Each task is cancelled again.
type sampler struct {
	add func() (cancel func())
	ns  []float64
}

const pace = 5 * time.Microsecond

// sample times calls from an instant on until done reports true, which is asked now
// and then.
func (s *sampler) sample(from time.Time, done func() bool) []float64 {
	s.ns = s.ns[:0]
	time.Sleep(time.Until(from))
	for next := time.Now(); ; next = next.Add(pace) {
		for time.Until(next) > 0 {
		}
		begin := time.Now()
		cancel := s.add()
		s.ns = append(s.ns, float64(time.Since(begin)))
		cancel()
		if len(s.ns)%64 == 0 && done() {
			return s.ns
		}
	}
}

// addLatency times calls of add with 1M tasks pending: while nothing else happens;
// while, in a wheel, all of them move to a finer ring; and while all of them fall
// due at one instant.
//
// With a tick of 1 ms the finest ring of the wheel is a second long. The tasks are
// due 950 ms after the beginning of a second of the wheel, at which they move.
func addLatency[H any, T timers[H]](b *bench, impl string, t T) {
	defer t.close()
	n := b.scaled(1_000_000)
	opened := time.Now()
	second, fired := addAhead[H](t, opened, n)
	s := sampler{ns: make([]float64, 0, 1<<18), add: func() func() {
		h := t.add(delay(0), callback(1))
		return func() { t.cancel(h) }
	}}
	put := func(phase string, ns []float64) {
		b.record(fmt.Sprintf("AddLatency/impl=%s/phase=%s", impl, phase), len(ns), distribution(ns)...)
	}
	quiet := time.Now().Add(300 * time.Millisecond)
	put("quiet", s.sample(time.Now(), func() bool { return time.Now().After(quiet) }))
	if w, ok := any(t).(wheelTimers); ok {
		moved := w.moved() + n
		put("cascade", s.sample(second.Add(-time.Millisecond), func() bool { return w.moved() >= moved }))
	}
	due := second.Add(untilDue - time.Millisecond)
	put("due", s.sample(due, func() bool { return fired.Load() >= int64(n) }))
}

// untilDue is when in its second a task of addAhead is due.
const untilDue = 950 * time.Millisecond

// addAhead adds n tasks that are due in one second, counted from the opening of the
// timers, and returns its beginning and a count of those that have run. If adding
// takes until half a second before that, it waits for them to run and tries again.
func addAhead[H any, T timers[H]](t T, opened time.Time, n int) (second time.Time, fired *atomic.Int64) {
	for lead := 2 * time.Second; ; lead *= 2 {
		second = opened.Add((time.Since(opened) + lead).Truncate(time.Second))
		due, fired := second.Add(untilDue), new(atomic.Int64)
		for i := range n {
			t.add(time.Until(due), func() { orders.Add(int64(i)); fired.Add(1) })
		}
		runtime.GC()
		if time.Until(second) > 500*time.Millisecond {
			return second, fired
		}
		for fired.Load() < int64(n) {
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// lateness adds 20K tasks a second for some seconds and records by how much later
// than asked their callbacks start.
func lateness[H any, T timers[H]](b *bench, impl string, t T) {
	const perMilli = 20
	seconds := 3
	if b.quick {
		seconds = 1
	}
	millis := seconds * 1000
	late := make([]float64, millis*perMilli)
	var left atomic.Int64
	left.Store(int64(len(late)))
	done := make(chan struct{})
	start := time.Now()
	for i := range late {
		if i%perMilli == 0 {
			time.Sleep(time.Until(start.Add(time.Duration(i/perMilli) * time.Millisecond)))
		}
		d := 20*time.Millisecond + time.Duration(scatter(i, 980_000))*time.Microsecond
		want := time.Since(start) + d
		t.add(d, func() {
			late[i] = float64(time.Since(start) - want)
			if left.Add(-1) == 0 {
				close(done)
			}
		})
	}
	<-done
	t.close()
	early := 0
	for _, ns := range late {
		if ns < 0 {
			early++
		}
	}
	b.record("Lateness/impl="+impl, len(late),
		append(distribution(late), metric{"early-%", 100 * float64(early) / float64(len(late))})...)
}

func runLatency(b *bench) {
	var adds, starts []func()
	for _, c := range contenders() {
		starts = append(starts, func() { c.lateness(b) })
		if c.name != "gozero" { // it hands tasks over and returns: there is no latency to compare
			adds = append(adds, func() { c.addLatency(b) })
		}
	}
	b.interleave("latency of Add", b.rounds, adds...)
	b.interleave("lateness", b.rounds, starts...)
}
