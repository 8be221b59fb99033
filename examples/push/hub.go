package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/fee15284/timingwheel"
)

const (
	maxBody  = 64 << 10         // bytes of a request
	backlog  = 64               // messages that a client may be behind
	patience = 10 * time.Second // for a client to take one
)

// A message is a text and when it is sent.
type message struct {
	ID   uint64    `json:"id"`
	Text string    `json:"text"`
	Due  time.Time `json:"due"`
}

// A hub sends messages to all clients that are connected when their time comes.
type hub struct {
	wheel *timingwheel.Wheel

	mu      sync.Mutex // guards all below
	last    uint64     // number of the last message
	waiting map[uint64]timingwheel.Task
	clients map[chan message]bool // nil: the hub is closed
}

// newHub returns a hub on a wheel, which stays the caller's. If its Concurrency is
// 1, messages of one tick are sent in the order in which they came.
func newHub(w *timingwheel.Wheel) *hub {
	return &hub{wheel: w, waiting: make(map[uint64]timingwheel.Task), clients: make(map[chan message]bool)}
}

// routes is what the hub serves.
func (h *hub) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /push", h.post)
	mux.HandleFunc("DELETE /push/{id}", h.delete)
	mux.HandleFunc("GET /events", h.events)
	return mux
}

func (h *hub) post(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Delay string `json:"delay"`
		Text  string `json:"text"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	delay, err := time.ParseDuration(ask.Delay)
	switch {
	case err != nil || delay < 0:
		http.Error(w, fmt.Sprintf("delay %q is not a duration like 1m30s", ask.Delay), http.StatusBadRequest)
		return
	case ask.Text == "":
		http.Error(w, "text is empty", http.StatusBadRequest)
		return
	}
	m, err := h.schedule(delay, ask.Text)
	if err != nil { // the wheel is full, or stopped
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", fmt.Sprintf("/push/%d", m.ID))
	w.WriteHeader(http.StatusAccepted)
	_ = json.NewEncoder(w).Encode(m)
}

func (h *hub) schedule(delay time.Duration, text string) (message, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := message{ID: h.last + 1, Text: text, Due: h.wheel.Now().Add(delay)}
	task, err := h.wheel.Add(delay, func() { h.send(m) })
	if err != nil {
		return message{}, err
	}
	h.last++
	h.waiting[m.ID] = task // send waits for the lock, so this comes before
	return m, nil
}

// send is the callback. It never waits for a client: one that has fallen too far
// behind is disconnected, and may come back.
func (h *hub) send(m message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, m.ID)
	for c := range h.clients {
		select {
		case c <- m:
		default:
			h.drop(c)
		}
	}
}

// delete takes a message back. Cancel decides: true means that nobody has got or
// will get it.
func (h *hub) delete(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(r.PathValue("id"), 10, 64)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err != nil || id == 0 || id > h.last:
		http.Error(w, fmt.Sprintf("there is no message %q", r.PathValue("id")), http.StatusNotFound)
	case !h.wheel.Cancel(h.waiting[id]): // of the zero Task it is false
		http.Error(w, fmt.Sprintf("message %d was sent or taken back already", id), http.StatusConflict)
	default:
		delete(h.waiting, id)
		w.WriteHeader(http.StatusNoContent)
	}
}

// events is the stream of one client.
func (h *hub) events(w http.ResponseWriter, r *http.Request) {
	client := h.connect()
	defer h.disconnect(client)
	out := http.NewResponseController(w)
	write := func(format string, args ...any) error {
		// Not every ResponseWriter can do this; without it a client that reads
		// nothing keeps its handler, but nobody else waits.
		if err := out.SetWriteDeadline(time.Now().Add(patience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			return err
		}
		return out.Flush()
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	err := write(": connected\n\n")
	for err == nil {
		select {
		case m, ok := <-client:
			if !ok {
				return
			}
			data, _ := json.Marshal(m) // in one line, as an event needs it
			err = write("id: %d\ndata: %s\n\n", m.ID, data)
		case <-r.Context().Done():
			return
		}
	}
}

func (h *hub) connect() chan message {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan message, backlog)
	if h.clients == nil {
		close(c)
	} else {
		h.clients[c] = true
	}
	return c
}

func (h *hub) disconnect(c chan message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(c)
}

// drop ends the stream of a client, if that has not been done; with the lock held.
func (h *hub) drop(c chan message) {
	if h.clients[c] {
		delete(h.clients, c)
		close(c)
	}
}

// close disconnects all clients, and lets no others in.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.clients {
		h.drop(c)
	}
	h.clients = nil
}
