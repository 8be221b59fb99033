package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// The demonstration starts its own binary with -serve. In a test that is the test's.
func TestMain(m *testing.M) {
	if slices.Contains(os.Args, "-serve") {
		main()
		return
	}
	os.Exit(m.Run())
}

// This is the program as it is, with processes, kill -9 and a real clock, but
// smaller.
func TestKillNineCostsNothing(t *testing.T) {
	c, err := parse([]string{"-orders", "200", "-window", "1s", "-tick", "20ms"}, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := demo(t.Context(), c, &out); err != nil {
		t.Fatal(err, "\n", out.String())
	}
	for _, line := range []string{
		`killed:  kill -9, with 1\d\d orders acknowledged`,
		`created and acknowledged +1\d\d`,
		`paid and acknowledged +\d+`,
		`overdue at the restart +\d+`,
		`Every unpaid order expired, none early, and no paid one did\.`,
	} {
		if !regexp.MustCompile(line).MatchString(out.String()) {
			t.Errorf("%q is not in\n%s", line, out.String())
		}
	}
}

func TestCheckFindsWhatIsWrong(t *testing.T) {
	deadline := time.Unix(100, 0)
	ended := deadline.Add(time.Second)
	for _, c := range []struct {
		says  string
		k     known
		order Order
	}{
		{"", known{}, Order{State: Expired, Deadline: deadline, Ended: ended}},
		{"", known{tried: true, paid: true}, Order{State: Paid}},
		{"", known{tried: true}, Order{State: Paid}},
		{"", known{tried: true}, Order{State: Expired, Deadline: deadline, Ended: ended}},
		{"has not expired", known{}, Order{State: Pending}},
		{"nobody tried", known{}, Order{State: Paid}},
		{"was paid, and expired", known{tried: true, paid: true}, Order{State: Expired, Deadline: deadline, Ended: ended}},
		{"1s early", known{}, Order{State: Expired, Deadline: ended, Ended: deadline}},
	} {
		res := new(result)
		res.add(c.k, c.order, deadline)
		if says := strings.Join(res.problems, " "); (says == "") != (c.says == "") || !strings.Contains(says, c.says) {
			t.Errorf("%+v, %+v: %q", c.k, c.order, says)
		}
		if err := res.verdict(); (err == nil) != (c.says == "") {
			t.Error(err)
		}
	}
}

func TestFlagsAreChecked(t *testing.T) {
	for _, c := range []struct{ flags, says string }{
		{"-window 0s", "-window 0s is not positive"},
		{"-orders 0", "-orders 0 is not positive"},
		{"-paid 2", "-paid 2 is not from 0 to 1"},
		{"-paid NaN", "-paid NaN is not from 0 to 1"},
		{"serve", `argument "serve": only flags are known`},
	} {
		var said strings.Builder
		if _, err := parse(strings.Fields(c.flags), &said); err == nil || !strings.Contains(said.String(), c.says) {
			t.Errorf("%s: %v, %q", c.flags, err, said.String())
		}
	}
	if _, err := parse([]string{"-help"}, new(bytes.Buffer)); !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
	c, err := parse([]string{"-serve"}, new(bytes.Buffer))
	if err != nil || c.db != "orders.db" {
		t.Error(c, err)
	}
	c.tick = 7 * time.Millisecond
	c.db = t.TempDir() + "/orders.db"
	if err := serve(context.Background(), c, new(bytes.Buffer)); err == nil || !strings.Contains(err.Error(), "-tick") {
		t.Error(err)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	c, err := parse([]string{"-serve", "-db", t.TempDir() + "/orders.db"}, new(bytes.Buffer))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := serve(ctx, c, &out); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
