// Sessions finds the sessions in a web server's access log: what one host asks
// for without a pause of -idle or more.
//
//	go run ./examples/sessions access.log
//	zcat access.log.1.gz | go run ./examples/sessions -idle 10m
//
// It replays the log with one timeout per host on a timing wheel, whose clock is
// the log's. Days of it take well under a second.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "sessions:", err)
		os.Exit(1)
	}
}

// errUsage is what run returns when it has said what is wrong with the arguments.
var errUsage = errors.New("bad arguments")

func run(args []string, in io.Reader, out, errOut io.Writer) error {
	flags := flag.NewFlagSet("sessions", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.Usage = func() {
		fmt.Fprintln(errOut, "usage: sessions [-idle 30m] [file in Common Log Format, else standard input]")
		flags.PrintDefaults()
	}
	idle := flags.Duration("idle", 30*time.Minute, "silence that ends a session")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return err
	} else if err != nil {
		return errUsage
	}
	if *idle <= 0 {
		fmt.Fprintf(errOut, "sessions: -idle %v is not positive\n", *idle)
		return errUsage
	}
	if flags.NArg() > 1 {
		fmt.Fprintf(errOut, "sessions: argument %q: only one file can be read\n", flags.Arg(1))
		return errUsage
	}
	if flags.NArg() == 1 {
		file, err := os.Open(flags.Arg(0))
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	requests, malformed, err := readLog(in)
	if err != nil {
		return err
	}
	start := time.Now()
	sessions, err := replay(requests, *idle)
	if err != nil {
		return err
	}
	report(out, sessions, malformed)
	if n := len(requests); n > 0 {
		fmt.Fprintf(out, "\nReplayed %v in %v.\n", requests[n-1].at.Sub(requests[0].at), time.Since(start).Round(time.Millisecond))
	}
	return nil
}
