package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/fee15284/timingwheel/durable/redisstore/redistest"
)

// A report is what became of the orders.
type report struct {
	created, paid, expired int
	lost                   []string // orders that are neither paid nor expired
	again                  []string // orders that expired more than once
	audit                  *redistest.Audit
	workers                map[string]*tally
	killed                 []string
}

// A tally is what one worker did.
type tally struct{ created, paid, expired, handled int }

// report reads what the workers left on the server.
func (f *fleet) report(ctx context.Context) (*report, error) {
	created, err1 := f.client.SMembers(ctx, f.prefix+":created").Result()
	fates, err2 := f.client.HGetAll(ctx, f.prefix+":fates").Result()
	expiries, err3 := f.client.HGetAll(ctx, f.prefix+":expiries").Result()
	entries, err4 := redistest.ReadList(ctx, f.client, f.prefix+":ledger")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, err
	}
	r := &report{created: len(created), audit: redistest.NewAudit(entries), workers: make(map[string]*tally), killed: f.killed}
	exists := make(map[string]bool)
	for _, order := range created {
		exists[order] = true
		seller, _, _ := strings.Cut(order, "-")
		r.of(seller).created++
		if fates[order] == "" {
			r.lost = append(r.lost, order)
		}
	}
	for order, fate := range fates {
		what, who, _ := strings.Cut(fate, " ")
		if !exists[order] {
			continue // the worker was killed while it created the order: see create
		}
		if what == "paid" {
			r.paid++
			r.of(who).paid++
		} else {
			r.expired++
			r.of(who).expired++
		}
	}
	for order, n := range expiries {
		if n != "1" {
			r.again = append(r.again, order)
		}
	}
	for who, n := range r.audit.PerWorker {
		r.of(who).handled = n
	}
	return r, nil
}

func (r *report) of(name string) *tally {
	t := r.workers[name]
	if t == nil {
		t = &tally{}
		r.workers[name] = t
	}
	return t
}

// broken returns an error that says which promises were broken, or nil.
func (r *report) broken() error {
	var errs []error
	if len(r.lost) > 0 {
		errs = append(errs, fmt.Errorf("%d orders are lost, such as %s", len(r.lost), r.lost[0]))
	}
	if len(r.again) > 0 {
		errs = append(errs, fmt.Errorf("%d orders expired more than once, such as %s", len(r.again), r.again[0]))
	}
	if r.created == 0 {
		errs = append(errs, errors.New("no order was created"))
	}
	if err := errors.Join(append(errs, r.audit.Err())...); err != nil {
		return fmt.Errorf("a promise was broken: %w", err)
	}
	return nil
}

// String returns the report as a table.
func (r *report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range []struct {
		name  string
		value any
	}{
		{"created", r.created},
		{"paid", r.paid},
		{"expired once", r.expired - len(r.again)},
		{"delivered again after a lease", r.audit.Again},
		{"lost (must be 0)", len(r.lost) + len(r.audit.Lost)},
		{"expired twice (must be 0)", len(r.again)},
		{"overlapping leases (must be 0)", len(r.audit.Overlapping)},
		{"early (must be 0)", len(r.audit.Early)},
		{"run after a cancel (must be 0)", len(r.audit.Undead)},
		{"lateness p50", millis(r.audit.Percentile(0.50))},
		{"lateness p99", millis(r.audit.Percentile(0.99))},
		{"lateness max", millis(r.audit.Percentile(1))},
	} {
		fmt.Fprintf(w, "%s\t%v\n", row.name, row.value)
	}
	w.Flush()
	w = tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nworker\tcreated\tpaid\texpired\thandled\t")
	names := make([]string, 0, len(r.workers))
	for name := range r.workers {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		return len(names[i]) < len(names[j]) || len(names[i]) == len(names[j]) && names[i] < names[j]
	})
	for _, name := range names {
		t, note := r.workers[name], ""
		if slices.Contains(r.killed, name) {
			note = " killed"
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\n", name, t.created, t.paid, t.expired, t.handled, note)
	}
	w.Flush()
	return b.String()
}

func millis(us int) string { return fmt.Sprintf("%.1f ms", float64(us)/1000) }
