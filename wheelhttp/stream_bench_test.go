package wheelhttp

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/stretchr/testify/require"
)

// What a viewer costs the program: Add and Cancel beside a million pending tasks,
// before anyone looks and with one page open.
func BenchmarkAddCancelWithViewer(b *testing.B) {
	w, err := timingwheel.New(timingwheel.Options{Tick: time.Millisecond})
	require.NoError(b, err)
	fn := func() {}
	for i := range 1_000_000 {
		_, err = w.Add(10*time.Minute+time.Duration(i)*3*time.Millisecond, fn)
		require.NoError(b, err)
	}
	addAndCancel := func(b *testing.B) {
		var ring [1024]timingwheel.Task
		for i := 0; b.Loop(); i++ {
			k := i & 1023
			w.Cancel(ring[k])
			ring[k], _ = w.Add(15*time.Minute+time.Duration(k)*time.Second, fn)
		}
	}
	server := httptest.NewServer(only(w))
	defer server.Close()
	b.Run("viewers=0", addAndCancel)
	b.Run("viewers=1", func(b *testing.B) {
		res, err := http.Get(server.URL + "/events")
		require.NoError(b, err)
		defer res.Body.Close()
		go func() {
			buf := make([]byte, 1<<16)
			for err := error(nil); err == nil; _, err = res.Body.Read(buf) {
			}
		}()
		addAndCancel(b)
	})
}

// One picture: a snapshot of a wheel with four rings, put into words.
func BenchmarkPicture(b *testing.B) {
	w, err := timingwheel.New(timingwheel.Options{Tick: time.Millisecond})
	require.NoError(b, err)
	h := only(w).(*handler)
	b.ReportAllocs()
	for b.Loop() {
		h.report(h.stream.latest(), nil).cells()
	}
}
