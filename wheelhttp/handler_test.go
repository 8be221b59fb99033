package wheelhttp

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/fee15284/timingwheel"
	"github.com/stretchr/testify/require"
)

// newWheel returns a wheel on a mock clock.
func newWheel(t *testing.T, opts timingwheel.Options) (*timingwheel.Wheel, *clock.Mock) {
	t.Helper()
	mock := clock.NewMock()
	opts.Clock = timingwheel.ClockOf(mock)
	w, err := timingwheel.New(opts)
	require.NoError(t, err)
	return w, mock
}

func get(h http.Handler, method, target string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(method, target, nil))
	return rec
}

func only(w *timingwheel.Wheel, options ...Option) http.Handler {
	return Handler(map[string]*timingwheel.Wheel{"orders": w, "none": nil}, options...)
}

// jsonOf asks for the JSON.
func jsonOf(t *testing.T, h http.Handler, query string) (r report) {
	t.Helper()
	rec := get(h, "GET", "/debug/timingwheel/?format=json"+query)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "application/json", rec.Header().Get("Content-Type"))
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &r))
	return r
}

func TestHandlerServesFilesWhereverItIsMounted(t *testing.T) {
	w, _ := newWheel(t, timingwheel.Options{})
	mux := http.NewServeMux()
	mux.Handle("/debug/timingwheel/", only(w))
	mux.Handle("/other/", http.StripPrefix("/other", only(w)))
	for target, contentType := range map[string]string{
		"/debug/timingwheel/":           "text/html; charset=utf-8",
		"/debug/timingwheel/style.css":  "text/css; charset=utf-8",
		"/debug/timingwheel/script.js":  "text/javascript; charset=utf-8",
		"/debug/timingwheel/icon.svg":   "image/svg+xml",
		"/other/":                       "text/html; charset=utf-8",
		"/other/style.css":              "text/css; charset=utf-8",
		"/debug/timingwheel/?key=a":     "text/html; charset=utf-8",
		"/other/?format=json":           "application/json",
		"/debug/timingwheel/page.html":  "",
		"/debug/timingwheel/handler.go": "",
	} {
		rec := get(mux, "GET", target)
		if contentType == "" {
			require.Equal(t, http.StatusNotFound, rec.Code, target)
			continue
		}
		require.Equal(t, http.StatusOK, rec.Code, target)
		require.Equal(t, contentType, rec.Header().Get("Content-Type"), target)
		require.NotEmpty(t, rec.Body.String(), target)
		require.Contains(t, rec.Header().Get("Content-Security-Policy"), "default-src 'none'", target)
	}
	require.Equal(t, http.StatusBadRequest, get(mux, "GET", "/other/?format=xml").Code)
}

func TestHandlerCanOnlyBeRead(t *testing.T) {
	w, _ := newWheel(t, timingwheel.Options{})
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
		for _, target := range []string{"/", "/events", "/style.css"} {
			rec := get(only(w), method, target)
			require.Equal(t, http.StatusMethodNotAllowed, rec.Code, method+target)
			require.Equal(t, "GET, HEAD", rec.Header().Get("Allow"))
		}
	}
	require.Equal(t, http.StatusOK, get(only(w), "HEAD", "/").Code)
	require.Equal(t, http.StatusOK, get(only(w), "HEAD", "/events").Code)
}

// The page has no inline script or style, which the policy would refuse, and no
// address of another host.
func TestPageLoadsNothingFromElsewhere(t *testing.T) {
	w, _ := newWheel(t, timingwheel.Options{Tick: time.Millisecond})
	body := get(only(w), "GET", "/").Body.String()
	for _, bad := range []string{"http:", "https:", "<style", " style=", "onclick", "javascript:", "@import"} {
		require.NotContains(t, body, bad)
	}
	require.Equal(t, 1, strings.Count(body, "<script"))
	for _, name := range []string{"style.css", "script.js"} {
		text, err := assets.ReadFile(name)
		require.NoError(t, err)
		require.NotContains(t, string(text), "http")
	}
}

func TestPageEscapesWhatOthersChose(t *testing.T) {
	w, _ := newWheel(t, timingwheel.Options{})
	const evil = `"><script>alert(1)</script>`
	orders := timingwheel.NewKeyed(w, func(string) {})
	h := Handler(map[string]*timingwheel.Wheel{evil: w}, Lookup(evil, orders, nil, func(key string) string { return "<i>" + key }),
		Lookup("bad", orders, func(string) (string, error) { return "", errors.New("<u>no") }, nil))
	target := "/?key=%22%3E%3Cscript%3Ealert(1)%3C/script%3E"
	body := get(h, "GET", target).Body.String()
	for _, bad := range []string{"<script>", "<i>", "<u>"} {
		require.NotContains(t, body, bad)
	}
	require.Contains(t, body, "&lt;script&gt;")
	require.NotContains(t, get(h, "GET", target+"&format=json").Body.String(), "<script>")
}

func TestPageTellsWhatTheWheelHoldsWithoutAScript(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{
		Tick: 100 * time.Millisecond, Concurrency: 7, MaxPending: 5000, OnPanic: func(any, []byte) {},
	})
	for range 1234 {
		_, err := w.Add(30*time.Second, func() {})
		require.NoError(t, err)
	}
	_, err := w.Add(time.Second, func() { panic("expected") })
	require.NoError(t, err)
	mock.Add(2 * time.Second)
	w.Sync()
	body := get(only(w), "GET", "/").Body.String()
	for _, want := range []string{
		">1,234<", "of at most 5,000", "of 7", "slot 30", "at 00:00:30", ">ticks<", ">hours<", "up to 5 ms", "over 1 min",
		"seconds, slot 30: 1,234 tasks, the hand comes at 00:00:30",
		`<th scope="row">Panicked <small>callbacks that broke; see the log</small></th><td  id="w0-d3">0.50</td><td  id="w0-c3">1</td>`,
	} {
		require.Contains(t, body, want)
	}
	require.Contains(t, get(Handler(nil), "GET", "/").Body.String(), "No wheels are registered")
}

func TestJSONSaysTheSame(t *testing.T) {
	w, mock := newWheel(t, timingwheel.Options{Tick: time.Millisecond, Concurrency: 7})
	_, err := w.Add(90*time.Minute, func() {})
	require.NoError(t, err)
	mock.Add(time.Second)
	r := jsonOf(t, only(w), "")
	require.Len(t, r.Wheels, 1, "a nil wheel is left out")
	o := r.Wheels[0]
	require.Equal(t, "orders", o.Name)
	require.Equal(t, "on time", o.State)
	require.Equal(t, 1, o.Pending)
	require.Equal(t, 7, o.Concurrency)
	require.EqualValues(t, 0.001, o.Tick)
	require.EqualValues(t, 1, o.Window)
	require.Equal(t, counter{Name: "Added", Total: 1, PerSecond: 1}, o.Counters[0])
	require.Len(t, o.Rings, 4)
	require.Len(t, o.Rings[0].Counts, 1000)
	require.EqualValues(t, 1, o.Rings[3].Counts[1])
	require.Nil(t, o.Lateness[len(o.Lateness)-1].UpTo)
}

// Every reason for which an order has not expired must be told apart, in words.
func TestVerdictsTellTheReasons(t *testing.T) {
	began, goOn := make(chan struct{}), make(chan struct{})
	defer close(goOn)
	block := func() { began <- struct{}{}; <-goOn }
	for _, c := range []struct {
		name, state, words string
		make               func(w *timingwheel.Wheel, mock *clock.Mock)
	}{
		{"nothing", "idle", "Nothing is pending, due or running.", func(*timingwheel.Wheel, *clock.Mock) {}},
		{"waiting", "on time", "1 task waits, the next of them not before 00:00:15.", func(w *timingwheel.Wheel, _ *clock.Mock) {
			_, _ = w.Add(15*time.Second, block)
		}},
		{"all places taken", "backlog", "1 task is due and waiting, the first since 00:00:00.", func(w *timingwheel.Wheel, _ *clock.Mock) {
			for range 3 {
				_, _ = w.Add(0, block)
			}
			<-began
			<-began
		}},
		{"stopped", "stopped", "no callback starts any more. 1 task is left on it.", func(w *timingwheel.Wheel, _ *clock.Mock) {
			_, _ = w.Add(time.Hour, block)
			w.Stop()
		}},
	} {
		w, mock := newWheel(t, timingwheel.Options{Concurrency: 2})
		c.make(w, mock)
		o := jsonOf(t, only(w), "").Wheels[0]
		require.Equal(t, c.state, o.State, c.name)
		require.Contains(t, o.Verdict, c.words, c.name)
	}
}

// What no wheel can be brought to at will is said of a made-up snapshot.
func TestVerdictOfAWheelThatIsNotRunInTime(t *testing.T) {
	start := time.Unix(0, 0).UTC()
	s := timingwheel.Snapshot{Now: start.Add(5 * time.Second), Next: start.Add(time.Second), Tick: time.Second, Concurrency: 2}
	s.Pending = 1
	state, words := verdict(&s)
	require.Equal(t, "behind", state)
	require.Contains(t, words, "should have moved on 4 s ago")
	s.Due, s.Running = 1, 1
	state, words = verdict(&s)
	require.Equal(t, "catching up", state)
	require.Equal(t, "1 task is due and being started.", words)
}
