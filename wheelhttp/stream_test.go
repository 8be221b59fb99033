package wheelhttp

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/stretchr/testify/require"
)

// A watcher is a response that hands on each event when it is flushed.
type watcher struct {
	httptest.ResponseRecorder
	events chan map[string]string
}

func (w *watcher) Flush() {
	var list [][3]string
	text := strings.TrimSuffix(strings.TrimPrefix(w.Body.String(), "data: "), "\n\n")
	w.Body.Reset()
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		panic(err)
	}
	event := map[string]string{}
	for _, c := range list {
		event[c[0]+" "+c[1]] = c[2]
	}
	w.events <- event
}

// watch opens a stream, until the test ends it.
func watch(h http.Handler, query string) (events chan map[string]string, end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	w := &watcher{ResponseRecorder: *httptest.NewRecorder(), events: make(chan map[string]string)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/events?"+query, nil))
	}()
	return w.events, func() {
		cancel()
		go func() {
			for range w.events {
			}
		}()
		<-done
		close(w.events)
	}
}

func TestStreamSendsAllAndThenWhatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := timingwheel.New(timingwheel.Options{})
		require.NoError(t, err)
		h := only(w)
		events, end := watch(h, "")
		all := <-events
		require.Equal(t, "0", all["w0-pending "])
		require.Equal(t, "rotate(3.00)", all["w0-r0hand transform"])

		task, err := w.Add(5*time.Second, func() {})
		require.NoError(t, err)
		next := func() map[string]string {
			for {
				if e := <-events; e["w0-pending "] != "" {
					return e
				}
			}
		}
		e := next()
		require.Equal(t, "1", e["w0-pending "])
		require.Equal(t, "1.00", e["w0-r0s5 fill-opacity"])
		require.Contains(t, e["w0-r0h5 "], "seconds, slot 5: 1 task, the hand comes at")
		require.NotContains(t, e, "w0-r0s6 fill-opacity")
		require.True(t, w.Cancel(task))
		require.Equal(t, "0", next()["w0-r0s5 fill-opacity"])

		for _, angle := range []string{"rotate(9.00)", "rotate(15.00)", "rotate(21.00)"} {
			for e = <-events; e["w0-r0hand transform"] == ""; e = <-events {
			}
			require.Equal(t, angle, e["w0-r0hand transform"], "it stops at each slot")
		}
		end()
		time.Sleep(2 * every) // the goroutine sees that nobody looks
		synctest.Wait()
		require.False(t, h.(*handler).stream.running)
	})
}

// Rates are of the last ten seconds, not of the time since the start.
func TestStreamTellsRecentRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := timingwheel.New(timingwheel.Options{})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		h := only(w)
		events, end := watch(h, "")
		go func() {
			for range events {
			}
		}()
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			_, err := w.Add(time.Hour, func() {})
			require.NoError(t, err)
		}
		o := jsonOf(t, h, "").Wheels[0]
		require.InDelta(t, 10, float64(o.Window), 0.3)
		require.InDelta(t, 10, o.Counters[0].PerSecond, 0.5)
		end()
		time.Sleep(2 * every)
	})
}

func TestStreamsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := timingwheel.New(timingwheel.Options{})
		require.NoError(t, err)
		h := only(w)
		var ends []func()
		for range mostViewers {
			events, end := watch(h, "")
			<-events
			ends = append(ends, end)
		}
		require.Equal(t, http.StatusServiceUnavailable, get(h, "GET", "/events").Code)
		for _, end := range ends {
			end()
		}
		time.Sleep(2 * every)
	})
}

// A page that is open must not hold up the end of the program.
func TestStreamEndsWhenTheServerShutsDown(t *testing.T) {
	w, err := timingwheel.New(timingwheel.Options{})
	require.NoError(t, err)
	server := httptest.NewServer(only(w))
	defer server.Close()
	res, err := http.Get(server.URL + "/events")
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	_, err = res.Body.Read(make([]byte, 6))
	require.NoError(t, err)
	require.NoError(t, server.Config.Shutdown(t.Context()))
	_, err = io.Copy(io.Discard, res.Body)
	require.NoError(t, err, "the stream ends in order")
}

// Many servers limit how long a response may take; the page stays live all the
// same.
func TestStreamOutlivesTheLimitForResponses(t *testing.T) {
	w, err := timingwheel.New(timingwheel.Options{})
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(only(w))
	server.Config.WriteTimeout = every
	server.Start()
	defer server.Close()
	res, err := http.Get(server.URL + "/events")
	require.NoError(t, err)
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for range 8 { // events and the empty lines between them
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
	}
}
