package timingwheel

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A twin is what the model knows of a task: a line in a plain list.
type twin struct {
	i      uint32
	seq    uint64
	due    int64
	placed int64 // the tick by which it was placed last
	rank   int   // order of adding
	moved  bool  // by Reset: its place within its tick is free
}

// A rig runs the same program on a hierarchy and on a list, and compares them
// after every operation.
type rig struct {
	tasks table
	h     hierarchy
	due   queue
	model []twin
	rank  int

	to    int64 // where the hand is to go, while under way
	going bool
	steps int // of the advance under way

	fired int
	in    inspector
	log   []string
	quiet bool // keep no log
}

func newRig(sizes []int, start int64) *rig {
	r := &rig{}
	r.h.init(&r.tasks, sizes, start)
	r.in.placed = r.placed
	return r
}

func (r *rig) placed(i uint32) int64 {
	for k := range r.model {
		if r.model[k].i == i {
			return r.model[k].placed
		}
	}
	return -1
}

func (r *rig) note(format string, args ...any) {
	if !r.quiet {
		r.log = append(r.log, fmt.Sprintf(format, args...))
	}
}

// fail adds the program so far to an error, so that it can be replayed by hand.
func (r *rig) fail(err error) error {
	if err == nil || r.quiet {
		return err
	}
	log := r.log
	if len(log) > 60 {
		log = log[len(log)-60:]
	}
	return fmt.Errorf("%w\nafter %d operations, the last of them:\n%s", err, len(r.log), strings.Join(log, "\n"))
}

// least is the first due tick that may be added now.
func (r *rig) least() int64 {
	if r.h.stage != 0 {
		return r.h.hand
	}
	return r.h.hand + 1
}

func (r *rig) add(due int64) error {
	r.note("add %d (%+d)", due, due-r.h.hand)
	i := r.tasks.add(nil, nil, 0)
	e := r.tasks.at(i)
	e.due = due
	r.rank++
	r.model = append(r.model, twin{i: i, seq: e.seq(), due: due, placed: due, rank: r.rank})
	return r.put(i, due)
}

// put checks the choice of level and slot against the plain definition: the
// finest ring that reaches the slot, counted from the hand.
func (r *rig) put(i uint32, due int64) error {
	h := &r.h
	top := len(h.levels) - 1
	want := 0
	for want < top && due/h.levels[want].unit-h.hand/h.levels[want].unit >= int64(len(h.levels[want].slots)) {
		want++
	}
	l := &h.levels[want]
	place := l.first + uint64(due/l.unit%int64(len(l.slots)))
	stop := h.put(i, false)
	if got := h.tasks.at(i).place(); got != place {
		return fmt.Errorf("invariant 3: due at %d with the hand at %d: put at place %d, not %d", due, h.hand, got, place)
	}
	if wanted := due / l.unit * l.unit; stop != wanted {
		return fmt.Errorf("due at %d, hand at %d: the hand comes round at %d, put says %d", due, h.hand, wanted, stop)
	}
	return nil
}

func (r *rig) cancel(k int) error {
	t := r.model[k]
	r.note("cancel the one due at %d", t.due)
	if r.tasks.find(t.i, t.seq) == nil {
		return fmt.Errorf("a pending task is not found")
	}
	r.h.remove(t.i)
	r.tasks.remove(t.i)
	r.drop(k)
	if r.tasks.find(t.i, t.seq) != nil {
		return fmt.Errorf("a cancelled task is found")
	}
	return nil
}

func (r *rig) drop(k int) { r.model = append(r.model[:k], r.model[k+1:]...) }

// reset does what Wheel.reset does.
func (r *rig) reset(k int, due int64) error {
	t := &r.model[k]
	r.note("reset the one due at %d to %d (%+d)", t.due, due, due-r.h.hand)
	t.moved = true
	if due >= t.due {
		r.h.delay(t.i, due)
		t.due = due
		return nil
	}
	r.h.remove(t.i)
	r.tasks.at(t.i).due = due
	t.due, t.placed = due, due
	return r.put(t.i, due)
}

// step lets the hand go on, to where it was going or, at rest, to a new tick.
func (r *rig) step(to int64, budget int) error {
	if !r.going {
		r.going, r.to, r.steps = true, to, 0
	}
	r.to = max(r.to, to)
	r.note("advance to %d (%+d) with a budget of %d", r.to, r.to-r.h.hand, budget)
	r.steps++
	arrived := r.h.advance(r.to, &r.due, budget)
	r.follow()
	for n := 0; !r.due.empty(); n++ {
		if n >= max(budget, 1) {
			return fmt.Errorf("more tasks fell due than the budget of %d allows", budget)
		}
		if err := r.fire(); err != nil {
			return err
		}
	}
	if !arrived {
		// Each step takes a stop or a task further; every task can move once per
		// level and once more per Reset, and the hand stops for tasks only.
		if limit := 40 * (len(r.model) + r.fired + len(r.log) + 100); r.steps > limit {
			return fmt.Errorf("the hand has not arrived after %d steps", r.steps)
		}
		return nil
	}
	r.going = false
	for _, t := range r.model {
		if t.due <= r.to {
			return fmt.Errorf("due at %d, has not fired by %d", t.due, r.to)
		}
	}
	return caughtUp(&r.h, r.to)
}

// follow notes by which tick tasks were placed that a drain has moved.
func (r *rig) follow() {
	for k := range r.model {
		t := &r.model[k]
		if t.placed != t.due && r.movedTo(t.i, t.due) {
			t.placed = t.due
		}
	}
}

// movedTo reports whether a task that was put off lies where its due tick belongs.
func (r *rig) movedTo(i uint32, due int64) bool {
	place := r.tasks.at(i).place()
	for k := range r.h.levels {
		l := &r.h.levels[k]
		if place == l.first+uint64(due/l.unit%int64(len(l.slots))) {
			distance := due/l.unit - l.pos
			return distance < int64(len(l.slots)) || k == len(r.h.levels)-1
		}
	}
	return false
}

func (r *rig) fire() error {
	i := r.due.head
	r.due.remove(&r.tasks, i)
	k := 0
	for ; k < len(r.model) && r.model[k].i != i; k++ {
	}
	if k == len(r.model) {
		return fmt.Errorf("task %d fired, but is not pending", i)
	}
	t := r.model[k]
	if t.due > r.h.hand {
		return fmt.Errorf("due at %d, fired early, at %d", t.due, r.h.hand)
	}
	for _, other := range r.model {
		if other.due < t.due {
			return fmt.Errorf("due at %d, fired before one due at %d", t.due, other.due)
		}
		if other.due == t.due && !t.moved && !other.moved && other.rank < t.rank {
			return fmt.Errorf("due at %d, the task added as number %d fired before number %d", t.due, t.rank, other.rank)
		}
	}
	r.note("  fired: due %d", t.due)
	r.tasks.remove(i)
	r.drop(k)
	r.fired++
	return nil
}

func (r *rig) check() error { return r.in.wheels(&r.h, &r.due, 0) }

// finish lets everything fire.
func (r *rig) finish(budget int) error {
	for len(r.model) > 0 || r.going {
		to := r.h.hand
		for _, t := range r.model {
			to = max(to, t.due)
		}
		if err := r.step(to, budget); err != nil {
			return err
		}
		if err := r.check(); err != nil {
			return err
		}
	}
	return nil
}

// A source of choices is a random generator or the bytes of a fuzzer.
type source interface{ intn(n int) int }

type random struct{ *rand.Rand }

func (r random) intn(n int) int { return r.IntN(n) }

// delay picks a distance: small ones, slot and level boundaries and the ticks
// around them, far ones.
func (r *rig) delay(s source) int64 {
	l := &r.h.levels[s.intn(len(r.h.levels))]
	switch s.intn(6) {
	case 0:
		return int64(s.intn(4))
	case 1: // around the next time a slot of this level comes round, or a later one
		to := (l.pos+1+int64(s.intn(len(l.slots)+1)))*l.unit - r.h.hand
		return to + int64(s.intn(3)) - 1
	case 2: // around a full turn
		return l.span + int64(s.intn(5)) - 2
	case 3:
		return int64(s.intn(int(min(l.span, 1<<30))))
	case 4: // the tick another task is due at
		if len(r.model) > 0 {
			return r.model[s.intn(len(r.model))].due - r.h.hand + int64(s.intn(2))
		}
		return l.unit
	default:
		return l.span*int64(s.intn(4)) + int64(s.intn(int(min(l.span, 1<<30))))
	}
}

// operate does one operation of a random program, and checks what must hold.
func (r *rig) operate(s source) error {
	var err error
	switch op := s.intn(12); {
	case op < 5 && len(r.model) < 300:
		err = r.add(max(r.least(), r.h.hand+r.delay(s)))
	case op < 7 && len(r.model) > 0:
		k := s.intn(len(r.model))
		if cursor := r.h.cursor; cursor != 0 && s.intn(2) == 0 {
			for k = range r.model {
				if r.model[k].i == cursor {
					break
				}
			}
		}
		err = r.cancel(k)
	case op < 9 && len(r.model) > 0:
		k := s.intn(len(r.model))
		err = r.reset(k, max(r.least(), r.h.hand+r.delay(s)))
	case op == 9 && r.h.stage == 0 && !r.going:
		to := r.h.hand + r.delay(s)
		r.note("skip to %d", to)
		before := r.h.hand
		r.h.skip(to)
		if next, ok := r.h.next(); r.h.hand != max(before, to) && (!ok || next > to) {
			err = fmt.Errorf("nothing to do up to %d, but the hand stays at %d", to, r.h.hand)
		}
	default:
		err = r.step(r.h.hand+max(r.delay(s), 0), []int{1, 1, 2, 3, 4, 512}[s.intn(6)])
	}
	if err == nil {
		err = r.check()
	}
	return err
}

// rings are the shapes that random programs run on: those of wheels, and small
// ones in which everything happens sooner.
var rings = [][]int{
	{3, 3, 2}, {2, 2, 2, 2}, {4, 3, 5}, {60, 60, 24}, {10, 60, 60, 24}, {64, 65, 3}, {1000, 60, 60, 24},
}

// seeds returns how often a test repeats with another seed, and the first seed.
// TIMINGWHEEL_SEED replays one, TIMINGWHEEL_LONG multiplies their number.
func seeds(t *testing.T, n int) (from, to uint64) {
	t.Helper()
	if s := os.Getenv("TIMINGWHEEL_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		return seed, seed + 1
	}
	if testing.Short() || raceEnabled {
		n /= 10
	}
	if long() {
		n *= 50
	}
	return 1, uint64(n) + 1
}

// long reports whether tests shall take minutes rather than seconds.
func long() bool { return os.Getenv("TIMINGWHEEL_LONG") != "" }

func TestHierarchyAgreesWithASortedList(t *testing.T) {
	from, to := seeds(t, 2500)
	for seed := from; seed < to; seed++ {
		s := random{rand.New(rand.NewPCG(seed, 0))}
		sizes := rings[s.intn(len(rings))]
		start := []int64{0, 1, 1<<31 - 100, 1<<32 - 100, 1<<36 - 100, 1<<53 - 100}[s.intn(6)]
		r := newRig(sizes, start)
		err := r.check()
		for range 300 {
			if err == nil {
				err = r.operate(s)
			}
		}
		if err == nil {
			err = r.finish(1 + s.intn(4))
		}
		require.NoError(t, r.fail(err), "replay with TIMINGWHEEL_SEED=%d: rings %v from tick %d", seed, sizes, start)
		require.Zero(t, r.tasks.used)
	}
}
