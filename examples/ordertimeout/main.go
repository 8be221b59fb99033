// Ordertimeout is an HTTP service that cancels orders which are not paid within
// a window, with one timeout per order on a timing wheel.
package main

import (
	"log"
	"net/http"
	"time"

	"github.com/fee15284/timingwheel"
)

func main() {
	wheel, err := timingwheel.New(timingwheel.Options{Tick: 100 * time.Millisecond})
	if err != nil {
		log.Fatal(err)
	}
	service, err := NewService(wheel, 15*time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.ListenAndServe("localhost:8080", routes(service)))
}

// routes is all that the program serves.
func routes(service *Service) *http.ServeMux {
	mux := http.NewServeMux()
	service.Register(mux)
	return mux
}
