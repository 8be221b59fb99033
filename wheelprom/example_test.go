package wheelprom_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheelhttp"
	"github.com/fee15284/timingwheel/wheelprom"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// A service shows its wheel to Prometheus and, beside it, to people.
func ExampleNewCollector() {
	w, err := timingwheel.New(timingwheel.Options{})
	if err != nil {
		panic(err)
	}
	wheels := map[string]*timingwheel.Wheel{"orders": w}
	registry := prometheus.NewRegistry()
	registry.MustRegister(wheelprom.NewCollector(wheels))

	mux := http.NewServeMux()
	mux.Handle("/debug/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/debug/timingwheel/", wheelhttp.Handler(wheels))

	if _, err := w.Add(15*time.Minute, func() { fmt.Println("not paid in time") }); err != nil {
		panic(err)
	}
	scrape := httptest.NewRecorder()
	mux.ServeHTTP(scrape, httptest.NewRequest("GET", "/debug/metrics", nil))
	for lines := bufio.NewScanner(scrape.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "timingwheel_pending_tasks") {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// timingwheel_pending_tasks{ring="hours",wheel="orders"} 0
	// timingwheel_pending_tasks{ring="minutes",wheel="orders"} 1
	// timingwheel_pending_tasks{ring="seconds",wheel="orders"} 0
}
