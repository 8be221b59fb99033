package main

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/fee15284/timingwheel"
)

// A session is what one host asked for without a long pause.
type session struct {
	host        string
	first, last time.Time
	requests    int
}

// A logClock is the time in the log: it moves when replay moves it, in whole
// seconds, and goroutines of the wheel read it meanwhile.
type logClock struct{ unix atomic.Int64 }

func (c *logClock) Now() time.Time { return time.Unix(c.unix.Load(), 0) }

// AfterFunc need not call f: replay calls Sync after each move of the clock.
func (c *logClock) AfterFunc(time.Duration, func()) noTimer { return noTimer{} }

type noTimer struct{}

func (noTimer) Stop() bool { return true }

// replay cuts requests, which are in the order of their times, into sessions, in
// the order in which these end. A host that has been silent for idle is timed out
// by the wheel; a request at that very instant is the first of a new session.
//
// The log has whole seconds and the wheel starts at one of them, so with ticks of
// a second nothing is rounded that matters.
func replay(requests []request, idle time.Duration) ([]session, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	first, last := requests[0].at, requests[len(requests)-1].at
	if last.Sub(first) == math.MaxInt64 {
		return nil, fmt.Errorf("the log goes from %v to %v, at most 292 years can be replayed", first, last)
	}
	clock := new(logClock)
	clock.unix.Store(first.Unix())
	w, err := timingwheel.New(timingwheel.Options{
		Tick:        time.Second,
		Clock:       timingwheel.ClockOf(clock),
		Concurrency: 1, // so that end is not called twice at once
	})
	if err != nil {
		return nil, err
	}
	var ended []session
	open := make(map[string]*session)
	end := func(host string) {
		ended = append(ended, *open[host])
		delete(open, host)
	}
	silence := timingwheel.NewKeyed(w, end)
	for _, r := range requests {
		clock.unix.Store(r.at.Unix())
		w.Sync() // returns when end has, so they need no lock for what they share
		if !silence.Reset(r.host, idle) {
			if err := silence.Add(r.host, idle); err != nil {
				return nil, err
			}
			open[r.host] = &session{host: r.host, first: r.at}
		}
		open[r.host].last = r.at
		open[r.host].requests++
	}
	// The log ends before these sessions do. A stopped wheel still lists them.
	w.Stop()
	for host := range silence.Pending() {
		end(host)
	}
	return ended, nil
}
