package wheelhttp

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// A cell is a piece of the page that changes: the text of the element with an ID,
// or, if Attr is not empty, that attribute of it; without a value the attribute is
// not there. The page is filled from cells, and kept up to date by sending those
// that have changed, so that all words are made here and the script has none.
type cell struct{ ID, Attr, Value string }

// cells are always the same ones in the same order for one query.
type cells []cell

func (c *cells) text(id, value string)       { *c = append(*c, cell{id, "", value}) }
func (c *cells) attr(id, attr, value string) { *c = append(*c, cell{id, attr, value}) }

// cells returns what changes on the page of a report.
func (r *report) cells() cells {
	c := make(cells, 0, r.size())
	for n := range r.Answers {
		r.Answers[n].cells(&c, "k"+strconv.Itoa(n)+"-", r)
	}
	for n := range r.Wheels {
		w := &r.Wheels[n]
		prefix := "w" + strconv.Itoa(n) + "-"
		w.cells(&c, prefix)
		for k := range w.Rings {
			w.Rings[k].cells(&c, prefix+"r"+strconv.Itoa(k), w.Now, r.slotOf(n, k))
		}
	}
	return c
}

// size returns about how many cells there are.
func (r *report) size() int {
	n := 10 * len(r.Answers)
	for w := range r.Wheels {
		n += 100
		for k := range r.Wheels[w].Rings {
			n += 6*min(len(r.Wheels[w].Rings[k].Counts), mostSegments) + 5
		}
	}
	return n
}

// slotOf returns which slot of a ring holds the task of the key that is looked
// up, or -1.
func (r *report) slotOf(wheel, level int) int {
	for _, a := range r.Answers {
		if a.drawn == wheel && a.level == level && a.Slot != nil {
			return *a.Slot
		}
	}
	return -1
}

func (a *answer) cells(c *cells, id string, r *report) {
	c.attr(id+"box", "class", "answer "+a.State)
	c.text(id+"state", map[string]string{
		"waiting": "Waiting", "due": "Overdue, in the backlog", "running": "Running", "stopped": "Left on a stopped wheel",
		"absent": "Not pending", "invalid": "Not a key",
	}[a.State])
	c.text(id+"verdict", a.Verdict)
	c.text(id+"advice", a.Advice)
	c.text(id+"said", a.Said)
	hidden := ""
	if a.Said == "" {
		hidden = "hidden"
	}
	c.attr(id+"saidbox", "hidden", hidden)
}

func (w *wheelReport) cells(c *cells, id string) {
	now := w.Now
	c.attr(id+"state", "class", "state "+map[string]string{
		"on time": "good", "idle": "good", "catching up": "warn", "behind": "warn", "backlog": "bad", "stopped": "bad",
	}[w.State])
	c.text(id+"state", w.State)
	c.text(id+"verdict", w.Verdict)
	c.text(id+"now", now.Format("2006-01-02 15:04:05 MST"))
	c.text(id+"up", span(now.Sub(w.Start)))
	c.text(id+"pending", number(uint64(w.Pending)))
	c.text(id+"centre", number(uint64(w.Pending)))
	c.text(id+"due", number(uint64(w.Due)))
	c.text(id+"overdue", pick(w.Due > 0, number(uint64(w.Due))+" due", ""))
	c.attr(id+"duebox", "class", pick(w.Due > 0, "card warn", "card"))
	c.text(id+"running", number(uint64(w.Running)))
	c.attr(id+"runbox", "class", pick(w.Running >= w.Concurrency, "card warn", "card"))
	c.attr(id+"places", "width", share(float64(w.Running), float64(w.Concurrency)))
	c.text(id+"longest", pick(w.Running > 0, "longest for "+spanOf(w.LongestRun), "none is running"))
	in, next := "never", "nothing is waiting"
	if w.Next != nil {
		in, next = "in "+span(w.Next.Sub(now)), "at "+moment(*w.Next, now)
		if !w.Next.After(now) {
			in, next = "now", "since "+moment(*w.Next, now)
		}
	}
	c.text(id+"in", pick(w.Stopped, "never", in))
	c.text(id+"next", pick(w.Stopped, "the wheel is stopped", next))
	c.text(id+"window", "last "+spanOf(w.Window))
	c.text(id+"recent", "Last "+spanOf(w.Window))
	for n, k := range w.Counters {
		c.text(id+"c"+strconv.Itoa(n), number(k.Total))
		c.text(id+"d"+strconv.Itoa(n), rate(k.PerSecond))
	}
	w.latenessCells(c, id)
}

func (w *wheelReport) latenessCells(c *cells, id string) {
	c.text(id+"last", spanOf(w.Last))
	c.text(id+"mean", spanOf(w.Mean))
	c.text(id+"max", spanOf(w.Max))
	var most uint64
	for _, row := range w.Lateness {
		most = max(most, row.Total)
	}
	for n, row := range w.Lateness {
		at := strconv.Itoa(n)
		c.text(id+"t"+at, number(row.Total))
		c.text(id+"n"+at, number(row.Recent))
		// Few late ones beside millions in time are what one looks for.
		c.attr(id+"b"+at, "width", share(math.Log1p(float64(row.Total)), math.Log1p(float64(most))))
		c.attr(id+"l"+at, "class", pick(row.Recent > 0 && row.bound.Seconds() > float64(w.Tick), "late", ""))
	}
}

func (r *ring) cells(c *cells, id string, now time.Time, marked int) {
	c.attr(id+"hand", "transform", r.angle())
	c.text(id+"at", strconv.Itoa(r.Hand))
	c.text(id+"tasks", number(uint64(r.Tasks)))
	c.text(id+"occupied", number(uint64(r.Occupied)))
	segments := r.segments()
	var most uint64
	for _, s := range segments {
		most = max(most, s.tasks)
	}
	c.text(id+"most", number(most))
	for n, s := range segments {
		at := strconv.Itoa(n)
		tasks, when := number(s.tasks), "never"
		if !r.stopped {
			when = "at " + moment(r.roundAt(s.from), now)
		}
		c.attr(id+"s"+at, "fill-opacity", shade(s.tasks, most))
		c.attr(id+"s"+at, "class", pick(s.from <= marked && marked < s.to, "slot marked", "slot"))
		c.text(id+"h"+at, r.Name+", "+s.slots()+": "+count(s.tasks, "task", "tasks")+", the hand comes "+when)
		c.attr(id+"row"+at, "hidden", pick(s.tasks == 0, "hidden", ""))
		c.text(id+"n"+at, tasks)
		c.text(id+"w"+at, when)
	}
}

func pick(yes bool, a, b string) string {
	if yes {
		return a
	}
	return b
}

func spanOf(s seconds) string { return span(time.Duration(float64(s) * float64(time.Second))) }

// share returns a part of a whole in percent.
func share(part, whole float64) string {
	if whole <= 0 {
		return "0"
	}
	return fmt.Sprintf("%.1f", 100*min(1, part/whole))
}

// changed returns the cells of now that differ from before, which may be empty.
func changed(before, now cells) cells {
	if len(before) != len(now) {
		return now
	}
	var out cells
	for n := range now {
		if now[n].Value != before[n].Value {
			out = append(out, now[n])
		}
	}
	return out
}
