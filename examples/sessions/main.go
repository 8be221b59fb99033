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

// errUsage is what parse returns when it has said what is wrong with the arguments.
var errUsage = errors.New("bad arguments")

// run is the program, with what it reads and writes.
func run(args []string, in io.Reader, out, errOut io.Writer) error {
	idle, name, err := parse(args, errOut)
	if err != nil {
		return err
	}
	if name != "" {
		file, err := os.Open(name)
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
	sessions, err := replay(requests, idle)
	if err != nil {
		return err
	}
	took := time.Since(start).Round(time.Millisecond)
	report(out, sessions, malformed)
	if n := len(requests); n > 0 {
		fmt.Fprintf(out, "\nReplayed %v in %v.\n", requests[n-1].at.Sub(requests[0].at), took)
	}
	return nil
}

// parse returns what the arguments say, and an empty name if they name no file.
func parse(args []string, errOut io.Writer) (idle time.Duration, name string, err error) {
	flags := flag.NewFlagSet("sessions", flag.ContinueOnError)
	flags.SetOutput(errOut)
	flags.Usage = func() {
		fmt.Fprintln(errOut, "usage: sessions [-idle 30m] [file in Common Log Format, else standard input]")
		flags.PrintDefaults()
	}
	flags.DurationVar(&idle, "idle", 30*time.Minute, "silence that ends a session")
	err = flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0, "", err
	case err != nil:
		return 0, "", errUsage
	case idle <= 0:
		fmt.Fprintf(errOut, "sessions: -idle %v is not positive\n", idle)
		return 0, "", errUsage
	case flags.NArg() > 1:
		fmt.Fprintf(errOut, "sessions: argument %q: only one file can be read\n", flags.Arg(1))
		return 0, "", errUsage
	}
	return idle, flags.Arg(0), nil
}
