// Package wheelhttp serves a live page about timing wheels, for the person who is
// asked why a timeout did not fire: each wheel drawn as it is, with its hands and
// how full its slots are, the backlog, the callbacks that are running, how late
// they start, and, where the host allows it, where the task of a given key is.
//
//	mux.Handle("/debug/timingwheel/", wheelhttp.Handler(map[string]*timingwheel.Wheel{
//		"orders": w,
//	}))
//
// The page is live by server-sent events, and complete without JavaScript. It
// loads nothing from elsewhere, and can be looked at but change nothing. Like
// net/http/pprof it has no authentication of its own: mount it where only those
// who may see it can reach it.
//
// Add ?format=json for the same as JSON. For package expvar one line is enough:
//
//	expvar.Publish("orders", expvar.Func(func() any { return w.Stats() }))
package wheelhttp

import (
	"bytes"
	"embed"
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/fee15284/timingwheel"
)

//go:embed page.html style.css script.js icon.svg
var assets embed.FS

// An Option adds to what Handler serves.
type Option func(*handler)

// Handler returns a handler that serves the page of the given wheels, by name. It
// is to be mounted at a path that ends in a slash, with or without http.StripPrefix,
// and answers GET and HEAD only.
//
// A request costs each wheel one Snapshot, a page that is open in a browser four
// per second for all viewers together, and without a viewer the handler does
// nothing and has no goroutine. The map is copied; nil wheels are left out.
func Handler(wheels map[string]*timingwheel.Wheel, options ...Option) http.Handler {
	h := &handler{}
	for _, name := range slices.Sorted(maps.Keys(wheels)) {
		if w := wheels[name]; w != nil {
			h.wheels = append(h.wheels, named{name, w})
		}
	}
	for _, option := range options {
		option(h)
	}
	h.stream.sample = h.sample
	return h
}

type named struct {
	name  string
	wheel *timingwheel.Wheel
}

type handler struct {
	wheels  []named
	lookups []lookup
	stream  stream
}

func (h *handler) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	header := rw.Header()
	header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "+
		"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		http.Error(rw, "timingwheel: this page can only be read", http.StatusMethodNotAllowed)
		return
	}
	switch name := file(r.URL.Path); name {
	case "":
		h.servePage(rw, r)
	case "events":
		h.serveEvents(rw, r)
	case "style.css", "script.js", "icon.svg":
		header.Set("Cache-Control", "max-age=60")
		http.ServeFileFS(rw, r, assets, name)
	default:
		http.NotFound(rw, r)
	}
}

// file returns what stands behind the last slash, so that the handler need not
// know where it is mounted.
func file(urlPath string) string {
	if urlPath == "" || strings.HasSuffix(urlPath, "/") {
		return ""
	}
	return path.Base(urlPath)
}

func (h *handler) servePage(rw http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	report := h.report(h.stream.latest(), query)
	var out bytes.Buffer
	var err error
	rw.Header().Set("Cache-Control", "no-store")
	switch query.Get("format") {
	case "json":
		rw.Header().Set("Content-Type", "application/json")
		err = json.NewEncoder(&out).Encode(report)
	case "", "html":
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		err = render(&out, report)
	default:
		http.Error(rw, "timingwheel: format is html or json", http.StatusBadRequest)
		return
	}
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	rw.Write(out.Bytes())
}

// sample takes a snapshot of each wheel, in the order of names.
func (h *handler) sample() []timingwheel.Snapshot {
	all := make([]timingwheel.Snapshot, len(h.wheels))
	for n := range h.wheels {
		all[n] = h.wheels[n].wheel.Snapshot()
	}
	return all
}

// every is the time between two pictures: short enough for a hand to be seen
// moving, long enough to cost nothing.
const every = 250 * time.Millisecond
