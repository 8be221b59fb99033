package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"time"
)

// A request is what one line of the log says, as far as it matters here.
type request struct {
	host string
	at   time.Time
}

// A line is: host ident user [time] "request" status bytes. What may follow, as
// in the Combined Log Format, does not matter.
var line = regexp.MustCompile(`^(\S+) \S+ .+? \[([^\]]+)\] ".*" \d{3} (?:\d+|-)(?: .*)?$`)

const timeLayout = "02/Jan/2006:15:04:05 -0700"

// readLog returns the requests of a log in the order of their times, those of one
// second in the order of their lines, and the number of lines that are none.
func readLog(in io.Reader) (requests []request, malformed int, err error) {
	lines := bufio.NewReader(in)
	for {
		text, err := lines.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, fmt.Errorf("after %d lines: %w", len(requests)+malformed, err)
		}
		if text != "" {
			if r, ok := parseLine(strings.TrimRight(text, "\r\n")); ok {
				requests = append(requests, r)
			} else {
				malformed++
			}
		}
		if err != nil {
			break
		}
	}
	slices.SortStableFunc(requests, func(a, b request) int { return a.at.Compare(b.at) })
	return requests, malformed, nil
}

func parseLine(text string) (request, bool) {
	found := line.FindStringSubmatch(text)
	if found == nil {
		return request{}, false
	}
	at, err := time.Parse(timeLayout, found[2])
	return request{host: found[1], at: at}, err == nil
}
