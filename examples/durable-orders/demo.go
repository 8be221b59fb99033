package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A process is the service in a process of its own.
type process struct {
	cmd  *exec.Cmd
	base string // where it takes orders
	said string
}

// start starts the service and waits until it takes orders.
func start(ctx context.Context, c config) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "-serve", "-db", c.db,
		"-window", c.window.String(), "-tick", c.tick.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the service does not start: %w", err), cmd.Process.Kill(), cmd.Wait())
	}
	base, _, _ := strings.Cut(line, " ")
	return &process{cmd, base, strings.TrimSpace(line)}, nil
}

// kill is kill -9.
func (p *process) kill() error {
	err := p.cmd.Process.Kill()
	p.cmd.Wait() // it says that it was killed
	return err
}

// call sends a request and reads the order in the answer.
func call(ctx context.Context, method, url, body string) (order Order, code int, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return order, 0, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return order, 0, err
	}
	defer answer.Body.Close()
	return order, answer.StatusCode, json.NewDecoder(answer.Body).Decode(&order)
}

// A customer's order, as far as the customer knows.
type known struct {
	id       string // "": no answer to the order
	deadline time.Time
	tried    bool // to pay
	paid     bool // and that was acknowledged
}

// shop sends one order, and pays it if the customer wants to. No answer is no
// error: the service may be dead.
func shop(ctx context.Context, base string, pay bool) (k known) {
	order, code, err := call(ctx, "POST", base, `{"item":"tea","cents":450}`)
	if err != nil || code != http.StatusCreated {
		return k
	}
	k.id, k.deadline = order.ID, order.Deadline
	if !pay {
		return k
	}
	k.tried = true
	_, code, err = call(ctx, "POST", base+"/"+k.id+"/pay", "")
	k.paid = err == nil && code == http.StatusOK
	return k
}

// demo kills the service in the middle of its work and checks what is left.
func demo(ctx context.Context, c config, out io.Writer) error {
	if c.db == "" {
		dir, err := os.MkdirTemp("", "durable-orders")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		c.db = filepath.Join(dir, "orders.db")
	}
	ctx, stop := context.WithCancel(ctx) // ends whatever process is left
	defer stop()
	fmt.Fprintf(out, "Sending %d orders, to be paid within %v; killing the service on the way.\n\n", c.orders, c.window)
	first, err := start(ctx, c)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "started:", first.said)
	orders := traffic(ctx, first, c)
	killed := time.Now()
	fmt.Fprintf(out, "killed:  kill -9, with %d orders acknowledged\n", count(orders, func(k known) bool { return k.id != "" }))

	// Down for half a window: some orders become overdue meanwhile, others do not.
	if err := sleep(ctx, c.window/2); err != nil {
		return err
	}
	second, err := start(ctx, c)
	if err != nil {
		return err
	}
	up := time.Now()
	fmt.Fprintln(out, "started:", second.said)
	if err := sleep(ctx, time.Until(killed.Add(c.window+2*c.tick+time.Second))); err != nil {
		return err
	}
	res, err := check(ctx, second.base, orders, up)
	if err != nil {
		return err
	}
	res.print(out, c)
	return errors.Join(res.verdict(), second.kill())
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return errors.New("interrupted")
	}
}

// traffic sends the orders over three quarters of a window, from eight customers
// at a time, and kills the service when nine tenths of them are sent.
func traffic(ctx context.Context, p *process, c config) []known {
	orders := make([]known, c.orders)
	next := make(chan int)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range next {
				orders[i] = shop(ctx, p.base, rand.Float64() < c.paid)
			}
		})
	}
	pace := time.NewTicker(max(c.window*3/4/time.Duration(c.orders), time.Microsecond))
	defer pace.Stop()
	for i := range c.orders {
		if i == c.orders*9/10 {
			p.kill() // those under way get no answer, nor do those to come
		}
		next <- i
		<-pace.C
	}
	close(next)
	wg.Wait()
	p.kill()
	return orders
}

func count(orders []known, is func(known) bool) (n int) {
	for _, k := range orders {
		if is(k) {
			n++
		}
	}
	return n
}

// A result is what the demonstration has found.
type result struct {
	created, paid, onTime, overdue, unsure int
	late                                   []time.Duration // of those on time, after the deadline
	overdueLate                            time.Duration   // of those overdue, after the restart: the largest
	problems                               []string
}

// check asks for every order that was acknowledged.
func check(ctx context.Context, base string, orders []known, up time.Time) (*result, error) {
	res := new(result)
	for _, k := range orders {
		if k.id == "" {
			continue
		}
		order, code, err := call(ctx, "GET", base+"/"+k.id, "")
		if err != nil {
			return nil, err
		}
		if code != http.StatusOK {
			res.problem("order %s was acknowledged and is gone", k.id)
			continue
		}
		res.add(k, order, up)
	}
	slices.Sort(res.late)
	return res, nil
}

func (r *result) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

func (r *result) add(k known, order Order, up time.Time) {
	r.created++
	late := order.Ended.Sub(order.Deadline)
	switch {
	case order.State == Pending:
		r.problem("order %s has not expired", k.id)
	case order.State == Paid && !k.tried:
		r.problem("order %s is paid, but nobody tried to", k.id)
	case order.State == Paid && !k.paid:
		r.unsure++ // the answer was lost, the payment was not
	case order.State == Paid:
		r.paid++
	case k.paid:
		r.problem("order %s was paid, and expired all the same", k.id)
	case late < 0:
		r.problem("order %s expired %v early", k.id, -late)
	case order.Deadline.Before(up):
		r.overdue++
		r.overdueLate = max(r.overdueLate, order.Ended.Sub(up))
	default:
		r.onTime++
		r.late = append(r.late, late)
	}
}

func (r *result) print(out io.Writer, c config) {
	percentile := func(p int) time.Duration {
		if len(r.late) == 0 {
			return 0
		}
		return r.late[(len(r.late)-1)*p/100].Round(time.Millisecond)
	}
	fmt.Fprintf(out, `
created and acknowledged      %5d
paid and acknowledged         %5d
paid, answer lost in the kill %5d
expired on time               %5d   p50 %v, p99 %v, max %v after the deadline; a tick is %v
overdue at the restart        %5d   expired within %v of it
`, r.created, r.paid, r.unsure, r.onTime, percentile(50), percentile(99), percentile(100), c.tick,
		r.overdue, max(r.overdueLate, 0).Round(time.Millisecond))
	for _, problem := range r.problems {
		fmt.Fprintln(out, "WRONG:", problem)
	}
	if len(r.problems) == 0 {
		fmt.Fprintln(out, "\nEvery unpaid order expired, none early, and no paid one did.")
	}
}

func (r *result) verdict() error {
	if len(r.problems) > 0 {
		return errors.New("a kill has cost something")
	}
	return nil
}
