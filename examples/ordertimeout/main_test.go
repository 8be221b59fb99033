package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
)

// plan returns what parse makes of some flags.
func plan(t *testing.T, args ...string) config {
	t.Helper()
	var said strings.Builder
	c, err := parse(args, &said)
	require.NoError(t, err, said.String())
	return c
}

// This runs the program as it is, but smaller: over the loopback interface and on
// the system's clock.
func TestSmallRunOverRealHTTP(t *testing.T) {
	var out bytes.Buffer
	err := run(context.Background(), plan(t, "-orders", "300", "-window", "200ms", "-tick", "10ms"), &out)
	require.NoError(t, err, out.String())
	for _, line := range []string{
		`Sending 300 orders over 400ms; 80 % of them are paid.`,
		`created +300    orders`,
		`paid +\d+    orders`,
		`expired +\d+    orders`,
		`refused as too late +\d+    payments`,
		`lateness p50 +\d+\.\d  ms after the window`,
		`lateness p99 +\d+\.\d  ms after the window`,
		`lateness max +\d+\.\d  ms after the window`,
		`pending left +0    orders`,
		`Every order ended in exactly one way, and none expired early\.`,
	} {
		assert.Regexp(t, line, out.String())
	}
}

// In a bubble time moves only when nothing else can, so that the ten seconds of
// the default run take none, and no order can expire later than the tick after
// its window.
func TestRunIsExactInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := plan(t, "-orders", "500")
		w, err := timingwheel.New(timingwheel.Options{Tick: plan.tick})
		require.NoError(t, err)
		s, err := NewService(w, plan.window)
		require.NoError(t, err)
		pipes := make(pipeListener)
		server := &http.Server{Handler: routes(s)}
		go func() { _ = server.Serve(pipes) }()

		customers := newTraffic("http://service", plan, newProgress(new(bytes.Buffer)))
		transport := customers.client.Transport.(*http.Transport)
		transport.DialContext = pipes.dial
		receipts, err := customers.run(t.Context())
		require.NoError(t, err)
		orders, err := customers.orders(t.Context(), receipts)
		require.NoError(t, err)
		transport.CloseIdleConnections()
		require.NoError(t, shutdown(server, w, new(bytes.Buffer)))

		res := judge(receipts, orders, plan.window)
		res.compare(s.Stats())
		assert.Empty(t, res.problems)
		assert.EqualValues(t, plan.orders, res.created)
		assert.Less(t, res.percentile(100), milliseconds(plan.tick))
		assert.NotZero(t, res.refused, "some payments come after the deadline")
		assert.Zero(t, res.pending)
	})
}

// A pipeListener listens to connections that are made in memory: reading from
// the network would not count as waiting in a bubble.
type pipeListener chan net.Conn

func (l pipeListener) Accept() (net.Conn, error) {
	if conn, ok := <-l; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (l pipeListener) Close() error   { close(l); return nil }
func (l pipeListener) Addr() net.Addr { return &net.IPAddr{} }

func (l pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	l <- theirs
	return ours, nil
}

func TestServeStaysUpUntilInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	out := &watched{seen: make(chan string, 10)}
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, plan(t, "-serve", "-orders", "0", "-window", "1h"), out) }()

	<-out.seen // where the orders go
	line := <-out.seen
	require.Contains(t, line, "Serving http://")
	base := strings.TrimSuffix(strings.Fields(line)[1], "/orders")
	assert.Contains(t, line, "seen at "+base+"/debug/timingwheel/.")
	resp, err := http.Post(base+"/orders", "application/json", strings.NewReader(`{"item":"tea","cents":450}`))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusCreated, resp.StatusCode)

	interrupt()
	assert.NoError(t, <-ended)
	assert.Equal(t, "Stopped with 1 orders waiting for their payment.\n", <-out.seen)
	_, err = http.Get(base + "/stats")
	assert.Error(t, err, "the listener is closed")
}

func TestInterruptedTrafficIsAnError(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	out := &watched{seen: make(chan string, 100)}
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, plan(t, "-orders", "10", "-window", "1h"), out) }()
	<-out.seen
	interrupt()
	assert.ErrorContains(t, <-ended, "interrupted before all orders had ended")
}

// A watched writer hands on what is written to it, a piece for each Write.
type watched struct{ seen chan string }

func (w *watched) Write(p []byte) (int, error) {
	w.seen <- string(p)
	return len(p), nil
}

func TestRunSaysWhatItCannotListenTo(t *testing.T) {
	err := run(context.Background(), plan(t, "-listen", "nowhere"), new(bytes.Buffer))
	assert.ErrorContains(t, err, "-listen: listen tcp: address nowhere: missing port")
}

func TestFlagsAreChecked(t *testing.T) {
	for _, c := range []struct{ flags, says string }{
		{"-window 0s", "-window 0s is not from 1ns to 8784h0m0s"},
		{"-window -3s", "-window -3s is not from 1ns to 8784h0m0s"},
		{"-window 9000h", "-window 9000h0m0s is not from 1ns to 8784h0m0s"},
		{"-window 3", `invalid value "3" for flag -window`},
		{"-tick 7ms", "-tick 7ms is not from 1ms to 1s and a divisor of 1s"},
		{"-tick 0s", "-tick 0s is not from 1ms to 1s and a divisor of 1s"},
		{"-tick 2s", "-tick 2s is not from 1ms to 1s and a divisor of 1s"},
		{"-orders -1", "-orders -1 is negative"},
		{"-orders 0", "-orders 0 leaves nothing to do without -serve"},
		{"-paid 1.1", "-paid 1.1 is not from 0 to 1"},
		{"-paid -0.1", "-paid -0.1 is not from 0 to 1"},
		{"-paid NaN", "-paid NaN is not from 0 to 1"},
		{"-paid 0.8 serve", `argument "serve": only flags are known`},
		{"-port 80", "flag provided but not defined: -port"},
	} {
		var said strings.Builder
		_, err := parse(strings.Fields(c.flags), &said)
		assert.Error(t, err, c.flags)
		assert.Contains(t, said.String(), c.says, c.flags)
	}
	_, err := parse([]string{"-help"}, new(bytes.Buffer))
	assert.ErrorIs(t, err, flag.ErrHelp)
}

func TestJudgeFindsWhatIsWrong(t *testing.T) {
	start := time.Unix(0, 0)
	window := 3 * time.Second
	good := receipt{id: 1, sent: start, payment: never}
	for _, c := range []struct {
		says string
		r    receipt
		o    Order
	}{
		{"", good, Order{State: Expired, LateMS: 12}},
		{"", receipt{id: 1, payment: accepted}, Order{State: Paid}},
		{"", receipt{id: 1, payment: refused, sent: start, answered: start.Add(window)}, Order{State: Expired}},
		{"customer 1: no answer", receipt{err: errors.New("no answer")}, Order{}},
		{"order 1 is pending, but the payment was not tried", good, Order{State: Pending}},
		{"order 1 is paid, but the payment was not tried", good, Order{State: Paid}},
		{"order 1 is expired, but the payment was accepted", receipt{id: 1, payment: accepted}, Order{State: Expired}},
		{"order 1 expired 0.000001 ms early", good, Order{State: Expired, LateMS: -0.000001}},
		{"order 1: payment refused after 2s, the window is 3s",
			receipt{id: 1, payment: refused, sent: start, answered: start.Add(2 * time.Second)}, Order{State: Expired}},
	} {
		var want []string
		if c.says != "" {
			want = []string{c.says}
		}
		assert.Equal(t, want, judge([]receipt{c.r}, []Order{c.o}, window).problems)
	}

	twice := judge([]receipt{good, good}, []Order{{State: Expired}, {State: Expired}}, window)
	assert.Equal(t, []string{"order 1 was given to two customers"}, twice.problems)

	res := judge([]receipt{good}, []Order{{State: Expired}}, window)
	res.compare(Stats{Created: 2, Expired: 1, Timeouts: 1})
	assert.Equal(t, []string{
		"the service counts 2 as created, its orders say 1",
		"the service counts 1 as timeouts, its orders say 0",
	}, res.problems)
	var out strings.Builder
	res.print(&out)
	assert.Contains(t, out.String(), "WRONG: the service counts 2 as created")
	assert.NotContains(t, out.String(), "Every order ended")
}

func TestPercentiles(t *testing.T) {
	res := &result{}
	assert.Zero(t, res.percentile(99))
	for n := range 200 {
		res.late = append(res.late, float64(n+1))
	}
	assert.Equal(t, []float64{100, 198, 200}, []float64{res.percentile(50), res.percentile(99), res.percentile(100)})
}
