package proof

import (
	"testing"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheeltest"
	"github.com/jonboulle/clockwork"
	testclock "k8s.io/utils/clock/testing"
)

// A clockUnderTest is another package's fake.
type clockUnderTest struct {
	clock timingwheel.Clock
	now   func() time.Time
	move  func(time.Duration)
}

func clocks() map[string]func() clockUnderTest {
	return map[string]func() clockUnderTest{
		"clockwork": func() clockUnderTest {
			fake := clockwork.NewFakeClock()
			return clockUnderTest{timingwheel.ClockOf(fake), fake.Now, fake.Advance}
		},
		"k8s": func() clockUnderTest {
			fake := testclock.NewFakeClock(time.Unix(1e9, 0))
			return clockUnderTest{timingwheel.ClockOf(fake), fake.Now, fake.Step}
		},
	}
}

func TestOtherFakeClocksDriveAWheelWithoutAnAdapter(t *testing.T) {
	for name, newClock := range clocks() {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			w, err := timingwheel.New(timingwheel.Options{Clock: c.clock, Concurrency: 1})
			if err != nil {
				t.Fatal(err)
			}
			start := c.now()
			var at []time.Duration
			note := func() { at = append(at, c.now().Sub(start)) }
			for _, d := range []time.Duration{1, time.Second, time.Minute, time.Hour, 26 * time.Hour} {
				if _, err := w.Add(d, note); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := w.Add(2*time.Second, func() {
				note()
				if _, err := w.Add(2*time.Second, note); err != nil {
					t.Error(err)
				}
			}); err != nil {
				t.Fatal(err)
			}
			wheeltest.Advance(w, c.move, 30*time.Hour)
			want := []time.Duration{time.Second, time.Second, 2 * time.Second, 4 * time.Second, time.Minute, time.Hour, 26 * time.Hour}
			if len(at) != len(want) {
				t.Fatalf("%v, not %v", at, want)
			}
			for k := range want {
				if at[k] != want[k] {
					t.Fatalf("%v, not %v", at, want)
				}
			}
		})
	}
}

// Without Sync: the fake's own call of the alarm must be enough.
func TestTheAlarmsOfOtherFakeClocksWakeAWheel(t *testing.T) {
	for name, newClock := range clocks() {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			w, err := timingwheel.New(timingwheel.Options{Clock: c.clock})
			if err != nil {
				t.Fatal(err)
			}
			for range 200 {
				ran := []chan struct{}{}
				for _, d := range []time.Duration{time.Second, time.Minute, time.Hour} {
					fired := make(chan struct{})
					if _, err := w.Add(d, func() { close(fired) }); err != nil {
						t.Fatal(err)
					}
					ran = append(ran, fired)
				}
				c.move(time.Hour)
				for _, fired := range ran {
					<-fired
				}
			}
			w.Sync()
			if n := w.Len(); n != 0 {
				t.Fatalf("%d tasks are left", n)
			}
		})
	}
}
