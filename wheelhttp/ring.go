package wheelhttp

import (
	"fmt"
	"math"
	"time"

	"github.com/fee15284/timingwheel"
)

// A ring is one wheel of the wheels, as it is drawn.
type ring struct {
	Name     string   `json:"name"`
	Unit     seconds  `json:"slot_seconds"`
	Occupied int      `json:"occupied"`
	Tasks    int      `json:"tasks"`
	Hand     int      `json:"hand"`
	Counts   []uint32 `json:"slots"`

	unit    time.Duration
	pos     int64 // slots that the hand has passed since start
	start   time.Time
	first   bool // the finest ring
	stopped bool // the hand moves no more
}

// ringsOf reads the rings of a snapshot, finest first.
func ringsOf(s *timingwheel.Snapshot) []ring {
	rings := make([]ring, len(s.Levels))
	unit := s.Tick
	for k, l := range s.Levels {
		pos := int64(s.Now.Sub(s.Start) / unit)
		// The hand may be a little behind the clock; by less than a turn, unless
		// the wheel is stopped.
		pos -= (pos - int64(l.Hand)) % int64(l.Slots)
		rings[k] = ring{
			Name: l.Name, Unit: secondsOf(unit), Occupied: l.Occupied, Tasks: l.Tasks, Hand: l.Hand, Counts: s.Slots[k],
			unit: unit, pos: pos, start: s.Start, first: k == 0, stopped: s.Stopped,
		}
		unit *= time.Duration(l.Slots)
	}
	return rings
}

// roundAt returns when the hand comes to a slot next. In its own slot it is, but
// what lies there in a coarser ring has a full turn to go.
func (r *ring) roundAt(slot int) time.Time {
	n := int64(len(r.Counts))
	ahead := (int64(slot) - int64(r.Hand) + n) % n
	if ahead == 0 && !r.first {
		ahead = n
	}
	return r.start.Add(time.Duration(r.pos+ahead) * r.unit)
}

// A segment is what is drawn of a ring in one piece: a slot, or several
// neighbours of a ring that has too many to be told apart.
type segment struct {
	from, to int // slots from..to-1
	tasks    uint64
}

// mostSegments is how many segments of a ring can be pointed at.
const mostSegments = 100

func (r *ring) segments() []segment {
	n := len(r.Counts)
	size := (n + mostSegments - 1) / mostSegments
	all := make([]segment, 0, mostSegments)
	for from := 0; from < n; from += size {
		s := segment{from: from, to: min(from+size, n)}
		for _, tasks := range r.Counts[s.from:s.to] {
			s.tasks += uint64(tasks)
		}
		all = append(all, s)
	}
	return all
}

func (s segment) slots() string {
	if s.to-s.from == 1 {
		return fmt.Sprintf("slot %d", s.from)
	}
	return fmt.Sprintf("slots %d to %d", s.from, s.to-1)
}

// shade returns how dark a segment is drawn. The root lets a slot with few tasks
// be seen beside one with many; the lightest is still to be told from empty.
func shade(tasks, most uint64) string {
	if tasks == 0 {
		return "0"
	}
	const steps = 20
	share := math.Sqrt(float64(tasks) / float64(most))
	return fmt.Sprintf("%.2f", 0.2+0.8*math.Ceil(share*steps)/steps)
}

// The picture is drawn around 0,0. The rings lie outside in, finest outside.
const (
	outerRadius = 200.0
	ringWidth   = 26.0
	ringGap     = 13.0
)

// radii returns the inner and the outer radius of ring k.
func radii(k int) (inner, outer float64) {
	outer = outerRadius - float64(k)*(ringWidth+ringGap)
	return outer - ringWidth, outer
}

// point returns a place on a circle, clockwise from the top, as a part of it.
func point(radius, part float64) (x, y float64) {
	sin, cos := math.Sincos(2 * math.Pi * part)
	return radius * sin, -radius * cos
}

// path returns the outline of a segment of ring k, of a ring of n slots.
func (s segment) path(k, n int) string {
	inner, outer := radii(k)
	from, to := float64(s.from)/float64(n), float64(s.to)/float64(n)
	gap := min(0.6/(2*math.Pi*outer), (to-from)/5) // a hair between neighbours
	x1, y1 := point(outer, from+gap)
	x2, y2 := point(outer, to-gap)
	x3, y3 := point(inner, to-gap)
	x4, y4 := point(inner, from+gap)
	return fmt.Sprintf("M%.2f %.2fA%g %g 0 0 1 %.2f %.2fL%.2f %.2fA%g %g 0 0 0 %.2f %.2fZ",
		x1, y1, outer, outer, x2, y2, x3, y3, inner, inner, x4, y4)
}

// angle is where the hand of a ring points: to the middle of its slot.
func (r *ring) angle() string {
	return fmt.Sprintf("rotate(%.2f)", (float64(r.Hand)+0.5)*360/float64(len(r.Counts)))
}

// A mark is a slot number beside a ring.
type mark struct {
	Slot int
	X, Y string
}

// marks numbers about a dozen slots of ring k.
func (r *ring) marks(k int) []mark {
	n := len(r.Counts)
	step := max(1, n/10)
	if n%12 == 0 {
		step = n / 12
	}
	_, outer := radii(k)
	var all []mark
	for slot := 0; slot <= n-step; slot += step {
		x, y := point(outer+ringGap/2, (float64(slot)+0.5)/float64(n))
		all = append(all, mark{slot, fmt.Sprintf("%.1f", x), fmt.Sprintf("%.1f", y)})
	}
	return all
}
