package timingwheel

import (
	"math"
	"math/bits"
)

// A hierarchy is the wheels themselves, in whole ticks: rings of slots, each
// slot of a ring as long as the whole ring before it. It is a plain data
// structure that knows neither time nor locks and calls nobody; how far to go is
// an argument, and the tasks that fell due are handed back in a queue.
//
// A task is placed by distance: in the finest ring that still reaches its slot,
// counted from the hand. When the hand comes to a slot of a coarser ring, the
// slot drains into finer ones (it cascades). Only the coarsest ring may hold
// tasks that are more than one turn away; they stay when their slot comes round.
//
// Tasks of one tick stay in the order in which they were put, through all
// cascades, because a draining slot is walked from its tail and each task is
// pushed to the front of its new slot, and because slots that come round in the
// same tick drain finest first. The rank of the ring for a given due tick never
// rises as the hand moves, so the tasks of that tick, read from the coarsest ring
// to the finest and from head to tail, always stand in the order of putting.
//
// A task may lie in an earlier slot than its due tick asks for (see delay): it is
// placed anew when that slot comes round.
type hierarchy struct {
	tasks  *table
	levels []level // finest first
	hand   int64   // the current tick: what is due by then has left

	// At rest stage is 0. While the slots at the hand are being emptied it is
	// the level at work: 1, 2, ... up to the coarsest, then len(levels) for the
	// finest level, whose tasks are due. Between two steps the owner may put and
	// remove tasks as it likes.
	stage  int
	cursor uint32 // in the coarsest level's slot: the next task to look at
	moved  uint64 // tasks put into another slot by cascades

	// soonest holds, per slot of the coarsest level, a tick before which nothing
	// in it is due: else the hand would have to stop, day after day, at slots
	// whose tasks are due in a year.
	soonest []int64

	// watched says which tasks are in level.counts: those in chunks of the table
	// below it. 0 until someone looks (see watch).
	watched uint32
}

// A level is one ring of slots.
type level struct {
	unit     int64 // ticks per slot
	span     int64 // ticks per turn
	pos      int64 // hand / unit
	hand     int   // pos % len(slots)
	slots    []slot
	occupied []uint64 // one bit per slot: set if and only if it is not empty
	count    int      // tasks in all slots
	first    uint64   // place of the first slot (see entry.place)
	counts   []uint32 // watched tasks per slot; nil until someone looks
}

// init makes the rings, finest first, with the hand at tick start.
func (h *hierarchy) init(tasks *table, sizes []int, start int64) {
	h.tasks = tasks
	h.levels = make([]level, len(sizes))
	unit, place := int64(1), uint64(placeSlots)
	for n, size := range sizes {
		h.levels[n] = level{
			unit:     unit,
			span:     unit * int64(size),
			slots:    make([]slot, size),
			occupied: make([]uint64, (size+63)/64),
			first:    place,
		}
		unit *= int64(size)
		place += uint64(size)
	}
	h.soonest = make([]int64, sizes[len(sizes)-1])
	h.turn(start)
}

// turn moves the hand to a tick. No slot may be passed that is not empty.
func (h *hierarchy) turn(tick int64) {
	h.hand = tick
	for n := range h.levels {
		l := &h.levels[n]
		l.pos = tick / l.unit
		l.hand = int(l.pos % int64(len(l.slots)))
	}
}

// skip turns the hand to a tick if it has nothing to do up to there.
func (h *hierarchy) skip(tick int64) {
	if h.stage != 0 || tick <= h.hand {
		return
	}
	if next, ok := h.next(); !ok || next > tick {
		h.turn(tick)
	}
}

// put places task i, which is in no list, by its due tick, and returns the tick
// at which the hand must come to its slot. A due tick that is not after the hand
// is only legal while the slots at the hand are being emptied: the task then
// leaves in that same tick.
func (h *hierarchy) put(i uint32, front bool) int64 {
	e := h.tasks.at(i)
	l, n, stop := h.locate(e.due)
	if top := len(h.levels) - 1; l == &h.levels[top] && (l.slots[n].empty() || e.due < h.soonest[n]) {
		h.soonest[n] = e.due
	}
	if front {
		l.slots[n].pushFront(h.tasks, i)
	} else {
		l.slots[n].pushBack(h.tasks, i)
	}
	e.setPlace(l.first + uint64(n))
	l.occupied[n>>6] |= 1 << (n & 63)
	l.count++
	if i>>8 < h.watched {
		l.counts[n]++
	}
	return stop
}

// locate finds level and slot for a due tick, and the tick at which that slot
// comes round for it.
func (h *hierarchy) locate(due int64) (l *level, n int, stop int64) {
	ahead := due - h.hand
	if l = &h.levels[0]; ahead < l.span {
		return l, l.slotAt(ahead), due
	}
	top := len(h.levels) - 1
	for k := 1; k < top; k++ {
		// Fewer ticks than a turn are necessary but not enough: the last slot
		// may be the hand's own, which has drained already.
		if l = &h.levels[k]; ahead < l.span {
			at := due / l.unit
			if distance := at - l.pos; distance < int64(len(l.slots)) {
				return l, l.slotAt(distance), at * l.unit
			}
		}
	}
	l = &h.levels[top]
	at := due / l.unit
	return l, int(at % int64(len(l.slots))), at * l.unit
}

// group returns a number below groups for the tasks that will be walked together
// with one that is due at a tick: those that lie in the same slot of a coarser
// level. It is a guess, for memory's sake, and changes nothing.
func (h *hierarchy) group(due int64) int {
	l, n, _ := h.locate(due)
	if l == &h.levels[0] {
		return 0
	}
	return (int(l.first) + n) % groups
}

// slotAt returns the slot a distance of less than one turn ahead of the hand.
func (l *level) slotAt(distance int64) int {
	n := l.hand + int(distance)
	if n >= len(l.slots) {
		n -= len(l.slots)
	}
	return n
}

// remove takes task i out of its slot.
func (h *hierarchy) remove(i uint32) {
	k, n := h.slotOf(h.tasks.at(i).place())
	h.take(&h.levels[k], n, i)
}

// slotOf returns level and slot of a place, which must be one.
func (h *hierarchy) slotOf(place uint64) (k, n int) {
	k = len(h.levels) - 1
	for place < h.levels[k].first {
		k--
	}
	return k, int(place - h.levels[k].first)
}

func (h *hierarchy) take(l *level, n int, i uint32) {
	s := &l.slots[n]
	if i == h.cursor {
		h.cursor = h.before(s, i)
	}
	s.remove(h.tasks, i)
	l.count--
	if i>>8 < h.watched {
		l.counts[n]--
	}
	if s.empty() {
		l.occupied[n>>6] &^= 1 << (n & 63)
	}
}

// before returns the task before i in a slot, or 0.
func (h *hierarchy) before(s *slot, i uint32) uint32 {
	if i == s.head {
		return 0
	}
	return h.tasks.at(i).prev
}

// delay makes task i, which is in a slot, due at a later tick without moving it.
// Its slot comes round early enough to place it anew then, so that a timeout
// which is put off again and again costs one store each time.
func (h *hierarchy) delay(i uint32, due int64) { h.tasks.at(i).due = due }

// next returns the next tick at which the hand has something to do, which is
// never after the earliest due tick. It costs one look at a bit set per level.
func (h *hierarchy) next() (tick int64, ok bool) {
	if h.stage != 0 {
		return h.hand, true
	}
	tick = math.MaxInt64
	top := len(h.levels) - 1
	for k := range h.levels[:top] {
		l := &h.levels[k]
		if distance := l.nextOccupied(); distance > 0 {
			tick = min(tick, (l.pos+int64(distance))*l.unit)
			ok = true
		}
	}
	l := &h.levels[top]
	for w, word := range l.occupied {
		for ; word != 0; word &= word - 1 {
			due := h.soonest[w<<6+bits.TrailingZeros64(word)]
			tick = min(tick, due-due%l.unit)
			ok = true
		}
	}
	return tick, ok
}

// nextOccupied returns how far ahead of the hand the next task of this level is,
// in slots. It begins one past the hand: the hand's own slot is a full turn away.
// 0: the level is empty.
func (l *level) nextOccupied() int {
	if l.count == 0 {
		return 0
	}
	if n := l.firstOccupied(l.hand+1, len(l.slots)); n >= 0 {
		return n - l.hand
	}
	if n := l.firstOccupied(0, l.hand+1); n >= 0 {
		return n - l.hand + len(l.slots)
	}
	return 0
}

// firstOccupied returns the first occupied slot from lo to hi-1, or -1.
func (l *level) firstOccupied(lo, hi int) int {
	for w := lo >> 6; w<<6 < hi; w++ {
		word := l.occupied[w]
		if w == lo>>6 {
			word &= math.MaxUint64 << (lo & 63)
		}
		if word != 0 {
			if n := w<<6 + bits.TrailingZeros64(word); n < hi {
				return n
			}
			return -1
		}
	}
	return -1
}

// advance moves the hand towards tick to, from one occupied slot to the next,
// and appends the tasks that are due to the queue, in order. It stops after about
// budget tasks, so that its caller can let go of a lock, and reports whether the
// hand has arrived. Several callers may take turns, also with different ends.
func (h *hierarchy) advance(to int64, due *queue, budget int) bool {
	for {
		if h.stage == 0 {
			next, ok := h.next()
			if !ok || next > to {
				if to > h.hand {
					h.turn(to)
				}
				return true
			}
			if budget <= 0 {
				return false
			}
			budget--
			h.stop(next)
		}
		if h.hand > to {
			return true
		}
		budget = h.drain(due, budget)
		if h.stage != 0 {
			return false
		}
	}
}

// stop turns the hand to a tick at which it has something to do.
func (h *hierarchy) stop(tick int64) {
	h.turn(tick)
	h.stage = 1
	top := &h.levels[len(h.levels)-1]
	if top.pos*top.unit == tick {
		h.cursor = top.slots[top.hand].tail(h.tasks)
		h.soonest[top.hand] = math.MaxInt64 // made anew from those that stay
	}
}

// drain empties the slots at the hand, finest first, then the tick's own slot
// into the queue. It returns what is left of the budget, and has stage 0 if it
// came to the end.
func (h *hierarchy) drain(due *queue, budget int) int {
	top := len(h.levels) - 1
	for ; h.stage <= top; h.stage++ {
		l := &h.levels[h.stage]
		if l.pos*l.unit != h.hand {
			h.stage = top + 1 // neither this one nor a coarser one comes round
			break
		}
		var done bool
		if h.stage == top {
			budget, done = h.drainTop(l, budget)
		} else {
			budget, done = h.cascade(l, budget)
		}
		if !done {
			return budget
		}
	}
	l := &h.levels[0]
	for s := &l.slots[l.hand]; !s.empty(); budget-- {
		if budget <= 0 {
			return budget
		}
		i := s.head
		h.take(l, l.hand, i)
		if h.tasks.at(i).due <= h.hand {
			due.push(h.tasks, i)
		} else {
			h.put(i, false) // it was delayed
		}
	}
	h.stage = 0
	return budget
}

// cascade moves the tasks of the slot at the hand to finer levels. Tasks that
// were delayed may go anywhere but into this slot.
func (h *hierarchy) cascade(l *level, budget int) (int, bool) {
	for s := &l.slots[l.hand]; !s.empty(); budget-- {
		if budget <= 0 {
			return budget, false
		}
		i := s.tail(h.tasks)
		h.take(l, l.hand, i)
		h.put(i, true)
		h.moved++
	}
	return budget, true
}

// drainTop is cascade for the coarsest level, where tasks of later turns stay in
// their place. Tasks that come meanwhile lie behind the cursor and stay, too.
func (h *hierarchy) drainTop(l *level, budget int) (int, bool) {
	for ; h.cursor != 0; budget-- {
		if budget <= 0 {
			return budget, false
		}
		i := h.cursor
		h.cursor = h.before(&l.slots[l.hand], i)
		due := h.tasks.at(i).due
		if at := due / l.unit; at > l.pos && int(at%int64(len(l.slots))) == l.hand {
			h.soonest[l.hand] = min(h.soonest[l.hand], due)
			continue
		}
		h.take(l, l.hand, i)
		h.put(i, true)
		h.moved++
	}
	return budget, true
}

// count returns the number of tasks in all slots.
func (h *hierarchy) count() int {
	n := 0
	for k := range h.levels {
		n += h.levels[k].count
	}
	return n
}

// A queue holds the tasks that are due, in the order in which they start. They
// stay in the table, so that being due costs no memory and any can be taken out.
type queue struct {
	slot
	count int
}

func (q *queue) push(t *table, i uint32) {
	t.at(i).setPlace(placeDue)
	q.pushBack(t, i)
	q.count++
}

func (q *queue) remove(t *table, i uint32) {
	q.slot.remove(t, i)
	q.count--
}
