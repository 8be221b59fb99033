// Package wheelprom shows timing wheels to Prometheus.
//
//	prometheus.MustRegister(wheelprom.NewCollector(map[string]*timingwheel.Wheel{
//		"orders": w,
//	}))
//
// It is a module of its own, so that the wheel needs no Prometheus. A Grafana
// dashboard for these metrics is in dashboard.json.
package wheelprom

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/fee15284/timingwheel"
	"github.com/prometheus/client_golang/prometheus"
)

// NewCollector returns a collector of the metrics of wheels, which it labels
// wheel="name". It pulls them when it is asked: a scrape costs each wheel one
// Snapshot, some microseconds, and between scrapes it costs nothing. The map is
// copied; nil wheels are left out. Register one collector for all wheels of a
// program, since a second one would describe the same metrics.
//
// The metrics are, each with the prefix timingwheel_:
//
//	pending_tasks             gauge, by ring    tasks that wait in a slot
//	due_tasks                 gauge             the backlog: due and not started
//	overdue_seconds           gauge             since when the first of them waits
//	running_callbacks         gauge             executing now
//	running_callbacks_limit   gauge             Options.Concurrency
//	longest_run_seconds       gauge             how long the oldest callback has been executing
//	pending_tasks_limit       gauge             Options.MaxPending, if there is one
//	stopped                   gauge             1 after Stop
//	added_tasks_total         counter
//	fired_tasks_total         counter           callbacks started
//	canceled_tasks_total      counter
//	rejected_tasks_total      counter           adding refused
//	panicked_callbacks_total  counter
//	skipped_periods_total     counter           of AddEvery, merged into a later run
//	moved_tasks_total         counter           to a finer ring
//	wakeups_total             counter           calls of the timer
//	lateness_seconds          histogram         from deadline to the start of the callback
func NewCollector(wheels map[string]*timingwheel.Wheel) prometheus.Collector {
	c := &collector{}
	for _, name := range slices.Sorted(maps.Keys(wheels)) {
		if w := wheels[name]; w != nil {
			// Prometheus takes no other text as a label.
			c.wheels = append(c.wheels, named{strings.ToValidUTF8(name, "\uFFFD"), w})
		}
	}
	return c
}

type named struct {
	name  string
	wheel *timingwheel.Wheel
}

type collector struct{ wheels []named }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("timingwheel_"+name, help, append([]string{"wheel"}, labels...), nil)
}

// A value is a metric that is one number of a Snapshot.
type value struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(*timingwheel.Snapshot) float64
}

var values = []value{
	{describe("due_tasks", "Tasks that are due and have not started."), prometheus.GaugeValue,
		func(s *timingwheel.Snapshot) float64 { return float64(s.Due) }},
	{describe("overdue_seconds", "Time since the first task fell due that has not started."), prometheus.GaugeValue, overdue},
	{describe("running_callbacks", "Callbacks that are executing."), prometheus.GaugeValue,
		func(s *timingwheel.Snapshot) float64 { return float64(s.Running) }},
	{describe("running_callbacks_limit", "Callbacks that may execute at once."), prometheus.GaugeValue,
		func(s *timingwheel.Snapshot) float64 { return float64(s.Concurrency) }},
	{describe("longest_run_seconds", "Time that the callback has been executing that began first."), prometheus.GaugeValue,
		func(s *timingwheel.Snapshot) float64 { return s.LongestRun.Seconds() }},
	{describe("stopped", "Whether the wheel is stopped."), prometheus.GaugeValue, stopped},
	{describe("added_tasks_total", "Tasks added."), prometheus.CounterValue,
		func(s *timingwheel.Snapshot) float64 { return float64(s.Added) }},
	{describe("fired_tasks_total", "Callbacks started."), prometheus.CounterValue,
		func(s *timingwheel.Snapshot) float64 { return float64(s.Fired) }},
	{describe("canceled_tasks_total", "Tasks cancelled or replaced before they started."), prometheus.CounterValue,
		func(s *timingwheel.Snapshot) float64 { return float64(s.Canceled) }},
	{describe("rejected_tasks_total", "Tasks that were refused."), prometheus.CounterValue,
		func(s *timingwheel.Snapshot) float64 { return float64(s.Rejected) }},
	{describe("panicked_callbacks_total", "Callbacks that panicked."), prometheus.CounterValue,
		func(s *timingwheel.Snapshot) float64 { return float64(s.Panicked) }},
	{describe("skipped_periods_total", "Periods of recurring tasks merged into a later run."), prometheus.CounterValue,
		func(s *timingwheel.Snapshot) float64 { return float64(s.Skipped) }},
	{describe("moved_tasks_total", "Tasks moved to a finer ring."), prometheus.CounterValue,
		func(s *timingwheel.Snapshot) float64 { return float64(s.Moved) }},
	{describe("wakeups_total", "Calls of the wheel's timer."), prometheus.CounterValue,
		func(s *timingwheel.Snapshot) float64 { return float64(s.Wakeups) }},
}

var (
	pending  = describe("pending_tasks", "Tasks that wait in a slot.", "ring")
	limit    = describe("pending_tasks_limit", "Tasks that the wheel may hold.")
	lateness = describe("lateness_seconds", "Time from the deadline of a task to the start of its callback.")
)

func overdue(s *timingwheel.Snapshot) float64 {
	if s.Due == 0 || s.Next.IsZero() {
		return 0
	}
	return max(0, s.Now.Sub(s.Next).Seconds())
}

func stopped(s *timingwheel.Snapshot) float64 {
	if s.Stopped {
		return 1
	}
	return 0
}

func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for n := range values {
		out <- values[n].desc
	}
	out <- pending
	out <- limit
	out <- lateness
}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	for _, n := range c.wheels {
		s := n.wheel.Snapshot()
		for k := range values {
			out <- prometheus.MustNewConstMetric(values[k].desc, values[k].kind, values[k].of(&s), n.name)
		}
		for _, l := range s.Levels {
			out <- prometheus.MustNewConstMetric(pending, prometheus.GaugeValue, float64(l.Tasks), n.name, l.Name)
		}
		if s.MaxPending > 0 {
			out <- prometheus.MustNewConstMetric(limit, prometheus.GaugeValue, float64(s.MaxPending), n.name)
		}
		out <- histogram(&s, n.name)
	}
}

// histogram makes Prometheus' cumulative buckets. The last bound is left out: it
// has no end, and Prometheus adds that bucket itself.
func histogram(s *timingwheel.Snapshot, name string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(s.Lateness))
	var sum uint64
	for _, b := range s.Lateness {
		sum += b.Count
		if b.Bound != math.MaxInt64 {
			buckets[b.Bound.Seconds()] = sum
		}
	}
	return prometheus.MustNewConstHistogram(lateness, sum, s.LatenessSum.Seconds(), buckets, name)
}
