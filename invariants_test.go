package timingwheel

import (
	"fmt"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// An inspector checks the invariants of a wheel:
//
//  1. a pending task is in exactly one list;
//  2. a bit is set if and only if its slot is not empty;
//  3. a task's level and slot follow from its due tick and the hand;
//  4. after catching up to t, nothing with due <= t is in a slot;
//  5. Next never lies after the earliest due tick;
//  6. Len = sum over slots + due queue + running recurring tasks;
//  7. used + free entries = entries made;
//  8. sequence numbers only grow.
//
// The fourth depends on how far a caller asked the hand to go: caughtUp checks
// it. A task that Reset put off lies in the slot of an earlier tick than its due
// one, so for the third an inspector wants to know which: see placed.
type inspector struct {
	seen   []bool
	seq    uint64
	placed func(i uint32) int64 // the tick by which task i was placed; nil: not known
}

// wheels checks all invariants of a hierarchy, its due queue and its table.
func (in *inspector) wheels(h *hierarchy, due *queue, running int) error {
	in.seen = append(in.seen[:0], make([]bool, len(h.tasks.chunks)<<8)...)
	earliest, listed, err := int64(never), 0, error(nil)
	place := uint64(placeSlots)
	for k := range h.levels {
		l := &h.levels[k]
		if l.first != place {
			return fmt.Errorf("level %d begins at place %d, not %d", k, l.first, place)
		}
		place += uint64(len(l.slots))
		if l.pos != h.hand/l.unit || int64(l.hand) != l.pos%int64(len(l.slots)) {
			return fmt.Errorf("level %d: pos %d, hand %d do not follow from tick %d", k, l.pos, l.hand, h.hand)
		}
		tasks := 0
		for n := range l.slots {
			count := 0
			err = in.list(h.tasks, &l.slots[n], l.first+uint64(n), func(i uint32, e *entry) error {
				count++
				earliest = min(earliest, e.due)
				return in.slot(h, k, n, i, e)
			})
			if err != nil {
				return fmt.Errorf("level %d, slot %d: %w", k, n, err)
			}
			if bit := l.occupied[n>>6]>>(n&63)&1 == 1; bit != (count > 0) {
				return fmt.Errorf("invariant 2: level %d, slot %d: %d tasks, bit %v", k, n, count, bit)
			}
			tasks += count
		}
		for b := len(l.slots); b < 64*len(l.occupied); b++ {
			if l.occupied[b>>6]>>(b&63)&1 == 1 {
				return fmt.Errorf("invariant 2: level %d: bit %d stands for no slot", k, b)
			}
		}
		if tasks != l.count {
			return fmt.Errorf("level %d: %d tasks, counted as %d", k, tasks, l.count)
		}
		listed += tasks
	}
	if listed != h.count() {
		return fmt.Errorf("%d tasks in slots, counted as %d", listed, h.count())
	}
	if err := in.nextIsRight(h, earliest, listed); err != nil {
		return err
	}
	n, last := 0, int64(0)
	err = in.list(h.tasks, &due.slot, placeDue, func(i uint32, e *entry) error {
		if e.due < last || e.due > h.hand {
			return fmt.Errorf("due at %d, after one due at %d, hand at %d", e.due, last, h.hand)
		}
		n, last = n+1, e.due
		return nil
	})
	if err != nil {
		return fmt.Errorf("due queue: %w", err)
	}
	if n != due.count {
		return fmt.Errorf("%d tasks are due, counted as %d", n, due.count)
	}
	if listed+n+running != h.tasks.used {
		return fmt.Errorf("invariant 6: %d in slots, %d due, %d running, but Len is %d", listed, n, running, h.tasks.used)
	}
	return in.table(h.tasks)
}

// list walks a list and checks its links and that its tasks are in no other one.
func (in *inspector) list(t *table, s *slot, place uint64, each func(uint32, *entry) error) error {
	if s.empty() {
		if s.tail(t) != 0 {
			return fmt.Errorf("an empty list has a tail")
		}
		return nil
	}
	for i := s.head; ; {
		e := t.at(i)
		switch {
		case in.seen[i]:
			return fmt.Errorf("invariant 1: task %d is in two places", i)
		case e.place() != place:
			return fmt.Errorf("invariant 1: task %d is at place %d, says %d", i, place, e.place())
		case e.seq() == 0:
			return fmt.Errorf("invariant 7: free row %d is in a list", i)
		case t.at(e.next).prev != i || t.at(e.prev).next != i:
			return fmt.Errorf("the links around task %d do not agree", i)
		}
		in.seen[i] = true
		if err := each(i, e); err != nil {
			return fmt.Errorf("task %d: %w", i, err)
		}
		if i = e.next; i == s.head {
			return nil
		}
	}
}

// slot checks that task i may be where it is, in slot n of level k.
func (in *inspector) slot(h *hierarchy, k, n int, i uint32, e *entry) error {
	l, top := &h.levels[k], len(h.levels)-1
	placed := e.due
	if in.placed != nil {
		if placed = in.placed(i); placed > e.due {
			return fmt.Errorf("invariant 3: due at %d, but placed by %d", e.due, placed)
		}
		if want := int(placed / l.unit % int64(len(l.slots))); want != n {
			return fmt.Errorf("invariant 3: placed by %d, which is slot %d", placed, want)
		}
	}
	// The slot at the hand is empty, but while it drains.
	draining := h.stage != 0 && l.pos*l.unit == h.hand && (h.stage <= k || k == 0)
	distance := int64(n - l.hand)
	if distance < 0 || distance == 0 && !draining {
		distance += int64(len(l.slots))
	}
	if k < top {
		if distance == int64(len(l.slots)) {
			return fmt.Errorf("invariant 3: it is in the slot of the hand")
		}
		if comes := (l.pos + distance) * l.unit; comes > e.due {
			return fmt.Errorf("invariant 3: its slot comes round at %d, after its due tick %d", comes, e.due)
		} else if in.placed != nil && placed-comes >= l.unit {
			return fmt.Errorf("invariant 3: its slot comes round at %d, too early for %d", comes, placed)
		}
		return nil
	}
	if draining && n == l.hand {
		return nil // soonest is being made anew
	}
	if s := h.soonest[n]; s > e.due || s/l.unit <= l.pos && !draining || s/l.unit%int64(len(l.slots)) != int64(n) {
		return fmt.Errorf("invariant 3: due at %d, soonest of slot %d says %d, hand at %d", e.due, n, s, h.hand)
	}
	return nil
}

func (in *inspector) nextIsRight(h *hierarchy, earliest int64, listed int) error {
	next, ok := h.next()
	switch {
	case h.stage != 0 && (!ok || next != h.hand):
		return fmt.Errorf("invariant 5: next is %d, %v while tick %d drains", next, ok, h.hand)
	case h.stage != 0:
		return nil
	case ok != (listed > 0):
		return fmt.Errorf("invariant 5: next says %v with %d tasks in slots", ok, listed)
	case ok && next > earliest:
		return fmt.Errorf("invariant 5: next is %d, but a task is due at %d", next, earliest)
	case ok && next <= h.hand:
		return fmt.Errorf("invariant 5: next is %d, which is not after the hand at %d", next, h.hand)
	case h.cursor != 0:
		return fmt.Errorf("the cursor stands at task %d while nothing drains", h.cursor)
	}
	return nil
}

// table checks the chunks, their free rows and the lists of chunks.
func (in *inspector) table(t *table) error {
	if t.seq < in.seq {
		return fmt.Errorf("invariant 8: the sequence went from %d to %d", in.seq, t.seq)
	}
	in.seq = t.seq
	used, holes, fresh, listed := 0, 0, 0, 0
	for n, c := range t.chunks {
		if c == nil {
			holes++
			continue
		}
		if c.listed {
			listed++
		} else if c.free != 0 {
			return fmt.Errorf("chunk %d has free rows and is not in the list of those", n)
		}
		if open := t.open[c.group] == uint32(n)+1; open != (c.fresh < chunkRows) {
			return fmt.Errorf("chunk %d has %d fresh rows left, open: %v", n, chunkRows-c.fresh, open)
		} else if open {
			fresh += chunkRows - int(c.fresh)
		}
		if c.used == 0 && (t.open[c.group] != uint32(n)+1 || c.fresh != 0 || c.free != 0 || c.listed) {
			return fmt.Errorf("chunk %d is empty and neither given back nor as new", n)
		}
		used += int(c.used)
		if err := in.rows(t, c); err != nil {
			return fmt.Errorf("chunk %d: %w", n, err)
		}
	}
	if used != t.used {
		return fmt.Errorf("invariant 7: %d rows in use, counted as %d", used, t.used)
	}
	noted := map[uint32]bool{}
	for _, n := range t.holes {
		if int(n) < len(t.chunks) && t.chunks[n] == nil {
			noted[n] = true
		}
	}
	if holes != len(noted) {
		return fmt.Errorf("invariant 7: %d chunks given back, %d noted", holes, len(noted))
	}
	last := uint32(0)
	for n := t.free; n != 0; listed-- {
		c := t.chunks[n-1]
		if c == nil || !c.listed || c.used == 0 || c.prevFree != last {
			return fmt.Errorf("chunk %d is wrongly in the list of those with free rows", n-1)
		}
		if c.free == 0 && n != t.free {
			return fmt.Errorf("chunk %d is in the list of those with free rows, has none, and is not at its head", n-1)
		}
		last, n = n, c.nextFree
	}
	if listed != 0 {
		return fmt.Errorf("%d chunks are not in the list they think they are in", listed)
	}
	if fresh != t.fresh {
		return fmt.Errorf("%d fresh rows in open chunks, counted as %d", fresh, t.fresh)
	}
	for group, n := range t.open {
		if bit := t.opened>>group&1 == 1; bit != (n != 0) || bit && int(t.chunks[n-1].group) != group {
			return fmt.Errorf("group %d: open chunk %d, bit %v", group, int(n)-1, bit)
		}
		if vacant := t.vacant>>group&1 == 1; vacant != (n != 0 && t.chunks[n-1].used == 0) {
			return fmt.Errorf("group %d: open chunk %d, vacant: %v", group, int(n)-1, vacant)
		}
	}
	if t.vacant != 0 && t.fresh > t.used/freshShare+chunkRows {
		return fmt.Errorf("%d fresh rows beside %d tasks, and chunks %b are empty", t.fresh, t.used, t.vacant)
	}
	return nil
}

func (in *inspector) rows(t *table, c *chunk) error {
	free := 0
	for row := c.free; row != 0; row = uint8(c.rows[row-1].next) {
		if free++; free > chunkRows || row > c.fresh {
			return fmt.Errorf("invariant 7: the list of free rows goes astray at row %d", row)
		}
		if e := &c.rows[row-1]; e.id != 0 || e.fn != nil || c.hooks != nil && c.hooks[row-1] != nil {
			return fmt.Errorf("invariant 7: row %d is free but still holds something", row)
		}
	}
	inUse := 0
	for row := range c.rows[:c.fresh] {
		e := &c.rows[row]
		if e.id == 0 {
			continue
		}
		inUse++
		if e.seq() == 0 || e.seq() > t.seq {
			return fmt.Errorf("invariant 8: row %d has number %d, the last given was %d", row+1, e.seq(), t.seq)
		}
		if e.hooked() && c.hooks[row] == nil {
			return fmt.Errorf("row %d lost its hook", row+1)
		}
	}
	if inUse != int(c.used) || inUse+free != int(c.fresh) {
		return fmt.Errorf("invariant 7: %d rows used, counted as %d, %d free, %d made", inUse, c.used, free, c.fresh)
	}
	return nil
}

// caughtUp checks the fourth invariant.
func caughtUp(h *hierarchy, to int64) error {
	if h.stage != 0 || h.hand < to {
		return fmt.Errorf("invariant 4: the hand is at %d, stage %d, and should have come to %d", h.hand, h.stage, to)
	}
	for k := range h.levels {
		for n, s := range h.levels[k].slots {
			if s.empty() {
				continue
			}
			for i, first := s.head, true; i != s.head || first; i, first = h.tasks.at(i).next, false {
				if due := h.tasks.at(i).due; due <= to {
					return fmt.Errorf("invariant 4: level %d, slot %d still holds a task due at %d <= %d", k, n, due, to)
				}
			}
		}
	}
	return nil
}

// sound checks all invariants of a wheel that is in use.
func sound(w *Wheel, in *inspector) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	running, busy := 0, 0
	for seat, r := range w.crew {
		if r.seat != seat {
			return fmt.Errorf("the worker in seat %d thinks it has seat %d", seat, r.seat)
		}
		if !r.busy {
			continue
		}
		if busy++; r.series != nil && w.tasks.find(r.index, r.seq) != nil {
			running++
		}
	}
	if busy != w.count.Running || len(w.crew) > w.opts.Concurrency {
		return fmt.Errorf("%d workers, %d of them busy, counted as %d", len(w.crew), busy, w.count.Running)
	}
	if err := in.wheels(&w.wheels, &w.due, running); err != nil {
		return err
	}
	if next, ok := w.wheels.next(); ok && !w.stopped && next < w.armed && next <= w.floor(never) && w.wheels.stage == 0 && !w.kicked {
		return fmt.Errorf("work at tick %d, the alarm is set for %d", next, w.armed)
	}
	return nil
}

func TestThePureFilesKnowNeitherTimeNorLocks(t *testing.T) {
	for _, name := range []string{"hierarchy.go", "slot.go", "task.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			require.Contains(t, []string{"math", "math/bits", "slices", "strconv"}, path, "%s imports %s", name, path)
		}
	}
}
