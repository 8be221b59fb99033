package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// report prints what there is to know about sessions.
func report(out io.Writer, sessions []session, malformed int) {
	hosts := make(map[string]bool)
	var requests int
	var lengths []time.Duration
	for _, s := range sessions {
		hosts[s.host] = true
		requests += s.requests
		lengths = append(lengths, s.last.Sub(s.first))
	}
	slices.Sort(lengths)
	fmt.Fprintf(out, "sessions         %8d\n", len(sessions))
	fmt.Fprintf(out, "hosts            %8d\n", len(hosts))
	fmt.Fprintf(out, "requests         %8d\n", requests)
	fmt.Fprintf(out, "malformed lines  %8d  skipped\n", malformed)
	if n := len(lengths); n > 0 {
		// Of an even number the median is halfway between the middle two.
		fmt.Fprintf(out, "median session   %8v  from its first request to its last\n", (lengths[(n-1)/2]+lengths[n/2])/2)
		fmt.Fprintf(out, "longest session  %8v\n", lengths[n-1])
		bars(out, sessions)
	}
}

// bars prints for each hour how many sessions began in it. Many hours without any
// are one line.
func bars(out io.Writer, sessions []session) {
	const width, gap = 50, 24
	zone := sessions[0].first.Location()
	began := make(map[int64]int) // by Unix time of the hour's beginning
	for _, s := range sessions {
		began[s.first.Truncate(time.Hour).Unix()]++
	}
	var hours []int64
	most := 0
	for hour, n := range began {
		hours = append(hours, hour)
		most = max(most, n)
	}
	slices.Sort(hours)

	fmt.Fprintf(out, "\nsessions that began in the hour (%s)\n", sessions[0].first.Format("-0700"))
	const second = int64(time.Hour / time.Second)
	next := hours[0]
	for _, hour := range hours {
		if quiet := (hour - next) / second; quiet > gap {
			fmt.Fprintf(out, "%d hours without one\n", quiet)
			next = hour
		}
		for ; next <= hour; next += second {
			n := began[next]
			bar := strings.Repeat("#", (n*width+most-1)/most)
			text := fmt.Sprintf("%s %5d  %s", time.Unix(next, 0).In(zone).Format("2006-01-02 15:04"), n, bar)
			fmt.Fprintln(out, strings.TrimRight(text, " "))
		}
	}
}
