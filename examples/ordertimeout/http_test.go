package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
)

// request sends one request to the routes of a service.
func request(s *Service, method, path, body string) *httptest.ResponseRecorder {
	answer := httptest.NewRecorder()
	routes(s).ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
	return answer
}

func decode[T any](t *testing.T, answer *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	require.NoError(t, json.Unmarshal(answer.Body.Bytes(), &v), answer.Body.String())
	return v
}

func TestOrderOverHTTP(t *testing.T) {
	s, w, mock := newService(t, timingwheel.Options{})

	answer := request(s, "POST", "/orders", `{"item":"tea","cents":450}`)
	assert.Equal(t, http.StatusCreated, answer.Code)
	assert.Equal(t, "/orders/1", answer.Header().Get("Location"))
	assert.Equal(t, "application/json", answer.Header().Get("Content-Type"))
	o := decode[Order](t, answer)
	assert.Equal(t, Order{ID: 1, Item: "tea", Cents: 450, State: Pending, Created: o.Created, Deadline: o.Deadline}, o)
	assert.Equal(t, 15*time.Minute, o.Deadline.Sub(o.Created))
	assert.NotContains(t, answer.Body.String(), "ended")

	answer = request(s, "POST", "/orders/1/pay", "")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Equal(t, Paid, decode[Order](t, answer).State)

	request(s, "POST", "/orders", `{"item":"tea","cents":450}`)
	mock.Add(15 * time.Minute)
	w.Sync()
	answer = request(s, "POST", "/orders/2/pay", "")
	assert.Equal(t, http.StatusConflict, answer.Code, "too late")
	assert.Equal(t, "order 2: too late, the order has expired", decode[map[string]string](t, answer)["error"])

	answer = request(s, "GET", "/orders/2", "")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Equal(t, Expired, decode[Order](t, answer).State)

	answer = request(s, "GET", "/stats", "")
	assert.Equal(t, http.StatusOK, answer.Code)
	assert.Equal(t, Stats{Created: 2, Paid: 1, Expired: 1, TooLate: 1}, decode[Stats](t, answer))
}

func TestRefusalsOverHTTP(t *testing.T) {
	for _, c := range []struct {
		method, path, body string
		code               int
		says               string
	}{
		{"POST", "/orders", `{"item":`, 400, "unexpected EOF"},
		{"POST", "/orders", ``, 400, "bad order"},
		{"POST", "/orders", `[]`, 400, "bad order"},
		{"POST", "/orders", `{"item":"tea","cents":"450"}`, 400, "cents"},
		{"POST", "/orders", `{"item":"tea","cents":450,"tip":1}`, 400, "tip"},
		{"POST", "/orders", `{"item":"tea","cents":450} {}`, 400, "more after the JSON object"},
		{"POST", "/orders", `{"cents":450}`, 400, "item is empty"},
		{"POST", "/orders", `{"item":"tea","cents":-1}`, 400, "cents -1 is not positive"},
		{"POST", "/orders", `{"item":"` + strings.Repeat("a", maxBody) + `","cents":1}`, 400, "too large"},
		{"POST", "/orders/1/pay", "", 409, "paid already"},
		{"POST", "/orders/2/pay", "", 404, "order 2: no such order"},
		{"POST", "/orders/tea/pay", "", 404, `order \"tea\": no such order`},
		{"POST", "/orders/-1/pay", "", 404, "no such order"},
		{"GET", "/orders/0", "", 404, "order 0: no such order"},
		{"GET", "/orders/18446744073709551616", "", 404, "no such order"},
		{"GET", "/nothing", "", 404, "not found"},
		{"GET", "/orders", "", 405, "Method Not Allowed"},
		{"DELETE", "/orders/1", "", 405, "Method Not Allowed"},
		{"GET", "/orders/1/pay", "", 405, "Method Not Allowed"},
		{"POST", "/stats", "", 405, "Method Not Allowed"},
	} {
		s, _, _ := newService(t, timingwheel.Options{})
		create(t, s)
		_, err := s.Pay(1)
		require.NoError(t, err)
		before := s.Stats()

		answer := request(s, c.method, c.path, c.body)
		assert.Equal(t, c.code, answer.Code, "%s %s %.60s", c.method, c.path, c.body)
		assert.Contains(t, answer.Body.String(), c.says, "%s %s %.60s", c.method, c.path, c.body)
		assert.Equal(t, before, s.Stats(), "nothing has changed")
	}
}

func TestStoppedWheelIsUnavailableOverHTTP(t *testing.T) {
	s, w, _ := newService(t, timingwheel.Options{})
	w.Stop()
	answer := request(s, "POST", "/orders", `{"item":"tea","cents":450}`)
	assert.Equal(t, http.StatusServiceUnavailable, answer.Code)
	assert.Contains(t, answer.Body.String(), "the wheel is stopped")
}
