package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
	"github.com/fee15284/timingwheel/durable/boltstore"
	"github.com/fee15284/timingwheel/wheeltest"
)

// A shopfront is a service on a fake clock, in files that outlive it.
type shopfront struct {
	*Service
	wheel *timingwheel.Wheel
	close func() // ends the process, as it were
}

func openShop(t *testing.T, path string, mock *clock.Mock) *shopfront {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	wheel, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(mock)})
	must(err)
	orders, err := OpenOrders(path)
	must(err)
	store, err := boltstore.Open(path+".timers", boltstore.Options{Now: mock.Now})
	must(err)
	timers, err := durable.New(wheel, store, durable.Options{})
	must(err)
	service, err := NewService(orders, timers, 15*time.Minute, mock.Now)
	must(err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- timers.Run(ctx) }()
	timers.Sync()
	s := &shopfront{service, wheel, sync.OnceFunc(func() {
		cancel()
		must(errors.Join(<-ended, store.Close(), orders.Close()))
	})}
	t.Cleanup(s.close)
	return s
}

func (s *shopfront) create(t *testing.T) string {
	t.Helper()
	order, err := s.Create(t.Context(), "tea", 450)
	if err != nil || order.State != Pending {
		t.Fatal(order, err)
	}
	return order.ID
}

func (s *shopfront) state(t *testing.T, id string) State {
	t.Helper()
	order, err := s.Order(id)
	if err != nil {
		t.Fatal(err)
	}
	return order.State
}

func TestUnpaidOrderExpiresAfter15Minutes(t *testing.T) {
	mock := clock.NewMock()
	s := openShop(t, filepath.Join(t.TempDir(), "orders.db"), mock)
	unpaid, paid := s.create(t), s.create(t)
	wheeltest.Advance(s.wheel, mock.Add, 14*time.Minute+59*time.Second)
	if _, err := s.Pay(t.Context(), paid); err != nil {
		t.Fatal(err)
	}
	if got := s.state(t, unpaid); got != Pending {
		t.Fatalf("%s a second early", got)
	}
	wheeltest.Advance(s.wheel, mock.Add, time.Second)
	if got := s.state(t, unpaid); got != Expired {
		t.Fatal(got)
	}
	if got := s.state(t, paid); got != Paid {
		t.Fatal(got)
	}
	if _, err := s.Pay(t.Context(), unpaid); !errors.Is(err, ErrTooLate) {
		t.Fatal(err)
	}
	if _, err := s.Pay(t.Context(), paid); !errors.Is(err, ErrPaid) {
		t.Fatal(err)
	}
	stats, err := s.Stats()
	if err != nil || stats.Orders[Expired] != 1 || stats.Orders[Paid] != 1 || stats.Timers.Succeeded != 1 {
		t.Fatalf("%+v, %v", stats, err)
	}
}

func TestOrdersExpireAcrossARestart(t *testing.T) {
	mock := clock.NewMock()
	path := filepath.Join(t.TempDir(), "orders.db")
	s := openShop(t, path, mock)
	overdue, paid := s.create(t), s.create(t)
	wheeltest.Advance(s.wheel, mock.Add, 10*time.Minute)
	waiting := s.create(t)
	if _, err := s.Pay(t.Context(), paid); err != nil {
		t.Fatal(err)
	}
	s.close()

	mock.Add(10 * time.Minute) // nobody is there
	s = openShop(t, path, mock)
	if a, b, c := s.state(t, overdue), s.state(t, waiting), s.state(t, paid); a != Expired || b != Pending || c != Paid {
		t.Fatal("after the restart: ", a, b, c)
	}
	wheeltest.Advance(s.wheel, mock.Add, 5*time.Minute)
	order, err := s.Order(waiting)
	if err != nil || order.State != Expired || order.Ended.Sub(order.Deadline) > time.Second {
		t.Fatalf("%+v, %v", order, err)
	}
}

// If the process dies between paying and taking the timer back, the timer fires,
// and does nothing.
func TestTimerOfAPaidOrderDoesNothing(t *testing.T) {
	mock := clock.NewMock()
	s := openShop(t, filepath.Join(t.TempDir(), "orders.db"), mock)
	id := s.create(t)
	if _, _, err := s.orders.End(id, Paid, mock.Now()); err != nil {
		t.Fatal(err)
	}
	orphan := durable.Timer{Topic: topic, Key: "no such order"}
	if _, err := s.timers.Add(t.Context(), orphan, time.Minute); err != nil {
		t.Fatal(err)
	}
	wheeltest.Advance(s.wheel, mock.Add, time.Hour)
	if got := s.state(t, id); got != Paid {
		t.Fatal(got)
	}
	if st := s.timers.Stats(); st.Succeeded != 2 || st.Retried != 0 {
		t.Fatalf("%+v", st)
	}
}

func TestOverHTTP(t *testing.T) {
	mock := clock.NewMock()
	s := openShop(t, filepath.Join(t.TempDir(), "orders.db"), mock)
	request := func(method, path, body string) (int, string) {
		answer := httptest.NewRecorder()
		s.Routes().ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
		return answer.Code, answer.Body.String()
	}
	code, body := request("POST", "/orders", `{"item":"tea","cents":450}`)
	var order Order
	if err := json.Unmarshal([]byte(body), &order); code != 201 || err != nil || order.State != Pending {
		t.Fatal(code, body, err)
	}
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"GET", "/orders/" + order.ID, "", 200, `"state":"pending"`},
		{"POST", "/orders/" + order.ID + "/pay", "", 200, `"state":"paid"`},
		{"POST", "/orders/" + order.ID + "/pay", "", 409, "paid already"},
		{"POST", "/orders/other/pay", "", 404, "no such order"},
		{"GET", "/orders/other", "", 404, "no such order"},
		{"POST", "/orders", `{"item":`, 400, "bad order"},
		{"POST", "/orders", `{"cents":1}`, 400, "item is empty"},
		{"POST", "/orders", `{"item":"tea","cents":0}`, 400, "cents 0 is not positive"},
		{"GET", "/stats", "", 200, `"paid":1`},
	} {
		if code, body := request(c.method, c.path, c.body); code != c.code || !strings.Contains(body, c.says) {
			t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, code, body)
		}
	}
}
