package main

import (
	"flag"
	"fmt"
	"io"
	"time"
)

// A config is what the flags say.
type config struct {
	listen string
	window time.Duration
	tick   time.Duration
	orders int
	paid   float64
	serve  bool
}

// longest is the longest window that can be asked for.
const longest = 366 * 24 * time.Hour

// parse reads the flags. What is wrong with them it has already written to out.
func parse(args []string, out io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("ordertimeout", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.StringVar(&c.listen, "listen", "localhost:0", "`address` to listen on; port 0 is any free one")
	flags.DurationVar(&c.window, "window", 3*time.Second, "how long an order waits for its payment")
	flags.DurationVar(&c.tick, "tick", 100*time.Millisecond, "resolution of the wheel: 1ms to 1s, a divisor of 1s")
	flags.IntVar(&c.orders, "orders", 4000, "how many orders to send")
	flags.Float64Var(&c.paid, "paid", 0.8, "which `share` of them is paid, 0 to 1")
	flags.BoolVar(&c.serve, "serve", false, "stay up afterwards, until interrupted")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	err := c.check()
	if flags.NArg() > 0 {
		err = fmt.Errorf("argument %q: only flags are known, see -help", flags.Arg(0))
	}
	if err != nil {
		fmt.Fprintln(out, "ordertimeout:", err)
	}
	return c, err
}

// check returns the flag, the value and the rule it breaks, if one does.
func (c config) check() error {
	switch {
	case c.window <= 0 || c.window > longest:
		return fmt.Errorf("-window %v is not from 1ns to %v", c.window, longest)
	case c.tick < time.Millisecond || c.tick > time.Second || time.Second%c.tick != 0:
		return fmt.Errorf("-tick %v is not from 1ms to 1s and a divisor of 1s", c.tick)
	case c.orders < 0:
		return fmt.Errorf("-orders %d is negative", c.orders)
	case c.orders == 0 && !c.serve:
		return fmt.Errorf("-orders 0 leaves nothing to do without -serve")
	case !(c.paid >= 0 && c.paid <= 1): // NaN is not
		return fmt.Errorf("-paid %v is not from 0 to 1", c.paid)
	}
	return nil
}

// span is the time over which the orders are sent: twice the window, so that some
// expire while others come, but at most a thousand a second.
func (c config) span() time.Duration {
	return max(2*c.window, time.Duration(c.orders)*time.Millisecond)
}
