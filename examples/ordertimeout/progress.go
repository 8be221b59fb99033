package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// A progress shows how the orders stand: on a terminal in one line that changes,
// elsewhere in one line now and then.
type progress struct {
	out   io.Writer
	every time.Duration
	start time.Time
	live  bool
}

func newProgress(out io.Writer) *progress {
	p := &progress{out: out, every: time.Second, start: time.Now()}
	if f, ok := out.(*os.File); ok {
		info, err := f.Stat()
		p.live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if p.live {
		p.every /= 4
	}
	return p
}

func (p *progress) print(s Stats) {
	before, after := "", "\n"
	if p.live {
		before, after = "\r", "\x1b[K"
	}
	fmt.Fprintf(p.out, "%s%5.1f s  created %d, paid %d, expired %d, too late %d, pending %d%s",
		before, time.Since(p.start).Seconds(), s.Created, s.Paid, s.Expired, s.TooLate, s.Pending, after)
}

// done leaves the line behind.
func (p *progress) done() {
	if p.live {
		fmt.Fprintln(p.out)
	}
}
