package timingwheel

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// On small rings nothing need be left to chance: from every hand position every
// operation is tried in every state that any program can reach, as long as no
// more than a few tasks are pending at once. So programs of every length are
// covered. Two states are the same if they differ only by whole turns of the
// coarsest ring and by which rows of the table the tasks are in.

// A move is one operation of such a program.
type move struct {
	op     byte // a: add, c: cancel, r: reset, s: step, k: skip
	task   int8
	ticks  int8 // from the hand
	budget int16
}

func (m move) String() string {
	switch m.op {
	case 'a':
		return fmt.Sprintf("add %+d", m.ticks)
	case 'c':
		return fmt.Sprintf("cancel task %d", m.task)
	case 'r':
		return fmt.Sprintf("reset task %d to %+d", m.task, m.ticks)
	case 'k':
		return fmt.Sprintf("skip %+d", m.ticks)
	}
	return fmt.Sprintf("advance %+d, budget %d", m.ticks, m.budget)
}

// A space is the set of all states of rings of some sizes with some tasks.
type space struct {
	sizes  []int
	tasks  int     // pending at most
	delays []int64 // of add and reset
	jumps  []int64 // of advance

	turn  int64 // of the coarsest ring: states repeat after it
	rig   *rig
	known map[string]int32
	keys  []string
	from  []int32 // state that led to this one
	by    []move
	moves int
	buf   []byte
	order []int
}

func (x *space) explore() error {
	x.rig = newRig(x.sizes, 0)
	x.rig.quiet = true
	x.rig.in.placed = nil
	x.turn = x.rig.h.levels[len(x.sizes)-1].span
	x.known = make(map[string]int32)
	for hand := range x.turn {
		x.rig.h.turn(hand + 100*x.turn)
		x.reach(-1, move{})
	}
	for s := 0; s < len(x.keys); s++ {
		if err := x.expand(int32(s)); err != nil {
			return err
		}
	}
	return nil
}

// reach notes the state that the rig is in, if it is new.
func (x *space) reach(from int32, by move) {
	x.encode()
	if _, ok := x.known[string(x.buf)]; ok {
		return
	}
	key := string(x.buf)
	x.known[key] = int32(len(x.keys))
	x.keys = append(x.keys, key)
	x.from = append(x.from, from)
	x.by = append(x.by, by)
}

// expand tries every operation in a state.
func (x *space) expand(s int32) error {
	r := x.rig
	try := func(m move) error {
		x.decode(x.keys[s])
		x.moves++
		err := x.apply(m)
		if err == nil {
			err = r.in.wheels(&r.h, &r.due, 0)
		}
		if err != nil {
			return fmt.Errorf("%w\nprogram on rings %v: %s", err, x.sizes, x.program(s, m))
		}
		x.reach(s, m)
		return nil
	}
	x.decode(x.keys[s])
	pending, draining := len(r.model), r.h.stage != 0
	var moves []move
	for _, d := range x.delays {
		if d == 0 && !draining {
			continue
		}
		if pending < x.tasks {
			moves = append(moves, move{op: 'a', ticks: int8(d)})
		}
		for k := range pending {
			moves = append(moves, move{op: 'r', task: int8(k), ticks: int8(d)})
		}
	}
	for k := range pending {
		moves = append(moves, move{op: 'c', task: int8(k)})
	}
	for _, d := range x.jumps {
		if d == 0 && !draining {
			continue
		}
		for _, budget := range []int16{1, 2, 512} {
			moves = append(moves, move{op: 's', ticks: int8(d), budget: budget})
		}
		if !draining {
			moves = append(moves, move{op: 'k', ticks: int8(d)})
		}
	}
	for _, m := range moves {
		if err := try(m); err != nil {
			return err
		}
	}
	return nil
}

func (x *space) apply(m move) error {
	r := x.rig
	switch tick := r.h.hand + int64(m.ticks); m.op {
	case 'a':
		return r.add(tick)
	case 'c':
		return r.cancel(int(m.task))
	case 'r':
		return r.reset(int(m.task), tick)
	case 'k':
		r.h.skip(tick)
		return nil
	default:
		return r.step(tick, int(m.budget))
	}
}

// program returns the operations that lead to a state, and one more.
func (x *space) program(s int32, last move) string {
	steps := []string{last.String()}
	for ; x.from[s] >= 0; s = x.from[s] {
		steps = append(steps, x.by[s].String())
	}
	steps = append(steps, fmt.Sprintf("hand at %d", s))
	slices.Reverse(steps)
	return strings.Join(steps, "; ")
}

// encode writes the state of the rig in a form in which equal states are equal.
func (x *space) encode() {
	r := x.rig
	h := &r.h
	x.order = x.order[:0]
	for k := range r.model {
		x.order = append(x.order, k)
	}
	slices.SortFunc(x.order, func(a, b int) int {
		s, t := &r.model[a], &r.model[b]
		switch {
		case s.due != t.due:
			return int(s.due - t.due)
		case s.moved != t.moved:
			return map[bool]int{false: -1, true: 1}[s.moved]
		default:
			return s.rank - t.rank
		}
	})
	name := func(i uint32) byte {
		for n, k := range x.order {
			if r.model[k].i == i {
				return byte(n)
			}
		}
		return 0xff
	}
	x.buf = append(x.buf[:0], byte(h.hand%x.turn), byte(h.stage), 0xff, byte(len(x.order)))
	if h.cursor != 0 {
		x.buf[2] = name(h.cursor)
	}
	for _, k := range x.order {
		t := &r.model[k]
		moved := byte(0)
		if t.moved {
			moved = 1
		}
		x.buf = append(x.buf, byte(t.due-h.hand), moved)
	}
	top := len(h.levels) - 1
	for k := range h.levels {
		l := &h.levels[k]
		for n := range l.slots {
			s := &l.slots[n]
			if s.empty() {
				continue
			}
			x.buf = append(x.buf, byte(k), byte(n))
			if k == top {
				soonest := h.soonest[n] - h.hand
				if h.soonest[n] == never {
					soonest = 0x7f
				}
				x.buf = append(x.buf, byte(int8(soonest)))
			}
			for i, first := s.head, true; first || i != s.head; i, first = r.tasks.at(i).next, false {
				x.buf = append(x.buf, name(i))
			}
			x.buf = append(x.buf, 0xff)
		}
	}
}

// decode puts the rig into a state.
func (x *space) decode(key string) {
	r := x.rig
	h := &r.h
	for k := range r.model {
		r.tasks.remove(r.model[k].i)
	}
	r.model, r.rank, r.fired, r.steps = r.model[:0], 0, 0, 0
	for k := range h.levels {
		l := &h.levels[k]
		clear(l.slots)
		clear(l.occupied)
		l.count = 0
	}
	h.stage, h.cursor = 0, 0
	h.turn(int64(key[0]) + 100*x.turn)
	h.stage = int(key[1])
	r.going = false // an advance that stopped on its way left no trace but this
	rest := key[4:]
	for range int(key[3]) {
		due := h.hand + int64(int8(rest[0]))
		r.rank++
		i := r.tasks.add(nil, nil, 0)
		r.tasks.at(i).due = due
		r.model = append(r.model, twin{i: i, seq: r.tasks.at(i).seq(), due: due, rank: r.rank, moved: rest[1] == 1})
		rest = rest[2:]
	}
	if key[2] != 0xff {
		h.cursor = r.model[key[2]].i
	}
	top := len(h.levels) - 1
	for rest != "" {
		k, n := int(rest[0]), int(rest[1])
		l := &h.levels[k]
		rest = rest[2:]
		if k == top {
			h.soonest[n] = h.hand + int64(int8(rest[0]))
			if rest[0] == 0x7f {
				h.soonest[n] = never
			}
			rest = rest[1:]
		}
		for ; rest[0] != 0xff; rest = rest[1:] {
			i := r.model[rest[0]].i
			l.slots[n].pushBack(&r.tasks, i)
			r.tasks.at(i).setPlace(l.first + uint64(n))
			l.count++
		}
		l.occupied[n>>6] |= 1 << (n & 63)
		rest = rest[1:]
	}
}

// Rings of 3, 3 and 2 slots: turns of 3, 9 and 18 ticks.
func TestHierarchyIsRightInEveryReachableState(t *testing.T) {
	spaces := []*space{
		{sizes: []int{2, 2, 2}, tasks: 2, delays: []int64{0, 1, 3, 8, 9}, jumps: []int64{0, 1, 20}},
		{sizes: []int{3, 3, 2}, tasks: 2, delays: []int64{0, 1, 19}, jumps: []int64{0, 40}},
		{sizes: []int{2, 2, 2}, tasks: 3, delays: []int64{0, 9}, jumps: []int64{0, 20}},
	}
	switch {
	case long():
		spaces = append(spaces,
			&space{sizes: []int{3, 3, 2}, tasks: 2, delays: []int64{0, 1, 2, 3, 8, 9, 10, 18, 37}, jumps: []int64{0, 1, 2, 40}},
			&space{sizes: []int{3, 3, 2}, tasks: 2, delays: []int64{0, 1, 8, 19}, jumps: []int64{0, 1, 40}},
			&space{sizes: []int{2, 2, 2}, tasks: 3, delays: []int64{0, 1, 9}, jumps: []int64{0, 1, 20}},
			&space{sizes: []int{2, 2, 2}, tasks: 3, delays: []int64{0, 1, 3, 9}, jumps: []int64{0, 1, 20}},
			&space{sizes: []int{3, 3, 2}, tasks: 3, delays: []int64{0, 1, 10}, jumps: []int64{0, 1, 40}},
		)
	case raceEnabled || testing.Short():
		spaces = spaces[:1]
		spaces[0].delays = []int64{0, 1, 9}
	}
	for _, x := range spaces {
		require.NoError(t, x.explore())
		t.Logf("rings %v, %d tasks, delays %v: %d states, %d operations", x.sizes, x.tasks, x.delays, len(x.keys), x.moves)
		require.Greater(t, len(x.keys), 1000)
	}
}
