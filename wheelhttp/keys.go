package wheelhttp

import (
	"fmt"
	"time"

	"github.com/fee15284/timingwheel"
)

// A lookup finds a key of one Keyed, whose type it hides.
type lookup struct {
	name string
	on   *timingwheel.Wheel
	find func(text string) finding
}

// A finding is what is known about a key.
type finding struct {
	place timingwheel.Place
	found bool
	said  string // by the host
	err   error  // the text is not a key
}

// Lookup lets the page be asked, with ?key=, where the task of a key is: in which
// slot and due when, in the backlog, running and since when, or not on the wheel.
// The page never lists keys; it answers for the one it is asked about.
//
// name says what the keys are, such as "order". parse turns the text into a key;
// its error is shown instead of an answer, so it is also the place to refuse one.
// It may be nil if K is string. describe, which may be nil, returns what the host
// itself knows about the key, such as the state of the order in its database; it
// is shown as text, below the answer. Both are called on the goroutine of the
// request, four times a second while someone watches a key, and should be quick.
func Lookup[K comparable](name string, keys *timingwheel.Keyed[K], parse func(text string) (K, error), describe func(K) string) Option {
	if parse == nil {
		parse = textKey[K]
	}
	find := func(text string) finding {
		key, err := parse(text)
		if err != nil {
			return finding{err: err}
		}
		var f finding
		f.place, f.found = keys.Locate(key)
		if describe != nil {
			f.said = describe(key)
		}
		return f
	}
	return func(h *handler) {
		if keys != nil && keys.Wheel() != nil {
			h.lookups = append(h.lookups, lookup{name, keys.Wheel(), find})
		}
	}
}

// textKey takes the text as the key.
func textKey[K comparable](text string) (K, error) {
	key, ok := any(text).(K)
	if !ok {
		return key, fmt.Errorf("the program has not said how to read a key of type %T", key)
	}
	return key, nil
}

// An answer is a finding in words.
type answer struct {
	Kind     string     `json:"kind"` // the name of the lookup
	Key      string     `json:"key"`
	State    string     `json:"state"` // waiting, due, running, stopped, absent or invalid
	Verdict  string     `json:"verdict"`
	Advice   string     `json:"advice"`
	Said     string     `json:"said,omitempty"`
	Wheel    string     `json:"wheel,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	Began    *time.Time `json:"began,omitempty"`
	Ring     string     `json:"ring,omitempty"`
	Slot     *int       `json:"slot,omitempty"`
	RoundAt  *time.Time `json:"round_at,omitempty"`

	drawn int // which of the wheels in the picture it is on, and
	level int // in which ring of it; -1: none
}

// answer says where a key is, on a wheel in the state that r reports.
func (l *lookup) answer(text string, r *wheelReport) answer {
	a := answer{Kind: l.name, Key: text, Wheel: r.Name, level: -1}
	f := l.find(text)
	if f.err != nil {
		a.State, a.Verdict, a.Wheel = "invalid", "This is no key: "+f.err.Error()+".", ""
		return a
	}
	a.Said = f.said
	now, p := r.Now, f.place
	if f.found {
		a.Deadline = &p.Deadline
	}
	switch {
	case !f.found:
		a.absent(r)
	case !p.Since.IsZero():
		a.running(now, p)
	case p.Level >= 0:
		a.waiting(now, p, r)
	default:
		a.due(now, p, r)
	}
	return a
}

func (a *answer) absent(r *wheelReport) {
	a.State = "absent"
	a.Verdict = "Not on the wheel, and no callback is running for it."
	a.Advice = fmt.Sprintf("So one of these holds: it was never added, or under another key, or on another machine; it was added "+
		"before this wheel was made, at %s; it was cancelled; or its callback has run and returned. What the callback did is in the "+
		"program's log.", moment(r.Start, r.Now))
	if r.Panicked > 0 {
		a.Advice += fmt.Sprintf(" %s on this wheel panicked; the log has key, deadline and stack of each.",
			count(r.Panicked, "callback has", "callbacks have"))
	}
}

func (a *answer) running(now time.Time, p timingwheel.Place) {
	a.State, a.Began = "running", &p.Since
	a.Verdict = fmt.Sprintf("Its callback is running: it began at %s, %s after the deadline, and has not returned for %s.",
		moment(p.Since, now), span(p.Since.Sub(p.Deadline)), span(now.Sub(p.Since)))
	a.Advice = "The wheel has done its part. If this takes too long, the callback is slow or blocked: look at the goroutine profile."
}

func (a *answer) due(now time.Time, p timingwheel.Place, r *wheelReport) {
	a.State = "due"
	a.Verdict = fmt.Sprintf("Its deadline was at %s, %s ago, but its callback has not started. It is in the backlog of %s.",
		moment(p.Deadline, now), span(now.Sub(p.Deadline)), count(uint64(r.Due), "task", "tasks"))
	a.Advice = r.Verdict
	if r.Stopped {
		a.State = "stopped"
	}
}

func (a *answer) waiting(now time.Time, p timingwheel.Place, r *wheelReport) {
	ring := &r.Rings[p.Level]
	at := ring.roundAt(p.Slot)
	a.State, a.Ring, a.Slot, a.RoundAt, a.level = "waiting", ring.Name, &p.Slot, &at, p.Level
	where := fmt.Sprintf("It is in slot %d of the %s ring", p.Slot, ring.Name)
	left := p.Deadline.Sub(now)
	switch {
	case r.Stopped:
		a.State, a.RoundAt = "stopped", nil
		a.Verdict = fmt.Sprintf("It will not expire: the wheel is stopped. Its deadline is %s.", moment(p.Deadline, now))
		a.Advice = where + "."
		return
	case left <= 0:
		a.Verdict = fmt.Sprintf("Its deadline was at %s, %s ago, and the hand has not come to it yet.", moment(p.Deadline, now), span(-left))
		a.Advice = where + ". The wheel is catching up, or the machine gives it too little time."
		return
	}
	a.Verdict = fmt.Sprintf("It is not time yet: its deadline is at %s, in %s.", moment(p.Deadline, now), span(left))
	switch {
	case p.Level == 0 && !at.Before(p.Deadline):
		a.Advice = where + "; when the hand gets there, its callback starts."
	default:
		a.Advice = fmt.Sprintf("%s. The hand gets there at %s; the task then moves to a slot nearer to its deadline.", where, moment(at, now))
	}
}
