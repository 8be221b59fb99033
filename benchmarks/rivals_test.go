package main

import (
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fireOneOfThree adds three timeouts, cancels one and moves one away.
func fireOneOfThree[H any, T timers[H]](t *testing.T, open func(time.Duration) T) {
	synctest.Test(t, func(t *testing.T) {
		begin, timers := time.Now(), open(time.Second)
		var first, second, third atomic.Int32
		timers.add(10*time.Second, func() { first.Add(1) })
		h := timers.add(10*time.Second, func() { second.Add(1) })
		moved := timers.add(10*time.Second, func() { third.Add(1) })
		if !timers.cancel(h) || !timers.reset(moved, 30*time.Second) {
			t.Error("a pending timeout can be cancelled and moved")
		}
		for _, step := range []struct {
			until       time.Duration
			first, last int32
		}{{8 * time.Second, 0, 0}, {12 * time.Second, 1, 0}, {32 * time.Second, 1, 1}} {
			time.Sleep(step.until - time.Since(begin))
			synctest.Wait()
			if first.Load() != step.first || second.Load() != 0 || third.Load() != step.last {
				t.Errorf("after %v callbacks ran %d, %d and %d times", step.until, first.Load(), second.Load(), third.Load())
			}
		}
		timers.close()
	})
}

func TestContendersFireCancelAndReset(t *testing.T) {
	t.Run("wheel", func(t *testing.T) { fireOneOfThree(t, openWheel) })
	t.Run("afterfunc", func(t *testing.T) { fireOneOfThree(t, openAfterFunc) })
	t.Run("heap", func(t *testing.T) { fireOneOfThree(t, openHeap) })
	t.Run("gozero", func(t *testing.T) { fireOneOfThree(t, openGoZero) })
}

func TestKeyedContendersReplaceAndCancel(t *testing.T) {
	for name, open := range map[string]func() keyedTimers{
		"wheel":     func() keyedTimers { return openKeyed() },
		"afterfunc": func() keyedTimers { return &timerMap{timers: map[string]*time.Timer{}} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				timers := open()
				before := orders.Load()
				timers.put("a", time.Second)
				timers.put("a", time.Minute)
				timers.put("b", time.Second)
				timers.cancel("b")
				time.Sleep(30 * time.Second)
				synctest.Wait()
				if n := orders.Load() - before; n != 0 {
					t.Errorf("%d keys expired early", n)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := orders.Load() - before; n != 1 {
					t.Errorf("%d keys expired, want 1", n)
				}
			})
		})
	}
}

func TestInterleavingTakesTurns(t *testing.T) {
	var order strings.Builder
	b := newBench(true, 3, io.Discard)
	b.interleave("letters", b.rounds, func() { order.WriteByte('a') }, func() { order.WriteByte('b') })
	if order.String() != "ababab" {
		t.Errorf("order is %q", order.String())
	}
}

func TestJumpRecordsEveryCallback(t *testing.T) {
	b := newBench(true, 1, io.Discard)
	spread(b, 1000)
	if s := b.results.sample("JumpAnHour/impl=wheel/due=1000", "ns/task"); len(s) != 1 || s[0] <= 0 {
		t.Errorf("sample = %v", s)
	}
}

func TestVolleyEndsWithItsLastCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVolley(3)
		for i := range 3 {
			time.AfterFunc(time.Duration(i+1)*time.Second, v.callback(i))
		}
		b := newBench(true, 1, io.Discard)
		v.record(b, "x")
		if s := b.results.sample("FireAtOnce/impl=x/due=3", "ns/task"); len(s) != 1 || s[0] != 2e9/3.0 {
			t.Errorf("sample = %v, want 2 s over 3 callbacks", s)
		}
	})
}
