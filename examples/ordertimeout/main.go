// Ordertimeout is an HTTP service that cancels orders which are not paid within
// a window, with one timeout per order on a timing wheel.
//
//	go run ./examples/ordertimeout
//
// starts it on a free port, sends it some thousand orders over HTTP, pays most of
// them, some right at the deadline, and checks that every order ended in exactly
// one way and that none expired early. The exit status is 1 if that is not so.
//
//	go run ./examples/ordertimeout -orders 0 -serve -listen localhost:8080 -window 1m
//
// sends none and stays up for yours:
//
//	curl -d '{"item":"tea","cents":450}' localhost:8080/orders
//	curl -X POST localhost:8080/orders/1/pay
//	curl localhost:8080/orders/1
//	curl localhost:8080/stats
//
// and shows its wheel at http://localhost:8080/debug/timingwheel/.
//
// The service itself is in order.go, service.go, http.go and debug.go; the rest
// starts it and tries it out.
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
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	plan, err := parse(os.Args[1:], os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return
	case err != nil:
		os.Exit(2)
	}
	if err := run(ctx, plan, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ordertimeout:", err)
		os.Exit(1)
	}
}

// errWrong is what a run ends with if its table says what was wrong.
var errWrong = errors.New("not every order ended as it should")

// run starts the service, sends it the traffic of the plan, serves on if the plan
// says so, and shuts everything down when ctx ends or nothing is left to do.
func run(ctx context.Context, plan config, out io.Writer) error {
	wheel, err := timingwheel.New(timingwheel.Options{Tick: plan.tick})
	if err != nil {
		return fmt.Errorf("-tick: %w", err)
	}
	service, err := NewService(wheel, plan.window)
	if err != nil {
		return fmt.Errorf("-window: %w", err)
	}
	listener, err := net.Listen("tcp", plan.listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	server := &http.Server{Handler: routes(service), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	base := "http://" + listener.Addr().String()
	fmt.Fprintf(out, "Orders at %s, to be paid within %v; a tick is %v.\n", base, plan.window, plan.tick)

	if plan.orders > 0 {
		err = tryOut(ctx, base, plan, out)
	}
	if plan.serve && ctx.Err() == nil {
		fmt.Fprintf(out, "Serving %s/orders and %s/stats until interrupted; the wheel is to be seen at %s/debug/timingwheel/.\n",
			base, base, base)
		select {
		case <-ctx.Done():
		case cause := <-failed:
			err = errors.Join(err, cause)
		}
	}
	return errors.Join(err, shutdown(server, wheel, out))
}

// routes is all that the program serves.
func routes(service *Service) *http.ServeMux {
	mux := http.NewServeMux()
	service.Register(mux)
	service.RegisterDebug(mux)
	return mux
}

// tryOut sends the traffic, waits until its orders have ended, and prints the
// table.
func tryOut(ctx context.Context, base string, plan config, out io.Writer) error {
	fmt.Fprintf(out, "Sending %d orders over %v; %g %% of them are paid.\n\n", plan.orders, plan.span(), 100*plan.paid)
	show := newProgress(out)
	customers := newTraffic(base, plan, show)
	defer customers.client.CloseIdleConnections()
	receipts, err := customers.run(ctx)
	show.done()
	if ctx.Err() != nil {
		return errors.New("interrupted before all orders had ended")
	}
	if err != nil {
		return err
	}
	orders, err := customers.orders(ctx, receipts)
	if err != nil {
		return err
	}
	stats, err := customers.stats(ctx)
	if err != nil {
		return err
	}
	res := judge(receipts, orders, plan.window)
	if !plan.serve { // else others may have ordered, too
		res.compare(stats)
	}
	fmt.Fprintln(out)
	res.print(out)
	if len(res.problems) > 0 {
		return errWrong
	}
	return nil
}

// shutdown first ends the requests, which may still add timeouts, and then the
// wheel.
func shutdown(server *http.Server, wheel *timingwheel.Wheel, out io.Writer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := errors.Join(server.Shutdown(ctx), wheel.Shutdown(ctx))
	if n := wheel.Len(); n > 0 {
		// Wheel.Pending and Keyed.Pending list them, for a service that saves them.
		fmt.Fprintf(out, "Stopped with %d orders waiting for their payment.\n", n)
	}
	return err
}
