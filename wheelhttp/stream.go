package wheelhttp

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/fee15284/timingwheel"
)

// A stream takes a picture of the wheels every now and then while someone looks,
// once for all who do. Its goroutine ends with the last viewer.
type stream struct {
	sample func() []timingwheel.Snapshot

	mu      sync.Mutex // guards all below
	viewers map[*viewer]bool
	history [][]timingwheel.Snapshot // oldest first, as far as kept
	running bool                     // the goroutine is there
	servers map[*http.Server]bool    // those that tell us when they shut down
}

// A viewer is one open page.
type viewer struct {
	next   chan window // holds one: who reads slowly misses some
	server *http.Server
	end    chan struct{} // closed when the server shuts down
}

const (
	kept        = int(10 * time.Second / every) // how far rates look back
	mostViewers = 32
	patience    = 10 * time.Second // for a viewer that does not read
)

// latest takes a picture now, for a page; the one to compare it with is there if
// someone has been looking.
func (s *stream) latest() window {
	win := window{now: s.sample()}
	s.mu.Lock()
	defer s.mu.Unlock()
	win.before = s.before()
	return win
}

// before returns what to compare a picture with; nil as long as that would say
// little. The lock is held.
func (s *stream) before() []timingwheel.Snapshot {
	if len(s.history) <= int(time.Second/every) {
		return nil
	}
	return s.history[0]
}

// join makes a viewer, or nil if there are too many. Its first window is there at
// once.
func (s *stream) join(server *http.Server) *viewer {
	v := &viewer{next: make(chan window, 1), server: server, end: make(chan struct{})}
	v.next <- s.latest()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.viewers) >= mostViewers {
		return nil
	}
	if s.viewers == nil {
		s.viewers, s.servers = make(map[*viewer]bool), make(map[*http.Server]bool)
	}
	if server != nil && !s.servers[server] {
		// Shutdown waits until requests have ended, and ours would never.
		s.servers[server] = true
		server.RegisterOnShutdown(func() { s.close(server) })
	}
	s.viewers[v] = true
	if !s.running {
		s.running = true
		go s.run()
	}
	return v
}

func (s *stream) leave(v *viewer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.viewers, v)
}

// close ends the streams of a server.
func (s *stream) close(server *http.Server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for v := range s.viewers {
		if v.server == server {
			close(v.end)
			delete(s.viewers, v)
		}
	}
}

func (s *stream) run() {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for s.show(s.sample()) {
		<-ticker.C
	}
}

// show gives a picture to all viewers, and reports whether there are any.
func (s *stream) show(now []timingwheel.Snapshot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.viewers) == 0 {
		s.history, s.running = nil, false
		return false
	}
	s.history = append(s.history, now)
	if len(s.history) > kept {
		s.history = append(s.history[:0], s.history[1:]...)
	}
	for v := range s.viewers {
		select {
		case v.next <- window{now: now, before: s.before()}:
		default:
		}
	}
	return true
}

// serveEvents sends the cells of the page that have changed, as server-sent
// events; first all of them, since nobody knows how old the page is.
func (h *handler) serveEvents(rw http.ResponseWriter, r *http.Request) {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	header := rw.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	v := h.stream.join(server)
	if v == nil {
		http.Error(rw, "timingwheel: too many viewers", http.StatusServiceUnavailable)
		return
	}
	defer h.stream.leave(v)
	query := r.URL.Query()
	control := http.NewResponseController(rw)
	var shown cells
	for {
		select {
		case <-r.Context().Done():
			return
		case <-v.end:
			return
		case win := <-v.next:
			now := h.report(win, query).cells()
			patch := changed(shown, now)
			shown = now
			// The server's own limit for a response must not end this one.
			_ = control.SetWriteDeadline(time.Now().Add(patience))
			if !send(rw, patch) || control.Flush() != nil {
				return
			}
		}
	}
}

// send writes one event: a list of [id, attribute, value].
func send(rw http.ResponseWriter, patch cells) bool {
	list := make([][3]string, len(patch))
	for n, c := range patch {
		list[n] = [3]string{c.ID, c.Attr, c.Value}
	}
	data, err := json.Marshal(list)
	if err != nil {
		return false
	}
	for _, part := range [][]byte{[]byte("data: "), data, []byte("\n\n")} {
		if _, err = rw.Write(part); err != nil {
			return false
		}
	}
	return true
}
