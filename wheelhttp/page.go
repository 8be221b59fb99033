package wheelhttp

import (
	"fmt"
	"html/template"
	"io"
	"math"
)

var page = template.Must(template.New("page.html").ParseFS(assets, "page.html"))

func render(out io.Writer, r *report) error { return page.Execute(out, pageOf(r)) }

// A pageView is what page.html is filled from: what is always there, and through
// T and ID the cells.
type pageView struct {
	Key, Kinds, Events, JSON string
	Answers                  []answerView
	Wheels                   []wheelView
	cells                    map[string]cells // by ID
}

type answerView struct{ ID, Kind, Key, Wheel string }

type wheelView struct {
	ID, Name, Tick string
	MaxPending     string
	Concurrency    string
	Counters       []counterView
	Lateness       []string
	Rings          []ringView
}

type counterView struct{ Name, Meaning string }

type ringView struct {
	ID, Name, Unit string
	Segments       []segmentView
	Marks          []mark
	NameY          string
	HandFrom       string
	HandTo         string
}

type segmentView struct{ Path, Slots string }

// T returns the text of a cell.
func (p *pageView) T(parts ...any) (string, error) {
	id := fmt.Sprint(parts...)
	for _, c := range p.cells[id] {
		if c.Attr == "" {
			return c.Value, nil
		}
	}
	return "", fmt.Errorf("timingwheel: the page has no cell %q", id)
}

// ID returns the ID of a cell and its other attributes.
func (p *pageView) ID(parts ...any) (template.HTMLAttr, error) {
	id := fmt.Sprint(parts...)
	if p.cells[id] == nil {
		return "", fmt.Errorf("timingwheel: the page has no cell %q", id)
	}
	out := ` id="` + id + `"`
	for _, c := range p.cells[id] {
		if c.Attr != "" && c.Value != "" {
			out += " " + c.Attr + `="` + template.HTMLEscapeString(c.Value) + `"`
		}
	}
	return template.HTMLAttr(out), nil
}

func pageOf(r *report) *pageView {
	p := &pageView{Key: r.Key, cells: map[string]cells{}}
	for _, c := range r.cells() {
		p.cells[c.ID] = append(p.cells[c.ID], c)
	}
	for n, kind := range r.kinds {
		p.Kinds += pick(n > 0, " or ", "") + kind
	}
	query := r.query
	p.Events = "events?" + query.Encode()
	for n, a := range r.Answers {
		p.Answers = append(p.Answers, answerView{fmt.Sprintf("k%d-", n), a.Kind, a.Key, a.Wheel})
	}
	for n := range r.Wheels {
		p.Wheels = append(p.Wheels, viewOf(&r.Wheels[n], fmt.Sprintf("w%d-", n)))
	}
	return p
}

func viewOf(w *wheelReport, id string) wheelView {
	v := wheelView{ID: id, Name: w.Name, Tick: spanOf(w.Tick), Concurrency: number(uint64(w.Concurrency))}
	if w.MaxPending > 0 {
		v.MaxPending = number(uint64(w.MaxPending))
	}
	for _, k := range w.Counters {
		v.Counters = append(v.Counters, counterView{k.Name, k.meaning})
	}
	for n, row := range w.Lateness {
		if row.bound == math.MaxInt64 {
			v.Lateness = append(v.Lateness, "over "+span(w.Lateness[n-1].bound))
		} else {
			v.Lateness = append(v.Lateness, "up to "+span(row.bound))
		}
	}
	for k := range w.Rings {
		v.Rings = append(v.Rings, w.Rings[k].view(k, fmt.Sprintf("%sr%d", id, k)))
	}
	return v
}

func (r *ring) view(k int, id string) ringView {
	inner, outer := radii(k)
	v := ringView{
		ID: id, Name: r.Name, Unit: span(r.unit), Marks: r.marks(k),
		NameY:    fmt.Sprintf("%.1f", -(outer + ringGap/2)),
		HandFrom: fmt.Sprintf("%.1f", -(inner - 2)), HandTo: fmt.Sprintf("%.1f", -(outer + 1)),
	}
	for _, s := range r.segments() {
		v.Segments = append(v.Segments, segmentView{s.path(k, len(r.Counts)), s.slots()})
	}
	return v
}
