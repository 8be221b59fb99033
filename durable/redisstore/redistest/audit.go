package redistest

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fee15284/timingwheel/durable"
)

// An Audit is what the entries of all Ledgers say, once the store is empty. It
// understands timers that are put once and whose handlers do not fail.
type Audit struct {
	Created   int   // timers put
	Canceled  int   // taken back in time
	Handled   int   // the handler has returned
	Again     int   // claims after a lease that ended
	Lateness  []int // of first claims, from the due time, in microseconds, sorted
	PerWorker map[string]int

	// Broken promises, in words.
	Lost        []string // put, not handled, and nobody tried to cancel it
	Overlapping []string // claimed while another lease was running
	Early       []string // claimed before it was due
	Undead      []string // claimed after a Cancel that answered Canceled
	Twice       []string // handled twice, as far as the store says
}

// timer is the entries about one timer.
type timer struct {
	name             string
	puts, claims     []Entry
	extends          []Entry
	handled          bool // the handler has returned
	takenBack        bool // somebody tried to cancel it
	acked, cancelled int
}

// NewAudit reads the entries of all workers, in any order.
func NewAudit(entries []Entry) *Audit {
	timers := make(map[string]*timer)
	a := &Audit{PerWorker: make(map[string]int)}
	for _, e := range entries {
		name := e.Topic + "/" + e.Key
		t := timers[name]
		if t == nil {
			t = &timer{name: name}
			timers[name] = t
		}
		t.note(e)
		if e.Kind == durable.Ack && e.Status == durable.Done {
			a.PerWorker[e.Worker]++
		}
	}
	for _, t := range timers {
		a.judge(t)
	}
	slices.Sort(a.Lateness)
	return a
}

func (t *timer) note(e Entry) {
	switch {
	case e.Kind == 0:
		t.claims = append(t.claims, e)
	case e.Status == durable.Created:
		t.puts = append(t.puts, e)
	case e.Status == durable.Canceled:
		t.cancelled++
	case e.Kind == durable.Ack && e.Status == 0:
		t.handled = true
	case e.Kind == durable.Cancel && e.Status == 0:
		t.takenBack = true
	case e.Kind == durable.Ack && e.Status == durable.Done:
		t.acked++
	case e.Kind == durable.Extend && e.Status == durable.Done:
		t.extends = append(t.extends, e)
	}
}

func (a *Audit) judge(t *timer) {
	a.Created += len(t.puts)
	a.Canceled += t.cancelled
	if t.handled {
		a.Handled++
	}
	if len(t.puts) > 0 && !t.handled && !t.takenBack {
		a.Lost = append(a.Lost, fmt.Sprintf("%s was claimed %d times and never handled", t.name, len(t.claims)))
	}
	if t.acked > 1 {
		a.Twice = append(a.Twice, fmt.Sprintf("%s was acknowledged %d times", t.name, t.acked))
	}
	if t.cancelled > 0 && len(t.claims) > 0 {
		a.Undead = append(a.Undead, t.name)
	}
	slices.SortFunc(t.claims, func(x, y Entry) int { return cmp.Compare(x.At, y.At) })
	for i, c := range t.claims {
		if len(t.puts) > 0 && c.At < t.puts[0].Until {
			a.Early = append(a.Early, fmt.Sprintf("%s by %d us", t.name, t.puts[0].Until-c.At))
		}
		if c.Attempt == 1 {
			a.Lateness = append(a.Lateness, int(c.At-c.Due))
		} else {
			a.Again++
		}
		if i > 0 && c.Attempt > 1 { // else it was put anew
			if end := t.end(t.claims[i-1]); c.At < end {
				a.Overlapping = append(a.Overlapping, fmt.Sprintf("%s by %d us", t.name, end-c.At))
			}
		}
	}
}

// end returns when the lease of a claim ended, or a moment before.
func (t *timer) end(c Entry) int64 {
	end := c.Until
	for _, e := range t.extends {
		if e.Token == c.Token {
			end = max(end, e.Until)
		}
	}
	return end
}

// Percentile returns the lateness in microseconds that a share of p (0 to 1) of the
// first claims did not exceed, 0 if there are none.
func (a *Audit) Percentile(p float64) int {
	if len(a.Lateness) == 0 {
		return 0
	}
	return a.Lateness[min(int(p*float64(len(a.Lateness))), len(a.Lateness)-1)]
}

// Err returns an error that says which promises were broken, with examples, or nil.
func (a *Audit) Err() error {
	for _, broken := range []struct {
		what string
		list []string
	}{
		{"lost", a.Lost}, {"overlapping leases", a.Overlapping}, {"early", a.Early},
		{"claimed after a cancel", a.Undead}, {"handled twice", a.Twice},
	} {
		if len(broken.list) > 0 {
			return fmt.Errorf("redistest: %d %s: %v", len(broken.list), broken.what, broken.list[:min(5, len(broken.list))])
		}
	}
	return nil
}
