package main

import (
	"fmt"
	"io"
	"slices"
	"time"
)

// A result is what became of the orders of the traffic.
type result struct {
	created, paid, expired, pending int
	refused                         int
	late                            []float64 // ms, sorted; one for each expired order
	problems                        []string  // why it is not as it should be
}

// judge compares what the customers were told with what the service says about
// their orders now that all of it is over.
func judge(receipts []receipt, orders []Order, window time.Duration) *result {
	res := &result{}
	seen := make(map[uint64]bool)
	for n, r := range receipts {
		if r.err != nil {
			res.problem("customer %d: %v", n+1, r.err)
		}
		if r.id == 0 {
			continue
		}
		if seen[r.id] {
			res.problem("order %d was given to two customers", r.id)
		}
		seen[r.id] = true
		res.add(r, orders[n], window)
	}
	slices.Sort(res.late)
	return res
}

// add counts one order, and checks that it ended in one way, the one its customer
// was told, and did not expire early: neither by the service's clock nor by the
// customer's, which started before the service's did.
func (res *result) add(r receipt, o Order, window time.Duration) {
	res.created++
	want := Expired
	if r.payment == accepted {
		want = Paid
	}
	if r.err == nil && o.State != want {
		res.problem("order %d is %s, but the payment was %s", r.id, o.State, r.payment)
	}
	if r.payment == refused {
		res.refused++
		if waited := r.answered.Sub(r.sent); waited < window {
			res.problem("order %d: payment refused after %v, the window is %v", r.id, waited, window)
		}
	}
	switch o.State {
	case Paid:
		res.paid++
	case Expired:
		res.expired++
		res.late = append(res.late, o.LateMS)
		if o.LateMS < 0 {
			res.problem("order %d expired %f ms early", r.id, -o.LateMS)
		}
	default:
		res.pending++
	}
}

// compare checks the service's own counters, which hold if nobody else orders.
func (res *result) compare(stats Stats) {
	for _, c := range []struct {
		name      string
		got, want int
	}{
		{"created", int(stats.Created), res.created},
		{"paid", int(stats.Paid), res.paid},
		{"expired", int(stats.Expired), res.expired},
		{"too_late", int(stats.TooLate), res.refused},
		{"pending", stats.Pending, res.pending},
		{"timeouts", stats.Timeouts, res.pending},
	} {
		if c.got != c.want {
			res.problem("the service counts %d as %s, its orders say %d", c.got, c.name, c.want)
		}
	}
}

func (res *result) problem(format string, args ...any) {
	res.problems = append(res.problems, fmt.Sprintf(format, args...))
}

// percentile returns the lateness that p percent of the expired orders kept to.
func (res *result) percentile(p int) float64 {
	if len(res.late) == 0 {
		return 0
	}
	return res.late[(len(res.late)*p+99)/100-1]
}

// print writes the table, and the verdict below it.
func (res *result) print(out io.Writer) {
	count := func(name string, n int, unit string) {
		fmt.Fprintf(out, "  %-20s %8d    %s\n", name, n, unit)
	}
	late := func(name string, p int) {
		fmt.Fprintf(out, "  %-20s %10.1f  ms after the window\n", name, res.percentile(p))
	}
	count("created", res.created, "orders")
	count("paid", res.paid, "orders")
	count("expired", res.expired, "orders")
	count("refused as too late", res.refused, "payments")
	late("lateness p50", 50)
	late("lateness p99", 99)
	late("lateness max", 100)
	count("pending left", res.pending, "orders")
	fmt.Fprintln(out)

	const most = 10
	for n, p := range res.problems {
		if n == most {
			fmt.Fprintf(out, "and %d more\n", len(res.problems)-most)
			break
		}
		fmt.Fprintln(out, "WRONG:", p)
	}
	if len(res.problems) == 0 {
		fmt.Fprintln(out, "Every order ended in exactly one way, and none expired early.")
	}
}
