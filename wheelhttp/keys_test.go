package wheelhttp

import (
	"strconv"
	"testing"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/stretchr/testify/require"
)

// The page is asked for one order at each point of its way.
func TestLookupSaysWhyAnOrderHasNotExpired(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Concurrency: 1})
	began, goOn := make(chan struct{}), make(chan struct{})
	orders := timingwheel.NewKeyed(w, func(string) { began <- struct{}{}; <-goOn })
	h := only(w, Lookup("order", orders, nil, func(key string) string { return key + " is unpaid" }))
	ask := func(key string) answer {
		t.Helper()
		r := jsonOf(t, h, "&key="+key)
		require.Len(t, r.Answers, 1)
		require.Equal(t, key, r.Answers[0].Key)
		require.Equal(t, key+" is unpaid", r.Answers[0].Said)
		return r.Answers[0]
	}
	require.Equal(t, "absent", ask("7").State)

	require.NoError(t, orders.Add("7", 15*time.Minute))
	require.NoError(t, orders.Add("8", 15*time.Minute))
	a := ask("7")
	require.Equal(t, "waiting", a.State)
	require.Equal(t, "It is not time yet: its deadline is at 00:15:00, in 15 min.", a.Verdict)
	require.Contains(t, a.Advice, "slot 15 of the minutes ring. The hand gets there at 00:15:00")
	require.Contains(t, get(h, "GET", "/?key=7").Body.String(), `class="slot marked"`)

	mock.Add(14*time.Minute + 50*time.Second)
	require.True(t, orders.Reset("8", 10*time.Second+time.Minute))
	a = ask("8")
	require.Contains(t, a.Verdict, "deadline is at 00:16:00, in 1 min 10 s")
	require.Contains(t, a.Advice, "moves to a slot nearer to its deadline")
	require.True(t, orders.Reset("8", 10*time.Second))

	mock.Add(10 * time.Second)
	<-began
	mock.Add(43 * time.Second)
	running, due := ask("7"), ask("8")
	if running.State != "running" {
		running, due = due, running // Reset moved one of them within the tick
	}
	require.Equal(t, "running", running.State)
	require.Contains(t, running.Verdict, "and has not returned for 43 s")
	require.Equal(t, "due", due.State)
	require.Contains(t, due.Verdict, "Its deadline was at 00:15:00, 43 s ago, but its callback has not started. It is in the backlog of 1 task.")
	require.Contains(t, due.Advice, "The only place for callbacks (Options.Concurrency) is taken, for 43 s")

	goOn <- struct{}{}
	<-began
	goOn <- struct{}{}
	w.Sync()
	require.Equal(t, "absent", ask("7").State)

	require.NoError(t, orders.Add("9", time.Minute))
	w.Stop()
	a = ask("9")
	require.Equal(t, "stopped", a.State)
	require.Contains(t, a.Verdict, "It will not expire: the wheel is stopped.")
	require.Contains(t, get(h, "GET", "/").Body.String(), "1 task, the hand comes never")
}

func TestLookupSaysWhenTheHandIsLate(t *testing.T) {
	now := time.Unix(100, 0).UTC()
	r := &wheelReport{Now: now, Rings: []ring{{Name: "seconds", Counts: make([]uint32, 60), unit: time.Second, start: time.Unix(0, 0).UTC(), first: true}}}
	var a answer
	a.waiting(now, timingwheel.Place{Deadline: now.Add(-3 * time.Second), Slot: 37}, r)
	require.Equal(t, "Its deadline was at 00:01:37, 3 s ago, and the hand has not come to it yet.", a.Verdict)
	require.Contains(t, a.Advice, "slot 37 of the seconds ring")
}

func TestLookupReadsKeysAsTheHostSays(t *testing.T) {
	w, _ := newWheel(t, timingwheel.Options{})
	numbers := timingwheel.NewKeyed(w, func(int) {})
	require.NoError(t, numbers.Add(42, time.Minute))
	type name string
	names := timingwheel.NewKeyed(w, func(name) {})
	elsewhere, _ := newWheel(t, timingwheel.Options{})
	others := timingwheel.NewKeyed(elsewhere, func(string) {})
	require.NoError(t, others.Add("42", time.Minute))
	h := only(w,
		Lookup("number", numbers, strconv.Atoi, nil),
		Lookup("name", names, nil, nil),
		Lookup("other", others, nil, nil),
		Lookup[string]("nil", nil, nil, nil),
		Lookup("none", timingwheel.NewKeyed(nil, func(string) {}), nil, nil),
	)
	r := jsonOf(t, h, "&key=42")
	require.Len(t, r.Answers, 3)
	require.Equal(t, "waiting", r.Answers[0].State)
	require.Equal(t, "invalid", r.Answers[1].State)
	require.Contains(t, r.Answers[1].Verdict, "has not said how to read a key of type wheelhttp.name")
	require.Equal(t, "waiting", r.Answers[2].State, "on a wheel that is not drawn")
	require.Empty(t, r.Answers[2].Wheel)
	require.Equal(t, "invalid", jsonOf(t, h, "&key=x").Answers[0].State)
	require.Contains(t, get(only(w), "GET", "/?key=x").Body.String(), "has not registered any keys")
	require.Equal(t, 1, countOf(get(h, "GET", "/?key=42").Body.String(), "slot marked"), "only in the wheel it is on")
}
