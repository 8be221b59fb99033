package timingwheel_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
)

// A firing is one callback of a script.
type firing struct {
	name int
	at   time.Duration
}

// A timerService is what a script needs: the wheel, or time.AfterFunc.
type timerService struct {
	add    func(d time.Duration, fn func()) (handle any)
	cancel func(handle any) bool
	reset  func(handle any, d time.Duration) bool
}

// script runs the program of a seed in a bubble and returns what fired when, and
// what Cancel and Reset said. Deadlines are whole ticks and operations come half
// a tick off, so that the two services must agree exactly where the wheel does not
// round, and within a tick where it does.
func script(t *testing.T, seed uint64, tick time.Duration, whole bool, service func() timerService) (fired []firing, said []bool) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		start := time.Now()
		s := service()
		rng := rand.New(rand.NewPCG(seed, 9))
		handles := []any{}
		delay := func() time.Duration {
			unit := []time.Duration{tick, time.Second, time.Minute, time.Hour}[rng.IntN(4)]
			d := unit * time.Duration(1+rng.IntN(90))
			if !whole {
				d += time.Duration(rng.Int64N(int64(tick)))
			}
			return d
		}
		for name := range 120 {
			switch op := rng.IntN(6); {
			case op < 3 || len(handles) == 0:
				handles = append(handles, s.add(delay(), func() {
					mu.Lock()
					defer mu.Unlock()
					fired = append(fired, firing{name, time.Since(start)})
				}))
			case op == 3:
				said = append(said, s.cancel(handles[rng.IntN(len(handles))]))
			case op == 4:
				said = append(said, s.reset(handles[rng.IntN(len(handles))], delay()))
			default:
				d := delay()
				if whole {
					d = max(d/tick*tick, tick)
				}
				time.Sleep(d)
				synctest.Wait()
			}
		}
		time.Sleep(1000 * time.Hour)
		synctest.Wait()
	})
	return fired, said
}

func wheelService(t *testing.T, tick time.Duration) func() timerService {
	return func() timerService {
		w, err := timingwheel.New(timingwheel.Options{Tick: tick})
		require.NoError(t, err)
		return timerService{
			add: func(d time.Duration, fn func()) any { return mustAdd(t, w, d, fn) },
			cancel: func(handle any) bool {
				return w.Cancel(handle.(timingwheel.Task))
			},
			reset: func(handle any, d time.Duration) bool {
				return w.Reset(handle.(timingwheel.Task), d)
			},
		}
	}
}

func afterFuncService() timerService {
	return timerService{
		add:    func(d time.Duration, fn func()) any { return time.AfterFunc(d, fn) },
		cancel: func(handle any) bool { return handle.(*time.Timer).Stop() },
		reset: func(handle any, d time.Duration) bool {
			// Reset of a timer that is no longer active would start it again.
			if !handle.(*time.Timer).Stop() {
				return false
			}
			handle.(*time.Timer).Reset(d)
			return true
		},
	}
}

func byTimeAndName(a, b firing) int {
	if a.at != b.at {
		return int(a.at - b.at)
	}
	return a.name - b.name
}

func TestTheWheelAgreesWithAfterFunc(t *testing.T) {
	for _, tick := range []time.Duration{time.Second, 100 * time.Millisecond, time.Millisecond} {
		for seed := range uint64(some(150, 20)) {
			what := fmt.Sprintf("seed %d, tick %v", seed, tick)
			got, said := script(t, seed, tick, true, wheelService(t, tick))
			want, wanted := script(t, seed, tick, true, afterFuncService)
			require.Equal(t, wanted, said, "what Cancel and Reset say; %s", what)
			require.True(t, slices.IsSortedFunc(got, func(a, b firing) int { return int(a.at - b.at) }), what)
			slices.SortFunc(got, byTimeAndName) // AfterFunc has no order within an instant
			slices.SortFunc(want, byTimeAndName)
			require.Equal(t, want, got, what)

			got, _ = script(t, seed, tick, false, func() timerService {
				s := wheelService(t, tick)()
				s.cancel = func(any) bool { return false }
				s.reset = func(any, time.Duration) bool { return false }
				return s
			})
			want, _ = script(t, seed, tick, false, func() timerService {
				s := afterFuncService()
				s.cancel = func(any) bool { return false }
				s.reset = func(any, time.Duration) bool { return false }
				return s
			})
			exact := map[int]time.Duration{}
			for _, f := range want {
				exact[f.name] = f.at
			}
			require.Len(t, got, len(want), what)
			for k, f := range got {
				require.Equal(t, roundUp(exact[f.name], tick), f.at, "%s: task %d", what, f.name)
				if k > 0 && got[k-1].at == f.at {
					continue // one tick of the wheel: the order of adding
				}
				require.True(t, k == 0 || exact[got[k-1].name] < exact[f.name], what)
			}
		}
	}
}
