package wheelhttp

import (
	"fmt"
	"math"
	"net/url"
	"time"

	"github.com/fee15284/timingwheel"
)

// A report is what the page and the JSON both say.
type report struct {
	Wheels  []wheelReport `json:"wheels"`
	Key     string        `json:"key,omitempty"`
	Answers []answer      `json:"answers,omitempty"`

	kinds []string // what can be looked up
	query url.Values
}

type wheelReport struct {
	Name    string `json:"name"`
	State   string `json:"state"` // on time, idle, catching up, backlog, behind or stopped
	Verdict string `json:"verdict"`

	Start   time.Time  `json:"start"`
	Now     time.Time  `json:"now"`
	Next    *time.Time `json:"next,omitempty"`
	Tick    seconds    `json:"tick_seconds"`
	Stopped bool       `json:"stopped"`

	Pending     int     `json:"pending"`
	MaxPending  int     `json:"max_pending,omitempty"`
	Due         int     `json:"due"`
	Running     int     `json:"running"`
	Concurrency int     `json:"concurrency"`
	LongestRun  seconds `json:"longest_run_seconds"`
	Panicked    uint64  `json:"panicked"`

	Window   seconds       `json:"window_seconds"` // what per_second and recent are of
	Counters []counter     `json:"counters"`
	Last     seconds       `json:"last_lateness_seconds"`
	Mean     seconds       `json:"mean_lateness_seconds"`
	Max      seconds       `json:"max_lateness_seconds"`
	Lateness []latenessRow `json:"lateness"`
	Rings    []ring        `json:"rings"`
}

// seconds are a time.Duration in JSON, too.
type seconds float64

func secondsOf(d time.Duration) seconds { return seconds(d.Seconds()) }

type counter struct {
	Name      string  `json:"name"`
	Total     uint64  `json:"total"`
	PerSecond float64 `json:"per_second"`

	meaning string
}

type latenessRow struct {
	UpTo   *seconds `json:"up_to_seconds"` // null: any
	Total  uint64   `json:"total"`
	Recent uint64   `json:"recent"`

	bound time.Duration
}

// A window is what a report is made of: the wheels as they are, and as they were
// some seconds ago, if someone was looking then.
type window struct{ now, before []timingwheel.Snapshot }

func (h *handler) report(win window, query url.Values) *report {
	r := &report{Wheels: make([]wheelReport, len(h.wheels)), Key: query.Get("key"), query: query}
	for n := range h.wheels {
		before := timingwheel.Snapshot{Now: win.now[n].Start}
		if win.before != nil {
			before = win.before[n]
		}
		r.Wheels[n] = reportOf(h.wheels[n].name, &win.now[n], &before)
	}
	for n := range h.lookups {
		l := &h.lookups[n]
		r.kinds = append(r.kinds, l.name)
		if r.Key == "" {
			continue
		}
		on, drawn := h.wheelOf(l.on, r)
		a := l.answer(r.Key, on)
		a.drawn = drawn
		r.Answers = append(r.Answers, a)
	}
	return r
}

// wheelOf returns the report of the wheel that keys are on, and its number on the
// page, or -1 for one that is not drawn there.
func (h *handler) wheelOf(w *timingwheel.Wheel, r *report) (*wheelReport, int) {
	for n := range h.wheels {
		if h.wheels[n].wheel == w {
			return &r.Wheels[n], n
		}
	}
	s := w.Snapshot()
	other := reportOf("", &s, &timingwheel.Snapshot{Now: s.Start})
	return &other, -1
}

func reportOf(name string, s, before *timingwheel.Snapshot) wheelReport {
	r := wheelReport{
		Name: name, Start: s.Start, Now: s.Now, Tick: secondsOf(s.Tick), Stopped: s.Stopped,
		Pending: s.Pending, MaxPending: s.MaxPending, Due: s.Due,
		Running: s.Running, Concurrency: s.Concurrency, LongestRun: secondsOf(s.LongestRun), Panicked: s.Panicked,
		Window: secondsOf(s.Now.Sub(before.Now)),
		Last:   secondsOf(s.LastLateness), Max: secondsOf(s.MaxLateness),
		Rings: ringsOf(s),
	}
	if !s.Next.IsZero() {
		r.Next = &s.Next
	}
	if s.Fired > 0 {
		r.Mean = secondsOf(s.LatenessSum / time.Duration(min(s.Fired, math.MaxInt64)))
	}
	r.Counters = countersOf(s, before, r.Window)
	for n, b := range s.Lateness {
		row := latenessRow{Total: b.Count, Recent: b.Count, bound: b.Bound}
		if before.Lateness != nil {
			row.Recent -= before.Lateness[n].Count
		}
		if b.Bound != math.MaxInt64 {
			upTo := secondsOf(b.Bound)
			row.UpTo = &upTo
		}
		r.Lateness = append(r.Lateness, row)
	}
	r.State, r.Verdict = verdict(s)
	return r
}

func countersOf(s, before *timingwheel.Snapshot, window seconds) []counter {
	all := []counter{
		{Name: "Added", Total: s.Added, PerSecond: float64(s.Added - before.Added), meaning: "tasks taken"},
		{Name: "Fired", Total: s.Fired, PerSecond: float64(s.Fired - before.Fired), meaning: "callbacks started"},
		{Name: "Cancelled", Total: s.Canceled, PerSecond: float64(s.Canceled - before.Canceled), meaning: "taken back in time"},
		{Name: "Panicked", Total: s.Panicked, PerSecond: float64(s.Panicked - before.Panicked), meaning: "callbacks that broke; see the log"},
		{Name: "Rejected", Total: s.Rejected, PerSecond: float64(s.Rejected - before.Rejected), meaning: "refused: full, stopped or invalid"},
		{Name: "Skipped", Total: s.Skipped, PerSecond: float64(s.Skipped - before.Skipped), meaning: "periods merged into a later run"},
		{Name: "Moved", Total: s.Moved, PerSecond: float64(s.Moved - before.Moved), meaning: "tasks passed on to a finer ring"},
		{Name: "Wakeups", Total: s.Wakeups, PerSecond: float64(s.Wakeups - before.Wakeups), meaning: "calls of the timer"},
	}
	for n := range all {
		if all[n].PerSecond /= float64(window); window <= 0 {
			all[n].PerSecond = 0
		}
	}
	return all
}

// verdict says in one word and in one sentence whether the wheel does its work.
func verdict(s *timingwheel.Snapshot) (state, sentence string) {
	left, behind := s.Pending+s.Due, s.Now.Sub(s.Next)
	switch {
	case s.Stopped:
		return "stopped", fmt.Sprintf("The wheel is stopped: no callback starts any more. %s on it.", isLeft(left))
	case s.Due > 0 && s.Running >= s.Concurrency:
		places := "The only place for callbacks (Options.Concurrency) is taken,"
		if s.Concurrency > 1 {
			places = "All " + number(uint64(s.Concurrency)) + " places for callbacks (Options.Concurrency) are taken, one of them"
		}
		return "backlog", fmt.Sprintf("%s for %s: callbacks are slow or blocked. Until one returns, nothing else starts. "+
			"%s due and waiting, the first since %s.", places, span(s.LongestRun), areDue(s.Due), moment(s.Next, s.Now))
	case s.Due > 0:
		return "catching up", fmt.Sprintf("%s due and being started.", areDue(s.Due))
	case !s.Next.IsZero() && behind > s.Tick:
		return "behind", fmt.Sprintf("The hand should have moved on %s ago: the clock has jumped, or the machine gives the "+
			"program too little time.", span(behind))
	case left == 0 && s.Running == 0:
		return "idle", "Nothing is pending, due or running."
	case left == 0:
		return "on time", fmt.Sprintf("Nothing is pending; %s running.", count(uint64(s.Running), "callback is", "callbacks are"))
	}
	return "on time", fmt.Sprintf("Nothing is overdue. %s, the next of them not before %s.",
		count(uint64(s.Pending), "task waits", "tasks wait"), moment(s.Next, s.Now))
}

func isLeft(n int) string { return count(uint64(n), "task is left", "tasks are left") }
func areDue(n int) string { return count(uint64(n), "task is", "tasks are") }
