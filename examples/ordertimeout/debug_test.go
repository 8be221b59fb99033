package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fee15284/timingwheel"
)

// The person on call asks the page why an order has not expired.
func TestPageTellsWhatBecameOfAnOrder(t *testing.T) {
	mock := clock.NewMock()
	w, err := timingwheel.New(timingwheel.Options{Clock: timingwheel.ClockOf(mock)})
	require.NoError(t, err)
	s, err := NewService(w, 15*time.Minute)
	require.NoError(t, err)
	mux := routes(s)
	for range 3 {
		_, err = s.Create("tea", 450)
		require.NoError(t, err)
	}
	_, err = s.Pay(2)
	require.NoError(t, err)

	page := func(key string) string {
		rec := httptest.NewRecorder()
		mux.ServeHTTP(rec, httptest.NewRequest("GET", "/debug/timingwheel/?key="+key, nil))
		require.Equal(t, http.StatusOK, rec.Code)
		return rec.Body.String()
	}
	assert.Contains(t, page("1"), "It is not time yet: its deadline is at 00:15:00, in 15 min.")
	assert.Contains(t, page("1"), "order 1: waits for its payment")
	assert.Contains(t, page("2"), "Not on the wheel")
	assert.Contains(t, page("2"), "order 2: paid at 00:00:00.000")
	assert.Contains(t, page("9"), "order 9: no such order")
	assert.Contains(t, page("x"), "an order has a number")
	mock.Add(15 * time.Minute)
	w.Sync()
	assert.Contains(t, page("1"), "order 1: expired at 00:15:00.000")
	assert.NotContains(t, page("1"), "tea")
}

func TestVarsHoldTheStatsOfTheWheel(t *testing.T) {
	w, err := timingwheel.New(timingwheel.Options{})
	require.NoError(t, err)
	s, err := NewService(w, time.Hour)
	require.NoError(t, err)
	mux := routes(s)
	_, err = s.Create("tea", 450)
	require.NoError(t, err)
	rec := httptest.NewRecorder()
	mux.ServeHTTP(rec, httptest.NewRequest("GET", "/debug/vars", nil))
	var vars struct {
		Timingwheel struct{ Orders timingwheel.Stats }
	}
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &vars))
	assert.Equal(t, 1, vars.Timingwheel.Orders.Pending)
}
