package main

import (
	"expvar"
	"fmt"
	"net/http"
	"strconv"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheelhttp"
)

// wheels is what expvar shows under that name: a name can be taken only once in
// a program, and each run in a test has a wheel of its own.
var wheels = expvar.NewMap("timingwheel")

// RegisterDebug adds what the person on call looks at. In a real service these
// routes need a guard, or a listener of their own.
//
//	GET /debug/timingwheel/          the wheel, live; ?key=42 tells of order 42
//	GET /debug/vars                  its Stats among the variables of the program
//
// For Prometheus, package wheelprom makes metrics of the same wheel; it is a
// module of its own, and its example shows how to mount it.
func (s *Service) RegisterDebug(mux *http.ServeMux) {
	wheels.Set("orders", expvar.Func(func() any { return s.wheel.Stats() }))
	mux.Handle("GET /debug/vars", expvar.Handler())
	mux.Handle("/debug/timingwheel/", wheelhttp.Handler(
		map[string]*timingwheel.Wheel{"orders": s.wheel},
		wheelhttp.Lookup("order", s.timeouts, parseID, s.describe),
	))
}

func parseID(text string) (uint64, error) {
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("order %q: an order has a number", text)
	}
	return id, nil
}

// describe says what the service knows of an order, and nothing that only its
// customer should know.
func (s *Service) describe(id uint64) string {
	o, err := s.Order(id)
	switch {
	case err != nil:
		return err.Error()
	case o.State == Pending:
		return fmt.Sprintf("order %d: waits for its payment", id)
	}
	return fmt.Sprintf("order %d: %s at %s", id, o.State, o.Ended.Format("15:04:05.000"))
}
