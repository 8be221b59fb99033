package main

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/fee15284/timingwheel"
)

// unpaid is the share of orders that nobody pays, in percent: their timeout fires.
const unpaid = 5

// A shelf holds some of the pending orders. One goroutine at a time works on it.
type shelf[H any, T timers[H]] struct {
	mu     sync.Mutex
	orders []order[H, T]
}

type order[H any, T timers[H]] struct {
	timeout H
	on      T
}

// renew cancels the timeout of an order, and puts a new order in its place.
func (o *order[H, T]) renew(t T, n int) {
	o.on.cancel(o.timeout)
	o.timeout, o.on = t.add(delay(n), callback(n)), t
}

// mix keeps 100K orders pending and lets all processors work on them. An order is
// one operation: it is added, and 95 of 100 are cancelled when a later one happens
// to take their place, which is after a random while; the other 5 fire some 10 to
// 50 ms later. Where there are several timers, goroutine g adds to those with that
// number. Either each goroutine works on orders of its own, or (handed) on those of
// another shelf after each batch, so that any goroutine cancels what any has added.
func mix[H any, T timers[H]](b *bench, name string, handed bool, ts ...T) {
	procs := runtime.GOMAXPROCS(0)
	shelves := make([]shelf[H, T], procs)
	if handed {
		shelves = make([]shelf[H, T], 16*procs)
	}
	random := make([]*rand.Rand, procs)
	for g := range random {
		random[g] = rand.New(rand.NewPCG(uint64(g), 1))
	}
	for s := range shelves {
		t := ts[s%len(ts)]
		for i := range b.scaled(100_000) / len(shelves) {
			shelves[s].orders = append(shelves[s].orders, order[H, T]{t.add(delay(i), callback(i)), t})
		}
	}
	body := func(g, from, n int) {
		r, t, s := random[g], ts[g%len(ts)], &shelves[g]
		if handed {
			s = &shelves[r.IntN(len(shelves))]
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		for i := from; i < from+n; i++ {
			if r.IntN(100) < unpaid {
				t.add(10*time.Millisecond+time.Duration(r.IntN(40_000))*time.Microsecond, callback(i))
			} else {
				s.orders[r.IntN(len(s.orders))].renew(t, i)
			}
		}
	}
	b.parallel(procs, 2*b.window, body) // until the state is steady
	gc, all := collectorCPU()
	nsPerOp, n := b.parallel(procs, 10*b.window, body)
	gcAfter, allAfter := collectorCPU()
	b.record(name, n, metric{"ns/op", nsPerOp}, metric{"orders/s", 1e9 / nsPerOp},
		metric{"gc-cpu-%", 100 * (gcAfter - gc) / (allAfter - all)})
	for s := range shelves {
		for _, o := range shelves[s].orders {
			o.on.cancel(o.timeout)
		}
	}
	time.Sleep(100 * time.Millisecond) // the last orders fire
	for _, t := range ts {
		t.close()
	}
}

// collectorCPU returns the CPU seconds spent in the garbage collector, and in all
// but idling. The runtime counts them at the end of a collection, so there is one.
func collectorCPU() (gc, all float64) {
	runtime.GC()
	return readMetric("/cpu/classes/gc/total:cpu-seconds"),
		readMetric("/cpu/classes/total:cpu-seconds") - readMetric("/cpu/classes/idle:cpu-seconds")
}

// runMix measures all contenders, and a wheel for each goroutine, with orders that
// stay with their goroutine and with orders that are handed about.
func runMix(b *bench) {
	var experiments []func()
	for _, handed := range []bool{false, true} {
		for _, c := range contenders() {
			experiments = append(experiments, func() { c.mix(b, handed) })
		}
		experiments = append(experiments, func() {
			mix[timingwheel.Task](b, mixName("own", handed), handed, openWheels(runtime.GOMAXPROCS(0), mixTick)...)
		})
	}
	b.interleave("order mix", b.rounds, experiments...)
}

const mixTick = 10 * time.Millisecond

func mixName(impl string, handed bool) string {
	if handed {
		return "OrderMixHanded/impl=" + impl
	}
	return "OrderMix/impl=" + impl
}
