package main

import (
	"math"
	"testing"
)

func TestMedianOfOddAndEvenCounts(t *testing.T) {
	for _, c := range []struct {
		s    sample
		want float64
	}{{sample{3}, 3}, {sample{9, 1, 5}, 5}, {sample{4, 1, 3, 2}, 2.5}} {
		if got := c.s.median(); got != c.want {
			t.Errorf("median of %v = %v, want %v", c.s, got, c.want)
		}
	}
	if s := (sample{}); !math.IsNaN(s.median()) || !math.IsNaN(s.min()) || !math.IsNaN(s.max()) {
		t.Error("figures of nothing must be NaN")
	}
}

func TestMedianLeavesTheSampleInOrder(t *testing.T) {
	s := sample{3, 1, 2}
	s.median()
	if s[0] != 3 || s[1] != 1 {
		t.Errorf("sample is %v after median", s)
	}
}

func TestRatioIsOfMediansAndItsSpreadOfPairs(t *testing.T) {
	q := ratioOf(sample{1, 2, 9}, sample{4, 4, 6})
	if q.value != 0.5 || q.low != 0.25 || q.high != 1.5 {
		t.Errorf("ratio = %+v, want 0.5 from 0.25 to 1.5", q)
	}
	if q := ratioOf(nil, sample{1}); !math.IsNaN(q.value) || !math.IsNaN(q.low) {
		t.Errorf("ratio of nothing = %+v", q)
	}
}

func TestPercentileIsAValueThatOccurred(t *testing.T) {
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, c := range []struct {
		values  []float64
		q, want float64
	}{
		{hundred, 0, 1}, {hundred, 0.01, 1}, {hundred, 0.011, 2}, {hundred, 0.5, 50},
		{hundred, 0.99, 99}, {hundred, 0.999, 100}, {hundred, 1, 100},
		{[]float64{7}, 0.5, 7}, {[]float64{1, 2}, 0.5, 1}, {[]float64{1, 2}, 0.51, 2},
	} {
		if got := percentile(c.values, c.q); got != c.want {
			t.Errorf("percentile %v of %d values = %v, want %v", c.q, len(c.values), got, c.want)
		}
	}
	if !math.IsNaN(percentile(nil, 0.5)) {
		t.Error("percentile of nothing must be NaN")
	}
}

func TestDistributionSortsAndNamesQuantiles(t *testing.T) {
	got := map[string]float64{}
	for _, m := range distribution([]float64{5, -1, 3, 2, 4}) {
		got[m.unit] = m.value
	}
	if got["min-ns"] != -1 || got["p50-ns"] != 3 || got["max-ns"] != 5 {
		t.Errorf("distribution = %v", got)
	}
}

func TestScatterSpreadsEvenly(t *testing.T) {
	var bins [10]int
	for i := range 10_000 {
		bins[scatter(i, 10)]++
	}
	for bin, n := range bins {
		if n < 900 || n > 1100 {
			t.Errorf("%d of 10000 numbers in bin %d", n, bin)
		}
	}
}
