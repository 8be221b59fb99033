package wheelhttp_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/wheelhttp"
)

func ExampleHandler() {
	w, err := timingwheel.New(timingwheel.Options{})
	if err != nil {
		panic(err)
	}
	orders := timingwheel.NewKeyed(w, func(id string) { fmt.Println("cancel", id) })

	mux := http.NewServeMux()
	mux.Handle("/debug/timingwheel/", wheelhttp.Handler(
		map[string]*timingwheel.Wheel{"orders": w},
		wheelhttp.Lookup("order", orders, nil, nil),
	))

	if err := orders.Add("A-1001", 15*time.Minute); err != nil {
		panic(err)
	}
	rec := httptest.NewRecorder()
	mux.ServeHTTP(rec, httptest.NewRequest("GET", "/debug/timingwheel/?key=A-1001&format=json", nil))
	var page struct{ Answers []struct{ Key, State string } }
	if err := json.Unmarshal(rec.Body.Bytes(), &page); err != nil {
		panic(err)
	}
	fmt.Println(page.Answers[0].Key, "is", page.Answers[0].State)
	// Output: A-1001 is waiting
}
