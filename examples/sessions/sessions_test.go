package main

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const idle = 30 * time.Minute

// noon is when the logs of the tests begin.
var noon = time.Date(2015, time.May, 17, 12, 0, 0, 0, time.FixedZone("", 2*60*60))

func at(d time.Duration) time.Time { return noon.Add(d) }

// bySilence cuts requests into sessions with no wheel and no clock: host by host,
// from gap to gap.
func bySilence(requests []request, idle time.Duration) []session {
	times := make(map[string][]time.Time)
	for _, r := range requests {
		times[r.host] = append(times[r.host], r.at)
	}
	var sessions []session
	for host, times := range times {
		slices.SortFunc(times, time.Time.Compare)
		for n, at := range times {
			if n == 0 || at.Sub(times[n-1]) >= idle {
				sessions = append(sessions, session{host: host, first: at})
			}
			s := &sessions[len(sessions)-1]
			s.last = at
			s.requests++
		}
	}
	return sorted(sessions)
}

func sorted(sessions []session) []session {
	slices.SortFunc(sessions, func(a, b session) int {
		return cmp.Or(strings.Compare(a.host, b.host), a.first.Compare(b.first))
	})
	return sessions
}

// someRequests returns days of requests, many of which follow the last of their
// host just before, just when, or just after a time of silence.
func someRequests(seed uint64, count int, idle time.Duration) []request {
	random := rand.New(rand.NewPCG(seed, 0))
	last := make([]time.Time, 100)
	for host := range last {
		last[host] = at(time.Duration(random.IntN(3600)) * time.Second)
	}
	var requests []request
	for range count {
		host := random.IntN(len(last))
		step := time.Duration(random.IntN(100)) * time.Second
		if random.IntN(4) == 0 {
			step = idle.Truncate(time.Second) + time.Duration(random.IntN(3)-1)*time.Second
		}
		last[host] = last[host].Add(max(step, 0))
		requests = append(requests, request{fmt.Sprintf("host%d", host), last[host]})
	}
	slices.SortStableFunc(requests, func(a, b request) int { return a.at.Compare(b.at) })
	return requests
}

func TestReplayFindsWhatGapsSay(t *testing.T) {
	for _, idle := range []time.Duration{time.Nanosecond, time.Second, 1500 * time.Millisecond, time.Minute, idle, 26 * time.Hour} {
		for seed := range uint64(5) {
			requests := someRequests(seed, 2_000, idle)
			got, err := replay(requests, idle)
			require.NoError(t, err)
			require.Equal(t, bySilence(requests, idle), sorted(got), "idle %v, seed %d", idle, seed)
		}
	}
}

func TestRequestAtTheEndOfTheSilenceBeginsANewSession(t *testing.T) {
	for _, c := range []struct {
		pause    time.Duration
		sessions int
	}{
		{idle - time.Second, 1},
		{idle, 2},
		{idle + time.Second, 2},
	} {
		got, err := replay([]request{{"a", at(0)}, {"b", at(time.Second)}, {"a", at(c.pause)}}, idle)
		require.NoError(t, err)
		assert.Len(t, got, c.sessions+1, "pause %v", c.pause)
	}
}

func TestReplayOfNothing(t *testing.T) {
	got, err := replay(nil, idle)
	assert.NoError(t, err)
	assert.Empty(t, got)
}

func TestReplayRefusesWhatNoClockCovers(t *testing.T) {
	_, err := replay([]request{{"a", at(0).AddDate(-2000, 0, 0)}, {"a", at(0)}}, idle)
	assert.ErrorContains(t, err, "at most 292 years")
}

func TestParseLine(t *testing.T) {
	for _, c := range []struct {
		text string
		ok   bool
	}{
		{`a - - [17/May/2015:12:00:00 +0200] "GET / HTTP/1.1" 200 12`, true},
		{`a - - [17/May/2015:12:00:00 +0200] "GET / HTTP/1.1" 304 -`, true},
		{`a - - [17/May/2015:10:00:00 +0000] "GET / HTTP/1.1" 200 12`, true},
		{`a id Jo Doe [17/May/2015:12:00:00 +0200] "GET / HTTP/1.1" 200 12`, true},
		{`a - - [17/May/2015:12:00:00 +0200] "GET /"x" [1] "" HTTP/1.1" 200 12`, true},
		{`a - - [17/May/2015:12:00:00 +0200] "GET / HTTP/1.1" 200 12 "-" "curl"`, true},
		{`a - - [17/May/2015:12:00:00 +0200] "" 400 0`, true},
		{``, false},
		{`a`, false},
		{`a - - [17/May/2015:12:00:00 +0200] "GET / HTTP/1.1" 200`, false},
		{`a - - [17/May/2015:12:00:00 +0200] "GET / HTTP/1.1" OK 12`, false},
		{`a - - [17/May/2015:12:00:00 +0200] GET / 200 12`, false},
		{`a - - [17/May/2015 12:00:00] "GET / HTTP/1.1" 200 12`, false},
		{`a - - [32/May/2015:12:00:00 +0200] "GET / HTTP/1.1" 200 12`, false},
		{`a - - "GET / HTTP/1.1" 200 12`, false},
	} {
		r, ok := parseLine(c.text)
		assert.Equal(t, c.ok, ok, c.text)
		if c.ok {
			assert.Equal(t, "a", r.host, c.text)
			assert.True(t, noon.Equal(r.at), c.text)
		}
	}
}

// logLine returns a line of a log.
func logLine(host string, after time.Duration) string {
	return fmt.Sprintf("%s - - [%s] \"GET / HTTP/1.1\" 200 12\n", host, at(after).Format(timeLayout))
}

func TestReadLogSortsByTimeAndCountsWhatItSkips(t *testing.T) {
	text := logLine("b", time.Minute) + "\nno request\r\n" + logLine("a", 0) +
		strings.ReplaceAll(logLine("c", time.Minute), "\n", "\r\n") +
		strings.Repeat("x", 1<<20) + "\n" + strings.TrimSpace(logLine("d", time.Second))
	requests, malformed, err := readLog(strings.NewReader(text))
	require.NoError(t, err)
	var hosts []string
	for _, r := range requests {
		hosts = append(hosts, r.host)
	}
	assert.Equal(t, []string{"a", "d", "b", "c"}, hosts)
	assert.Equal(t, 3, malformed, "the empty line, the one without a request, the long one")
}

func TestReadLogSaysHowFarItCame(t *testing.T) {
	in := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader(logLine("a", 0))))
	_, _, err := readLog(in)
	assert.ErrorIs(t, err, iotest.ErrTimeout)
	assert.ErrorContains(t, err, "after 0 lines: ")
}

const wantReport = `sessions                4
hosts                   2
requests                7
malformed lines         1  skipped
median session        30s  from its first request to its last
longest session   1h10m0s

sessions that began in the hour (+0200)
2015-05-17 12:00     2  ##################################################
2015-05-17 13:00     0
2015-05-17 14:00     1  #########################
46 hours without one
2015-05-19 13:00     1  #########################
`

func TestRunReadsAFileOrStandardInput(t *testing.T) {
	text := logLine("b", 49*time.Hour) + logLine("a", 0) + logLine("a", 40*time.Minute) +
		"no request\n" + logLine("a", 70*time.Minute) + logLine("b", time.Minute) + logLine("b", 0) +
		logLine("a", 2*time.Hour+time.Minute)
	file := filepath.Join(t.TempDir(), "access.log")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	var fromFile, fromInput, complaints bytes.Buffer
	require.NoError(t, run([]string{"-idle", "45m", file}, nil, &fromFile, &complaints))
	require.NoError(t, run([]string{"-idle", "45m"}, strings.NewReader(text), &fromInput, &complaints))
	for _, got := range []string{fromFile.String(), fromInput.String()} {
		table, after, found := strings.Cut(got, "\nReplayed ")
		assert.Equal(t, wantReport, table)
		assert.True(t, found && strings.HasPrefix(after, "49h0m0s in "), after)
	}
	assert.Empty(t, complaints.String())
}

func TestRunOnALogWithoutRequests(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(nil, strings.NewReader("no request\n"), &out, new(bytes.Buffer)))
	assert.Equal(t, "sessions                0\nhosts                   0\nrequests                0\nmalformed lines         1  skipped\n", out.String())
}

func TestRunSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args  string
		usage bool
		says  string
	}{
		{"-idle 0s", true, "-idle 0s is not positive"},
		{"-idle -1m", true, "-idle -1m0s is not positive"},
		{"-idle long", true, `invalid value "long" for flag -idle`},
		{"one.log two.log", true, `argument "two.log": only one file can be read`},
		{"no-such-file.log", false, "open no-such-file.log: no such file"},
		{".", false, "is a directory"},
	} {
		var out, errOut bytes.Buffer
		err := run(strings.Fields(c.args), strings.NewReader(""), &out, &errOut)
		require.Error(t, err, c.args)
		assert.Equal(t, c.usage, err == errUsage, c.args)
		assert.Contains(t, errOut.String()+err.Error(), c.says, c.args)
		assert.Empty(t, out.String(), c.args)
	}
}
