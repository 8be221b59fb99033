package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheeltest"
)

// A site is a hub behind a real HTTP server, with a fake clock.
type site struct {
	*hub
	t    *testing.T
	url  string
	mock *clock.Mock
}

func newSite(t *testing.T, opts timingwheel.Options) *site {
	mock := clock.NewMock()
	opts.Clock = timingwheel.ClockOf(mock)
	opts.Concurrency = 1
	w, err := timingwheel.New(opts)
	require.NoError(t, err)
	t.Cleanup(w.Stop)
	h := newHub(w)
	server := httptest.NewServer(h.routes())
	t.Cleanup(server.Close)
	t.Cleanup(h.close) // before the server, which waits for the streams
	return &site{hub: h, t: t, url: server.URL, mock: mock}
}

func (s *site) advance(d time.Duration) { wheeltest.Advance(s.wheel, s.mock.Add, d) }

// do sends a request and returns the status and the body of the answer.
func (s *site) do(method, path, body string) (int, string) {
	s.t.Helper()
	req, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	require.NoError(s.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	return resp.StatusCode, strings.TrimSpace(string(answer))
}

func (s *site) push(delay, text string) message {
	s.t.Helper()
	code, body := s.do("POST", "/push", fmt.Sprintf(`{"delay":%q,"text":%q}`, delay, text))
	require.Equal(s.t, http.StatusAccepted, code, body)
	var m message
	require.NoError(s.t, json.Unmarshal([]byte(body), &m))
	return m
}

// A listener is a client that is connected.
type listener struct {
	t     *testing.T
	lines *bufio.Scanner
}

func (s *site) listen() *listener {
	s.t.Helper()
	ctx, leave := context.WithCancel(s.t.Context())
	s.t.Cleanup(leave)
	req, err := http.NewRequestWithContext(ctx, "GET", s.url+"/events", nil)
	require.NoError(s.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = resp.Body.Close() })
	assert.Equal(s.t, "text/event-stream", resp.Header.Get("Content-Type"))
	l := &listener{t: s.t, lines: bufio.NewScanner(resp.Body)}
	assert.Equal(s.t, []string{": connected"}, l.event())
	return l
}

// event returns the lines of the next event, none if the stream has ended.
func (l *listener) event() []string {
	var lines []string
	for l.lines.Scan() && l.lines.Text() != "" {
		lines = append(lines, l.lines.Text())
	}
	return lines
}

func (l *listener) message() message {
	l.t.Helper()
	event := l.event()
	require.Len(l.t, event, 2)
	var m message
	require.NoError(l.t, json.Unmarshal([]byte(strings.TrimPrefix(event[1], "data: ")), &m))
	assert.Equal(l.t, fmt.Sprintf("id: %d", m.ID), event[0])
	return m
}

func TestEveryClientGetsEachMessageAtItsTime(t *testing.T) {
	s := newSite(t, timingwheel.Options{})
	clients := []*listener{s.listen(), s.listen(), s.listen()}
	last := s.push("10s", "last")
	first := s.push("5s", "two\nlines")
	second := s.push("5s", "second")
	assert.Equal(t, s.mock.Now().Add(5*time.Second).UTC(), first.Due.UTC())

	s.advance(5*time.Second - 1)
	assert.Zero(t, s.wheel.Stats().Fired, "a nanosecond before the first is due")
	s.advance(1)
	assert.EqualValues(t, 2, s.wheel.Stats().Fired)
	for _, c := range clients {
		assert.Equal(t, first, c.message())
		assert.Equal(t, second, c.message())
	}
	s.advance(5 * time.Second)
	for _, c := range clients {
		assert.Equal(t, last, c.message())
	}
	assert.Empty(t, s.waiting)
}

func TestDeletedMessageIsNotSent(t *testing.T) {
	s := newSite(t, timingwheel.Options{})
	client := s.listen()
	taken := s.push("5s", "taken back")
	kept := s.push("5s", "kept")
	path := fmt.Sprintf("/push/%d", taken.ID)

	code, _ := s.do("DELETE", path, "")
	assert.Equal(t, http.StatusNoContent, code)
	code, body := s.do("DELETE", path, "")
	assert.Equal(t, http.StatusConflict, code, "taken back already")
	assert.Equal(t, "message 1 was sent or taken back already", body)

	s.advance(5 * time.Second)
	assert.Equal(t, kept, client.message())
	code, body = s.do("DELETE", fmt.Sprintf("/push/%d", kept.ID), "")
	assert.Equal(t, http.StatusConflict, code, "sent already")
	assert.Equal(t, "message 2 was sent or taken back already", body)
}

func TestRefusals(t *testing.T) {
	s := newSite(t, timingwheel.Options{MaxPending: 1})
	s.push("1h", "the only one")
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"POST", "/push", `{"delay":`, 400, "unexpected EOF"},
		{"POST", "/push", `{"delay":"soon","text":"tea"}`, 400, `delay "soon" is not a duration like 1m30s`},
		{"POST", "/push", `{"delay":"-1s","text":"tea"}`, 400, `delay "-1s" is not a duration like 1m30s`},
		{"POST", "/push", `{"text":"tea"}`, 400, `delay "" is not a duration like 1m30s`},
		{"POST", "/push", `{"delay":"1s"}`, 400, "text is empty"},
		{"POST", "/push", `{"delay":"1s","text":"` + strings.Repeat("a", maxBody) + `"}`, 400, "too large"},
		{"POST", "/push", `{"delay":"1s","text":"tea"}`, 503, "Options.MaxPending is 1"},
		{"DELETE", "/push/2", "", 404, `there is no message "2"`},
		{"DELETE", "/push/0", "", 404, `there is no message "0"`},
		{"DELETE", "/push/tea", "", 404, `there is no message "tea"`},
		{"GET", "/push", "", 405, "Method Not Allowed"},
		{"POST", "/events", "", 405, "Method Not Allowed"},
	} {
		code, body := s.do(c.method, c.path, c.body)
		assert.Equal(t, c.code, code, "%s %s %.60s", c.method, c.path, c.body)
		assert.Contains(t, body, c.says, "%s %s %.60s", c.method, c.path, c.body)
	}
	assert.Len(t, s.waiting, 1, "nothing has changed")
}

func TestSlowClientHoldsUpNobodyAndIsDisconnected(t *testing.T) {
	s := newSite(t, timingwheel.Options{})
	slow := s.connect() // and never reads
	client := s.listen()
	for n := range backlog + 1 {
		sent := s.push("1s", fmt.Sprint("message ", n))
		s.advance(time.Second) // returns only if the callback has
		assert.Equal(t, sent, client.message())
	}
	for range backlog {
		_, ok := <-slow
		assert.True(t, ok)
	}
	_, ok := <-slow
	assert.False(t, ok, "the stream has ended")
	s.disconnect(slow) // as its handler does then
}

func TestClosedHubEndsAllStreams(t *testing.T) {
	s := newSite(t, timingwheel.Options{})
	client := s.listen()
	s.close()
	assert.Empty(t, client.event(), "the stream has ended")
	assert.Empty(t, s.listen().event(), "nobody is let in")
	s.push("1s", "to nobody")
	s.advance(time.Second)
	s.close()
}
