package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// drawable returns results with all that charts show.
func drawable() *results {
	r := &results{procs: 2}
	put := func(name, unit string, values ...float64) {
		for _, v := range values {
			r.records = append(r.records, record{name, 1, []metric{{unit, v}}})
		}
	}
	for i, c := range impls {
		for _, n := range pendingSizes {
			put(fmt.Sprintf("CancelRandomAdd/impl=%s/pending=%d", c.name, n.n), "ns/op", 100, 120, 500*float64(i+1))
		}
		put(fmt.Sprintf("Memory/impl=%s/pending=%d", c.name, million), "B/task", 32*float64(i+1))
		put(fmt.Sprintf("AfterBurst/impl=%s/pending=%d", c.name, million), "B/task", -0.1)
		for k, q := range quantiles {
			put("Lateness/impl="+c.name, q.name, 1e6*float64(k))
			for _, phase := range []string{"quiet", "cascade", "due"} {
				put("AddLatency/impl="+c.name+"/phase="+phase, q.name, 100*float64(k+1))
			}
		}
	}
	return r
}

func TestChartsAreDrawnOnWhiteWithNamesOfAll(t *testing.T) {
	dir := t.TempDir()
	if err := drawCharts(drawable(), dir); err != nil {
		t.Fatal(err)
	}
	for file, texts := range map[string][]string{
		"cost.svg":     {"pending timeouts", "10M", "wheel", "time.AfterFunc", "go-zero TimingWheel"},
		"memory.svg":   {"bytes per timeout", "while pending"},
		"lateness.svg": {"lateness, ms"},
		"latency.svg":  {"99.99 %", "while all 1M cascade"},
	} {
		svg, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range append(texts, "fill:#FFFFFF", "sans-serif") {
			if !strings.Contains(string(svg), text) {
				t.Errorf("%s has no %q", file, text)
			}
		}
	}
}

func TestTicksAreOneTwoFive(t *testing.T) {
	var got []string
	for _, tick := range (decades{}).Ticks(8_000, 130_000) {
		got = append(got, fmt.Sprintf("%g=%s", tick.Value, tick.Label))
	}
	if want := "10000=10K 20000=20K 50000=50K 100000=100K"; strings.Join(got, " ") != want {
		t.Errorf("ticks are %v, want %s", got, want)
	}
}
