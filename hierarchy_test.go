package timingwheel

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A dial is a hierarchy with a note of what fell due when.
type dial struct {
	*rig
	t    *testing.T
	work int // steps of one unit of work: a stop of the hand, or a task moved or found due
}

func newDial(t *testing.T, sizes []int, start int64) *dial {
	return &dial{rig: newRig(sizes, start), t: t}
}

// put adds a task that is due so many ticks after the hand and returns its due tick.
func (d *dial) put(ahead int64) int64 {
	due := d.h.hand + ahead
	require.NoError(d.t, d.fail(d.add(due)))
	return due
}

// goTo moves the hand and returns how many tasks fired; the rig checks that they
// did so in order and not before their ticks.
func (d *dial) goTo(tick int64) int {
	before := d.fired
	for done := false; !done; done = !d.going {
		require.NoError(d.t, d.fail(d.step(tick, 1)))
		d.work++
	}
	require.NoError(d.t, d.fail(d.check()))
	return d.fired - before
}

var (
	tick1s = []int{60, 60, 24}
	tick1m = []int{1000, 60, 60, 24}
)

// hands are hand positions that between them stand at the beginning, the end and
// the middle of slots of every level. With step 1 a test goes through all.
func hands(turn int64, step int) []int64 {
	var all []int64
	for h := int64(0); h < turn; h += int64(step) {
		all = append(all, h)
	}
	for _, h := range []int64{0, 1, 59, 60, 61, 3540, 3599, 3600, 3601, 7199, 7200, 86340, 86399} {
		all = append(all, h, h+1000)
	}
	return all
}

// sweep is how many hand positions are left out: all are tried in a long run.
func sweep(step int) int {
	switch {
	case long():
		return 1
	case raceEnabled || testing.Short():
		return step * 16
	}
	return step
}

func TestEveryDelayFiresOnItsTickFromEveryHand(t *testing.T) {
	delays := []int64{1, 2, 58, 59, 60, 61, 119, 120, 121, 3599, 3600, 3601, 7199, 7200, 86399, 86400, 86401, 172800}
	for _, hand := range hands(86400, sweep(37)) {
		d := newDial(t, tick1s, hand)
		for _, delay := range delays {
			d.put(delay)
		}
		for _, delay := range delays {
			require.Zero(t, d.goTo(hand+delay-1), "hand %d, delay %d: early", hand, delay)
			require.Equal(t, 1, d.goTo(hand+delay), "hand %d, delay %d", hand, delay)
		}
	}
}

func TestEveryDelayOfTwoHoursFiresOnItsTick(t *testing.T) {
	for _, hand := range []int64{0, 1, 59, 60, 3540, 3599, 86399} {
		d := newDial(t, tick1s, hand)
		for delay := int64(1); delay <= 7300; delay += int64(sweep(1)) {
			d.h.turn(hand)
			due := d.put(delay)
			d.goTo(due - 1)
			require.Equal(t, 1, d.goTo(due), "hand %d, delay %d", hand, delay)
		}
	}
}

// From a callback at tick k a task may be added for any later tick: the hand
// stands at k then, on any boundary.
func TestATaskAddedWhileItsTickDrainsFiresExactlyThen(t *testing.T) {
	for _, hand := range hands(3700, sweep(1)) {
		for _, delay := range []int64{0, 1, 59, 60, 61, 3600} {
			d := newDial(t, tick1s, hand)
			first := d.put(3)
			d.put(3)
			require.NoError(t, d.step(first, 2)) // the hand stops, one task fires
			require.Equal(t, 1, d.fired)
			due := d.put(delay)
			require.Equal(t, 1+boolToInt(delay == 0), d.goTo(first), "hand %d, delay %d: tick %d", hand, delay, first)
			if delay > 0 {
				require.Zero(t, d.goTo(due-1), "hand %d, delay %d", hand, delay)
				require.Equal(t, 1, d.goTo(due), "hand %d, delay %d", hand, delay)
			}
		}
	}
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestACascadeOntoTheCurrentTickFiresInThatTick(t *testing.T) {
	for _, unit := range []int64{60, 3600, 86400, 7 * 86400} {
		for _, hand := range hands(3600, sweep(7)) {
			d := newDial(t, tick1s, hand)
			due := (hand/unit + 2) * unit // its slot comes round when it is due
			require.NoError(t, d.add(due))
			require.Zero(t, d.goTo(due-1), "hand %d, unit %d", hand, unit)
			require.Equal(t, 1, d.goTo(due), "hand %d, unit %d", hand, unit)
		}
	}
}

func TestAFarTaskInTheSlotOfTheHandHidesNobody(t *testing.T) {
	for _, hand := range hands(86400, sweep(97)) {
		d := newDial(t, tick1s, hand)
		far := d.put(86400 + 600)
		for _, ahead := range []int64{1, 30, 59, 60, 90, 3600, 5000} {
			near := d.put(ahead)
			next, ok := d.h.next()
			require.True(t, ok && next <= near, "hand %d: a task at %d, next is %d", hand, near, next)
			require.NoError(t, d.cancel(1))
		}
		near := d.put(5000)
		require.Equal(t, 1, d.goTo(near), "hand %d", hand)
		require.Zero(t, d.goTo(far-1), "hand %d", hand)
		require.Equal(t, 1, d.goTo(far), "hand %d", hand)
	}
}

func TestALaterTaskOfAFinerLevelDoesNotOvertake(t *testing.T) {
	for _, hand := range hands(3600, sweep(1)) {
		d := newDial(t, tick1s, hand)
		first := d.put(61)
		d.goTo(hand + 50)
		second := d.put(20)
		require.Equal(t, hand+70, second)
		require.Equal(t, 1, d.goTo(first), "hand %d", hand)
		require.Equal(t, 1, d.goTo(second), "hand %d", hand)
	}
}

func TestATaskOfAnEarlierDayInTheSameHourSlotIsNotHidden(t *testing.T) {
	for _, hand := range hands(86400, sweep(101)) {
		d := newDial(t, tick1s, hand)
		day3 := d.put(3*86400 + 7000)
		d.goTo(hand + 86400 + 10) // the slot has come round before its day
		day2 := d.put(86400 + 6990)
		require.Equal(t, hand+2*86400+7000, day2)
		require.Zero(t, d.goTo(day2-1), "hand %d", hand)
		require.Equal(t, 1, d.goTo(day2), "hand %d", hand)
		require.Zero(t, d.goTo(day3-1), "hand %d", hand)
		require.Equal(t, 1, d.goTo(day3), "hand %d", hand)
	}
}

func TestFarTasksFireOnTheirTick(t *testing.T) {
	day := int64(86400)
	for _, ahead := range []int64{25 * 3600, 8*day + 3*3600, 400 * day, 5 * 365 * day, 200 * 365 * day} {
		for _, sizes := range [][]int{tick1s, tick1m} {
			d := newDial(t, sizes, 12345)
			unit := int64(len(d.h.levels[0].slots)) / 60
			if len(sizes) == 4 {
				unit = 1000
			}
			due := d.put(ahead * unit)
			require.Zero(t, d.goTo(due-1), "%d s ahead", ahead)
			require.Equal(t, 1, d.goTo(due), "%d s ahead", ahead)
			require.Less(t, d.work, 20, "the hand must not stop day after day")
		}
	}
}

func TestATaskAtTheEndOfTimeNeverFiresAndCanBeCancelled(t *testing.T) {
	for _, due := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / int64(1e9), math.MaxInt64/int64(1e6) + 1} {
		for _, hand := range []int64{0, 1, 86399, 1 << 40} {
			if due <= hand {
				continue
			}
			d := newDial(t, tick1s, hand)
			require.NoError(t, d.fail(d.add(due)))
			near := d.put(100)
			require.Equal(t, 1, d.goTo(near))
			require.Zero(t, d.goTo(due-1))
			require.NoError(t, d.cancel(0))
			require.NoError(t, d.check())
			require.Zero(t, d.h.count())
		}
	}
}

// The order within a tick must survive any way down: an hour slot, a minute slot
// and direct adds, where an hour and a minute slot drain in the same tick, too.
func TestOrderWithinATickSurvivesEveryWayDown(t *testing.T) {
	for _, offset := range []int64{0, 1, 23, 59, 60, 61, 3599} {
		for _, base := range []int64{51 * 3600, 24 * 3600, 60 * 3600} {
			due := base + offset
			d := newDial(t, tick1s, due-49*3600)
			steps := []int64{49 * 3600, 25 * 3600, 24*3600 + 1, 5 * 3600, 3601, 3600, 3599, 3541, 120, 61, 60, 59, 23, 2, 1}
			for _, before := range steps {
				d.goTo(due - before)
				for range 3 {
					require.NoError(t, d.fail(d.add(due)))
				}
			}
			require.Zero(t, d.goTo(due-1))
			require.Equal(t, 3*len(steps), d.goTo(due), "due at %d", due)
		}
	}
}

func TestOrderHoldsForTicksAtAndAfterAFullHourFromEveryDistance(t *testing.T) {
	// Every pair of distances from which two tasks of one tick can be added.
	distances := []int64{86400 + 3600, 86400, 83000, 7200, 3660, 3601, 3600, 3599, 3540, 1800, 61, 60, 59, 1}
	for after := int64(0); after < 62; after += int64(sweep(1)) {
		due := int64(100*3600) + after
		for a, far := range distances {
			d := newDial(t, tick1s, due-far)
			require.NoError(t, d.fail(d.add(due)))
			for _, near := range distances[a+1:] {
				d.goTo(due - near)
				require.NoError(t, d.fail(d.add(due)))
			}
			require.Equal(t, len(distances)-a, d.goTo(due), "due at %d", due)
		}
	}
}

func TestTheHandRunsAcrossPowersOfTwo(t *testing.T) {
	for _, power := range []int{31, 32, 36, 53} {
		for _, before := range []int64{1, 2, 59, 60, 61, 3599, 3600, 86399, 86400, 86401} {
			d := newDial(t, tick1s, 1<<power-before)
			var dues []int64
			for _, ahead := range []int64{1, 2, 59, 60, 61, 3599, 3600, 3601, 86399, 86400, 86401, 172800} {
				dues = append(dues, d.put(ahead))
			}
			for _, due := range dues {
				require.Zero(t, d.goTo(due-1), "2^%d-%d", power, before)
				require.Equal(t, 1, d.goTo(due), "2^%d-%d", power, before)
			}
		}
	}
}

// One jump costs work in proportion to the tasks and slots, not to the ticks.
func TestAJumpFiresEachTaskOnceAndVisitsNoEmptySlot(t *testing.T) {
	for _, ticks := range []int64{7, 3600, 86400, 5 * 365 * 86400} {
		for _, tasks := range []int{0, 1, 100, 20_000} {
			d := newDial(t, tick1s, 3599)
			d.quiet = true
			spread := max(1, ticks/int64(max(tasks, 1)))
			for n := range tasks {
				i := d.tasks.add(nil, nil, 0)
				d.tasks.at(i).due = d.h.hand + 1 + min(ticks-1, int64(n)*spread)
				d.h.put(i, false)
			}
			work, stops, fired, last := 0, 0, 0, int64(0)
			for done := false; !done; work++ {
				before := d.h.hand
				done = d.h.advance(3599+ticks, &d.due, 1)
				if d.h.hand != before {
					stops++
				}
				for ; !d.due.empty(); fired++ {
					i := d.due.head
					require.GreaterOrEqual(t, d.tasks.at(i).due, last)
					last = d.tasks.at(i).due
					d.due.remove(&d.tasks, i)
					d.tasks.remove(i)
				}
			}
			require.Equal(t, tasks, fired)
			require.LessOrEqual(t, stops, 3*tasks+1, "jump of %d ticks over %d tasks", ticks, tasks)
			if ticks <= 86400 {
				// Beyond a day an hour slot also walks the tasks of its later days.
				require.LessOrEqual(t, work, 7*tasks+1, "jump of %d ticks over %d tasks", ticks, tasks)
			}
			require.NoError(t, d.check())
		}
	}
}

func TestAMinimumThatWasCancelledCostsOneStopInVain(t *testing.T) {
	d := newDial(t, tick1s, 5)
	d.put(40*86400 + 5000)
	for range 300 { // each lowers the minimum of the slot, and leaves
		d.put(86400 + 5000)
		require.NoError(t, d.cancel(1))
		require.NoError(t, d.check())
	}
	require.Zero(t, d.goTo(39*86400))
	require.LessOrEqual(t, d.work, 3)
	require.Equal(t, 1, d.goTo(41*86400))
}

func TestEveryTaskOfACascadeCanBeCancelledWhileItRuns(t *testing.T) {
	for _, sizes := range [][]int{tick1s, {3, 3, 2}} {
		span := int64(sizes[0])
		for _, unit := range []int64{span, span * int64(sizes[1])} {
			for _, first := range []bool{true, false} {
				d := newDial(t, sizes, 1)
				for range 50 {
					require.NoError(t, d.add(2*unit))
					require.NoError(t, d.add(2*unit+1))
				}
				require.NoError(t, d.step(2*unit+1, 10))
				for k := 0; len(d.model) > 0; k++ {
					victim := 0
					if !first {
						victim = len(d.model) - 1
					}
					require.NoError(t, d.cancel(victim))
					require.NoError(t, d.fail(d.check()))
					if k%3 == 0 {
						require.NoError(t, d.fail(d.step(2*unit+1, 1)))
					}
				}
				require.Zero(t, d.goTo(3*unit)+d.h.count())
			}
		}
	}
}

// A Reset to a later tick leaves the task where it is until its slot comes round.
func TestResetMovesATaskToItsNewTickFromEveryHand(t *testing.T) {
	changes := []int64{1, 2, 59, 60, 61, 3599, 3600, 3601, 86400, 100000}
	for _, hand := range hands(3700, sweep(13)) {
		for _, from := range changes {
			for _, to := range changes {
				d := newDial(t, tick1s, hand)
				d.put(from)
				due := hand + to
				require.NoError(t, d.reset(0, due))
				require.NoError(t, d.check())
				require.Zero(t, d.goTo(due-1), "hand %d, from %d to %d", hand, from, to)
				require.Equal(t, 1, d.goTo(due), "hand %d, from %d to %d", hand, from, to)
			}
		}
	}
}

func TestATimeoutThatIsPutOffAgainAndAgainFiresOnceAtTheEnd(t *testing.T) {
	for _, delay := range []int64{2, 59, 60, 61, 900, 3600, 90000} {
		d := newDial(t, tick1s, 17)
		d.put(delay)
		for range 500 {
			require.Zero(t, d.goTo(d.h.hand+1))
			require.NoError(t, d.reset(0, d.h.hand+delay))
		}
		due := d.h.hand + delay
		require.Zero(t, d.goTo(due-1))
		require.Equal(t, 1, d.goTo(due))
	}
}

func TestSkipNeverPassesASlotThatIsOccupied(t *testing.T) {
	for _, hand := range hands(3700, sweep(1)) {
		d := newDial(t, tick1s, hand)
		for _, ahead := range []int64{1, 60, 61, 3600, 86400} {
			due := d.put(ahead)
			next, _ := d.h.next()
			d.h.skip(next)
			require.Equal(t, hand, d.h.hand)
			d.h.skip(next - 1)
			require.Equal(t, next-1, d.h.hand)
			d.h.skip(hand) // never back
			require.Equal(t, next-1, d.h.hand)
			require.Equal(t, 1, d.goTo(due))
			hand = d.h.hand
		}
		d.h.skip(hand + 1e6) // nothing is pending
		require.Equal(t, hand+1e6, d.h.hand)
	}
}

func TestAdvanceByTwoCallersWithDifferentEndsLosesNothing(t *testing.T) {
	d := newDial(t, tick1s, 0)
	for range 10 {
		d.put(60)
		d.put(61)
	}
	require.False(t, d.h.advance(61, &d.due, 5))
	require.Equal(t, int64(60), d.h.hand)
	require.True(t, d.h.advance(59, &d.due, 5), "the hand is beyond 59 already")
	require.NotZero(t, d.h.stage, "and still at work")
	require.True(t, d.h.advance(61, &d.due, 1000))
	require.Equal(t, 20, d.due.count)
}

func TestTheHandNeverGoesBack(t *testing.T) {
	d := newDial(t, tick1s, 3700)
	for _, far := range []bool{false, true} {
		if far {
			d.put(200)
		}
		for _, to := range []int64{3699, 60, 0, -1} {
			require.True(t, d.h.advance(to, &d.due, 10))
			require.Equal(t, int64(3700), d.h.hand)
			require.NoError(t, d.check())
		}
	}
}

func TestTheRingsOfEveryTickAreSound(t *testing.T) {
	for sizes, n := range map[string]int{"[60 60 24]": 1, "[2 60 60 24]": 2, "[1000 60 60 24]": 1000, "[64 60 60 24]": 64, "[65 60 60 24]": 65} {
		rings := tick1s
		if n > 1 {
			rings = append([]int{n}, tick1s...)
		}
		require.Equal(t, sizes, fmt.Sprint(rings))
		d := newDial(t, rings, int64(n)*3599)
		for _, ahead := range []int{1, n - 1, n, n + 1, 59*n + 1, 60 * n, 3600*n - 1, 3600 * n, 86400 * n} {
			if ahead > 0 {
				d.put(int64(ahead))
			}
		}
		dues := []int64{}
		for _, task := range d.model {
			dues = append(dues, task.due)
		}
		slices.Sort(dues)
		for _, due := range slices.Compact(dues) {
			d.goTo(due - 1)
			require.NotZero(t, d.goTo(due))
		}
		require.Empty(t, d.model)
	}
}
