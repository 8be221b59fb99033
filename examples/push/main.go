// Push sends texts at their time to everyone who listens, as server-sent events.
//
//	go run ./examples/push -listen localhost:8081
//
//	curl -N localhost:8081/events
//	curl -d '{"delay":"5s","text":"tea is ready"}' localhost:8081/push
//	curl -X DELETE localhost:8081/push/1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/fee15284/timingwheel"
)

func main() {
	listen := flag.String("listen", "localhost:8081", "`address` to listen on")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "push: argument %q: only flags are known, see -help\n", flag.Arg(0))
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	if err := run(ctx, *listen); err != nil {
		fmt.Fprintln(os.Stderr, "push:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, listen string) error {
	wheel, err := timingwheel.New(timingwheel.Options{
		Tick:        100 * time.Millisecond,
		Concurrency: 1, // sending never waits, and so it keeps the order
		MaxPending:  100_000,
	})
	if err != nil {
		return err
	}
	h := newHub(wheel)
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("-listen: %w", err)
	}
	server := &http.Server{Handler: h.routes(), ReadHeaderTimeout: patience}
	server.RegisterOnShutdown(h.close) // streams would not end by themselves
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	fmt.Printf("Listen at http://%v/events, push to http://%v/push.\n", listener.Addr(), listener.Addr())
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return errors.Join(err, server.Shutdown(late), wheel.Shutdown(late))
}
