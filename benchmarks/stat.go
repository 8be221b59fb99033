package main

import (
	"math"
	"slices"
)

// A sample is what one figure was in each count of a run.
type sample []float64

func (s sample) sorted() sample {
	s = slices.Clone(s)
	slices.Sort(s)
	return s
}

// median is the middle value, or the mean of the two; NaN of no values.
func (s sample) median() float64 {
	s = s.sorted()
	switch n := len(s); {
	case n == 0:
		return math.NaN()
	case n%2 == 1:
		return s[n/2]
	default:
		return (s[n/2-1] + s[n/2]) / 2
	}
}

func (s sample) min() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return slices.Min(s)
}

func (s sample) max() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return slices.Max(s)
}

// A ratio compares two samples whose counts were taken in turn.
type ratio struct {
	value     float64 // of the medians
	low, high float64 // the smallest and largest of the counts' own ratios
}

// ratioOf compares a to b. The spread pairs count i of a with count i of b, which
// ran next to each other and so had the same neighbours on the machine.
func ratioOf(a, b sample) ratio {
	r := ratio{value: a.median() / b.median(), low: math.NaN(), high: math.NaN()}
	for i := range min(len(a), len(b)) {
		q := a[i] / b[i]
		if i == 0 {
			r.low, r.high = q, q
		}
		r.low, r.high = min(r.low, q), max(r.high, q)
	}
	return r
}

// percentile returns the smallest of sorted values that at least q of all do not
// exceed, with q from 0 to 1: the nearest-rank rule, so that it is a value that
// occurred, and percentile(…, 1) the largest.
func percentile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	rank := int(math.Ceil(q*float64(len(sorted)) - 1e-9))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// quantiles are those that a distribution is recorded by, from the smallest value
// to the largest; the unit of each is its name.
var quantiles = []struct {
	name string
	q    float64
}{
	{"min-ns", 0}, {"p5-ns", 0.05}, {"p10-ns", 0.10}, {"p25-ns", 0.25}, {"p50-ns", 0.50},
	{"p75-ns", 0.75}, {"p90-ns", 0.90}, {"p95-ns", 0.95}, {"p99-ns", 0.99}, {"p99.9-ns", 0.999}, {"p99.99-ns", 0.9999}, {"max-ns", 1},
}

// distribution returns the quantiles of durations in ns, which it sorts.
func distribution(ns []float64) []metric {
	slices.Sort(ns)
	metrics := make([]metric, len(quantiles))
	for i, q := range quantiles {
		metrics[i] = metric{q.name, percentile(ns, q.q)}
	}
	return metrics
}
