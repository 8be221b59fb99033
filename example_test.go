package timingwheel_test

import (
	"context"
	"fmt"
	"log"
	"slices"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheeltest"
)

// An unpaid order is cancelled after 15 minutes; paying it cancels the timeout.
func ExampleKeyed() {
	w, err := timingwheel.New(timingwheel.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Stop()

	unpaid := timingwheel.NewKeyed(w, func(orderID string) {
		fmt.Println("cancel order", orderID) // runs on a goroutine of the wheel
	})

	// When the order is created:
	if err := unpaid.Add("A-1001", 15*time.Minute); err != nil {
		log.Fatal(err)
	}
	// When it is paid:
	inTime := unpaid.Cancel("A-1001") // false: too late, or unknown

	fmt.Println(inTime, unpaid.Len())
	// Output: true 0
}

func ExampleWheel_Add() {
	w, err := timingwheel.New(timingwheel.Options{Tick: time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Stop()

	done := make(chan struct{})
	if _, err := w.Add(5*time.Millisecond, func() { close(done) }); err != nil {
		log.Fatal(err)
	}
	<-done
	fmt.Println("fired")
	// Output: fired
}

func ExampleWheel_Cancel() {
	w, err := timingwheel.New(timingwheel.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Stop()

	task, err := w.Add(time.Minute, func() { fmt.Println("never printed") })
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(w.Cancel(task), w.Cancel(task), w.Len())
	// Output: true false 0
}

// A fake clock moves only when the test moves it. Sync waits for the callbacks,
// so there is nothing to sleep for.
func ExampleWheel_Sync() {
	mock := clock.NewMock()
	w, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(mock)})
	if err != nil {
		log.Fatal(err)
	}
	_, err = w.Add(15*time.Minute, func() { fmt.Println("expired") })
	if err != nil {
		log.Fatal(err)
	}

	mock.Add(15*time.Minute - 1)
	w.Sync()
	fmt.Println("not yet")
	mock.Add(1)
	w.Sync()
	// Output:
	// not yet
	// expired
}

// wheeltest.Advance stops at every instant at which something is due, so that
// the clock shows each callback its own time.
func ExampleWheel_AddEvery() {
	mock := clock.NewMock()
	w, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(mock)})
	if err != nil {
		log.Fatal(err)
	}
	_, err = w.AddEvery(20*time.Second, func() { fmt.Println(mock.Now().UTC().Format(time.TimeOnly)) })
	if err != nil {
		log.Fatal(err)
	}
	wheeltest.Advance(w, mock.Add, time.Minute)
	// Output:
	// 00:00:20
	// 00:00:40
	// 00:01:00
}

// What has not started when the wheel is stopped stays listed, so that the host
// can save it.
func ExampleWheel_Pending() {
	mock := clock.NewMock()
	w, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(mock)})
	if err != nil {
		log.Fatal(err)
	}
	orders := timingwheel.NewKeyed(w, func(string) {})
	for n, id := range []string{"A-1001", "A-1002"} {
		if err := orders.Add(id, time.Duration(n+1)*time.Minute); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Shutdown(context.Background()); err != nil {
		log.Fatal(err)
	}
	var lines []string
	for id, due := range orders.Pending() {
		lines = append(lines, fmt.Sprint(id, " is due at ", due.UTC().Format(time.TimeOnly)))
	}
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	// Output:
	// A-1001 is due at 00:01:00
	// A-1002 is due at 00:02:00
}

func TestUnpaidOrderIsCancelledAfter15Minutes(t *testing.T) {
	mock := clock.NewMock() // github.com/benbjohnson/clock
	w, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(mock)})
	require.NoError(t, err)
	var cancelled []string
	unpaid := timingwheel.NewKeyed(w, func(id string) { cancelled = append(cancelled, id) })
	require.NoError(t, unpaid.Add("A-1001", 15*time.Minute))

	mock.Add(15*time.Minute - 1)
	w.Sync() // returns when all callbacks due by now have returned
	require.Empty(t, cancelled)

	mock.Add(1)
	w.Sync()
	require.Equal(t, []string{"A-1001"}, cancelled)
}
