package main

import (
	"fmt"
	"math"
)

// A model says what a load of adding and cancelling would do on more processors
// than the machine has. It knows three things that were measured and makes two
// assumptions: a lock that is wanted by all hands over as fast as it did here, and
// time.AfterFunc, which has a heap per processor, scales without loss.
type model struct {
	outside float64 // ns of an add and a cancel outside the lock
	hold    float64 // ns of them inside, with the lock's own instructions
	handed  float64 // ns per add and cancel when goroutines queue for the lock
	after   float64 // ns of processor time per AfterFunc and Stop
}

func newModel(r *results) model {
	contended := func(impl string) float64 {
		return r.sample(fmt.Sprintf("Contention/impl=%s/goroutines=%d", impl, 16*r.procs), "ns/op").median()
	}
	outside := r.sample("Floor/impl=closure+clock", "ns/op").median()
	alone := r.cost("AddCancel", "wheel", 100_000).median()
	return model{
		outside: outside,
		hold:    alone - outside,
		handed:  max(contended("wheel"), alone-outside),
		after:   contended("afterfunc") * float64(r.procs),
	}
}

// wheels returns millions of adds and cancels a second on so many processors with
// tasks spread over so many wheels, if the program does work ns besides each time.
func (m model) wheels(wheels, procs int, work float64) float64 {
	free := float64(procs) / (work + m.outside + m.hold)
	return 1e3 * math.Min(free, float64(wheels)/m.handed)
}

// afterFunc returns the same for the runtime's timers.
func (m model) afterFunc(procs int, work float64) float64 {
	return 1e3 * float64(procs) / (work + m.after)
}

func modelTable(r *results) string {
	m := newModel(r)
	rows := [][]string{{"MODEL: million add+cancel per second", "2 processors", "16 processors", "64 processors"}}
	for _, work := range []float64{0, 5000} {
		besides := fmt.Sprintf(", %g µs of other work each", work/1e3)
		if work == 0 {
			besides = ", nothing else"
		}
		for _, wheels := range []int{1, 4, 16} {
			row := []string{fmt.Sprintf("wheels: %d%s", wheels, besides)}
			for _, procs := range []int{2, 16, 64} {
				row = append(row, fmt.Sprintf("%.1f", m.wheels(wheels, procs, work)))
			}
			rows = append(rows, row)
		}
		row := []string{"time.AfterFunc" + besides}
		for _, procs := range []int{2, 16, 64} {
			row = append(row, fmt.Sprintf("%.1f", m.afterFunc(procs, work)))
		}
		rows = append(rows, row)
	}
	return fmt.Sprintf("Put in: %.0f ns outside the lock, %.0f ns inside (both calls together), %.0f ns between handings-over "+
		"of a lock that is queued for, %.0f ns of a processor for AfterFunc and Stop.\n\n%s", m.outside, m.hold, m.handed, m.after, table(rows))
}

// contentionTable lists what was measured and not modelled.
func contentionTable(r *results) string {
	list := []impl{{"wheel", "one wheel"}, {"wheels-2", "2 wheels by order number"}, {"wheels-4", "4 wheels"},
		{"wheels-8", "8 wheels"}, {"wheels-8-own", "8 wheels, each goroutine keeps to one"}, {"afterfunc", "time.AfterFunc"}}
	rows := [][]string{{"add+cancel: ns, and ns of waiting for locks"}}
	for _, factor := range []int{1, 4, 16} {
		rows[0] = append(rows[0], fmt.Sprintf("%d goroutines", factor*r.procs), "waiting")
	}
	for _, c := range list {
		row := []string{c.title}
		for _, factor := range []int{1, 4, 16} {
			name := fmt.Sprintf("Contention/impl=%s/goroutines=%d", c.name, factor*r.procs)
			row = append(row, spread1("%.0f", r.sample(name, "ns/op")), spread1("%.0f", r.sample(name, "wait-ns/op")))
		}
		rows = append(rows, row)
	}
	return table(rows)
}
