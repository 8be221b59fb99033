// Durable-orders is the order service of examples/ordertimeout with a disk: orders
// that are not paid in time expire, also if the service was killed meanwhile.
//
//	go run .
//
// shows that: it starts the service as a process of its own, sends it orders over
// HTTP, pays some, kills it with kill -9 in the middle of that, starts it again,
// and checks that every unpaid order expires, on time or at once if it is overdue,
// and that no paid one does. The exit status is 1 if that is not so.
//
//	go run . -serve -listen localhost:8080 -db orders.db -window 1m
//
// is the service alone, for yours:
//
//	curl -d '{"item":"tea","cents":450}' localhost:8080/orders
//	curl -X POST localhost:8080/orders/ID/pay
//	curl localhost:8080/orders/ID
//	curl localhost:8080/stats
//
// The orders are in the file that -db names, their timers in another beside it. The
// service itself is in orders.go, service.go, http.go and serve in this file; demo.go
// tries it out.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/boltstore"
)

// A config is what the flags say.
type config struct {
	serve  bool
	listen string
	db     string
	window time.Duration
	tick   time.Duration
	orders int
	paid   float64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	c, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	case c.serve:
		err = serve(ctx, c, os.Stdout)
	default:
		err = demo(ctx, c, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "durable-orders:", err)
		os.Exit(1)
	}
}

// parse reads the flags. What is wrong with them it has already written to out.
func parse(args []string, out io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("durable-orders", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.BoolVar(&c.serve, "serve", false, "run the service, until interrupted")
	flags.StringVar(&c.listen, "listen", "localhost:0", "`address` to listen on; port 0 is any free one")
	flags.StringVar(&c.db, "db", "", "`file` of the orders; with -serve orders.db by default, else a temporary one")
	flags.DurationVar(&c.window, "window", 4*time.Second, "how long an order waits for its payment")
	flags.DurationVar(&c.tick, "tick", 100*time.Millisecond, "resolution of the wheel: 1ms to 1s, a divisor of 1s")
	flags.IntVar(&c.orders, "orders", 600, "how many orders the demonstration sends")
	flags.Float64Var(&c.paid, "paid", 0.5, "which `share` of them it pays, 0 to 1")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("argument %q: only flags are known, see -help", flags.Arg(0))
	case c.window <= 0:
		err = fmt.Errorf("-window %v is not positive", c.window)
	case c.orders < 1:
		err = fmt.Errorf("-orders %d is not positive", c.orders)
	case !(c.paid >= 0 && c.paid <= 1): // NaN is not
		err = fmt.Errorf("-paid %v is not from 0 to 1", c.paid)
	}
	if err != nil {
		fmt.Fprintln(out, "durable-orders:", err)
	}
	if c.serve && c.db == "" {
		c.db = "orders.db"
	}
	return c, err
}

// serve runs the service until ctx ends.
func serve(ctx context.Context, c config, out io.Writer) (err error) {
	wheel, err := timingwheel.New(timingwheel.Options{Tick: c.tick})
	if err != nil {
		return fmt.Errorf("-tick: %w", err)
	}
	defer wheel.Stop()
	orders, err := OpenOrders(c.db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, orders.Close()) }()
	store, err := boltstore.Open(c.db+".timers", boltstore.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	timers, err := durable.New(wheel, store, durable.Options{})
	if err != nil {
		return err
	}
	service, err := NewService(orders, timers, c.window, time.Now)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", c.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	counts, err := store.Count(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "http://%s/orders takes orders, %d timers are waiting\n", listener.Addr(), counts.Live)
	return listenAndRun(ctx, &http.Server{Handler: service.Routes(), ReadHeaderTimeout: 10 * time.Second}, listener, timers)
}

// listenAndRun serves requests and runs timers until ctx ends or one of the two
// fails. The requests end first: they may still add timers.
func listenAndRun(ctx context.Context, server *http.Server, listener net.Listener, timers *durable.Scheduler) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	running, served := make(chan error, 1), make(chan error, 1)
	go func() {
		defer stop()
		running <- timers.Run(ctx)
	}()
	go func() {
		defer stop()
		served <- server.Serve(listener)
	}()
	<-ctx.Done()
	grace, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := server.Shutdown(grace)
	if cause := <-served; !errors.Is(cause, http.ErrServerClosed) {
		err = errors.Join(err, cause)
	}
	return errors.Join(err, <-running)
}
