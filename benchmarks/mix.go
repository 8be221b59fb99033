package main

import (
	"math/rand/v2"
	"runtime"
	"time"
)

// unpaid is the share of orders that nobody pays, in percent: their timeout fires.
const unpaid = 5

// mix keeps 100K orders pending and lets all processors work on them. An order is
// one operation: it is added, and 95 of 100 are cancelled when a later one happens
// to take their place, which is after a random while; the other 5 fire some 10 to
// 50 ms later.
func mix[H any, T timers[H]](b *bench, impl string, t T) {
	procs := runtime.GOMAXPROCS(0)
	pending := make([][]H, procs)
	random := make([]*rand.Rand, procs)
	for g := range pending {
		pending[g] = make([]H, b.scaled(100_000)/procs)
		random[g] = rand.New(rand.NewPCG(uint64(g), 1))
		for i := range pending[g] {
			pending[g][i] = t.add(delay(i), callback(i))
		}
	}
	body := func(g, from, n int) {
		orders, r := pending[g], random[g]
		for i := from; i < from+n; i++ {
			if r.IntN(100) < unpaid {
				t.add(10*time.Millisecond+time.Duration(r.IntN(40_000))*time.Microsecond, callback(i))
				continue
			}
			h := &orders[r.IntN(len(orders))]
			t.cancel(*h)
			*h = t.add(delay(i), callback(i))
		}
	}
	b.parallel(procs, 2*b.window, body) // until the state is steady
	gc, all := collectorCPU()
	nsPerOp, n := b.parallel(procs, 10*b.window, body)
	gcAfter, allAfter := collectorCPU()
	b.record("OrderMix/impl="+impl, n, metric{"ns/op", nsPerOp}, metric{"orders/s", 1e9 / nsPerOp},
		metric{"gc-cpu-%", 100 * (gcAfter - gc) / (allAfter - all)})
	for _, orders := range pending {
		for _, h := range orders {
			t.cancel(h)
		}
	}
	time.Sleep(100 * time.Millisecond) // the last orders fire
	t.close()
}

// collectorCPU returns the CPU seconds spent in the garbage collector, and in all
// but idling. The runtime counts them at the end of a collection, so there is one.
func collectorCPU() (gc, all float64) {
	runtime.GC()
	return readMetric("/cpu/classes/gc/total:cpu-seconds"),
		readMetric("/cpu/classes/total:cpu-seconds") - readMetric("/cpu/classes/idle:cpu-seconds")
}

func runMix(b *bench) {
	var experiments []func()
	for _, c := range contenders() {
		experiments = append(experiments, func() { c.mix(b) })
	}
	b.interleave("order mix", b.rounds, experiments...)
}
