package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Traffic is many customers, each of whom orders something over HTTP and then
// pays at a random moment, or about when the window ends, or never.
type traffic struct {
	base   string // of the service's addresses
	client *http.Client
	plan   config
	show   *progress
}

// connections is how many the customers share. More would only wait in line in
// the kernel, and time spent there looks like lateness.
const connections = 64

// patience is how much longer than the window and a tick the traffic waits for
// the last order to end.
const patience = 10 * time.Second

// A receipt is what one customer was told, by the customer's own clock.
type receipt struct {
	id       uint64
	sent     time.Time // just before the order was sent
	payment  payment
	answered time.Time // the answer to the payment, if there was one
	err      error     // an answer that makes no sense, or none at all
}

type payment string

const (
	never    payment = "not tried"
	accepted payment = "accepted"
	refused  payment = "refused"
)

func newTraffic(base string, plan config, show *progress) *traffic {
	return &traffic{base: base, plan: plan, show: show, client: &http.Client{
		Timeout:   patience,
		Transport: &http.Transport{MaxConnsPerHost: connections, MaxIdleConnsPerHost: connections},
	}}
}

// run sends all orders and returns when each of them has ended, or should have.
// Meanwhile it shows how things stand.
func (t *traffic) run(ctx context.Context) ([]receipt, error) {
	receipts := make([]receipt, t.plan.orders)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		t.send(ctx, receipts)
	}()
	defer func() { <-sent }() // the receipts are not the caller's before
	look := time.NewTicker(t.show.every)
	defer look.Stop()
	var giveUp <-chan time.Time
	for all := sent; ; {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-all:
			all = nil
			giveUp = time.After(t.plan.window + t.plan.tick + patience)
		case <-giveUp:
			return receipts, nil
		case <-look.C:
			stats, err := t.stats(ctx)
			if err != nil {
				return nil, err
			}
			t.show.print(stats)
			if all == nil && stats.Pending == 0 {
				return receipts, nil
			}
		}
	}
}

// send lets the customers loose, evenly spread over the plan's span, and returns
// when the last one is done.
func (t *traffic) send(ctx context.Context, receipts []receipt) {
	var customers sync.WaitGroup
	defer customers.Wait()
	start := time.Now()
	for n := range receipts {
		at := time.Duration(float64(t.plan.span()) * float64(n) / float64(len(receipts)))
		if !sleepUntil(ctx, start.Add(at)) {
			return
		}
		customers.Go(func() { receipts[n] = t.customer(ctx) })
	}
}

// customer is the life of one order as its customer sees it.
func (t *traffic) customer(ctx context.Context) receipt {
	r := receipt{payment: never, sent: time.Now()}
	var o Order
	code, err := t.call(ctx, http.MethodPost, "/orders", `{"item":"tea","cents":450}`, &o)
	if err != nil || code != http.StatusCreated {
		r.err = unexpected("POST /orders", code, err)
		return r
	}
	r.id = o.ID
	wait, pays := t.whenToPay()
	if !pays || !sleepUntil(ctx, r.sent.Add(wait)) {
		return r
	}
	path := fmt.Sprintf("/orders/%d/pay", r.id)
	code, err = t.call(ctx, http.MethodPost, path, "", &o)
	r.answered = time.Now()
	switch {
	case err == nil && code == http.StatusOK:
		r.payment = accepted
	case err == nil && code == http.StatusConflict:
		r.payment = refused
	default:
		r.err = unexpected("POST "+path, code, err)
	}
	return r
}

// whenToPay decides whether and when a customer pays. One payment in ten is aimed
// at the deadline, up to a tick before or after it, where it races the timeout.
func (t *traffic) whenToPay() (time.Duration, bool) {
	if rand.Float64() >= t.plan.paid {
		return 0, false
	}
	if rand.IntN(10) == 0 {
		return t.plan.window - t.plan.tick + rand.N(2*t.plan.tick), true
	}
	return rand.N(t.plan.window), true
}

// orders asks the service for every order of the receipts, in their order.
func (t *traffic) orders(ctx context.Context, receipts []receipt) ([]Order, error) {
	orders := make([]Order, len(receipts))
	for n, r := range receipts {
		if r.id == 0 {
			continue // there was no answer to the order; the receipt says so
		}
		path := fmt.Sprintf("/orders/%d", r.id)
		code, err := t.call(ctx, http.MethodGet, path, "", &orders[n])
		if err != nil || code != http.StatusOK {
			return nil, unexpected("GET "+path, code, err)
		}
	}
	return orders, nil
}

func (t *traffic) stats(ctx context.Context) (Stats, error) {
	var stats Stats
	code, err := t.call(ctx, http.MethodGet, "/stats", "", &stats)
	if err != nil || code != http.StatusOK {
		return stats, unexpected("GET /stats", code, err)
	}
	return stats, nil
}

// call sends one request and returns the status; the answer's JSON goes to reply,
// unless it is an error.
func (t *traffic) call(ctx context.Context, method, path, body string, reply any) (int, error) {
	req, err := http.NewRequestWithContext(ctx, method, t.base+path, bytes.NewBufferString(body))
	if err != nil {
		return 0, err
	}
	resp, err := t.client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= http.StatusBadRequest {
		_, err = io.Copy(io.Discard, resp.Body) // so that the connection is used again
		return resp.StatusCode, err
	}
	return resp.StatusCode, json.NewDecoder(resp.Body).Decode(reply)
}

func unexpected(request string, code int, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", request, err)
	}
	return fmt.Errorf("%s: unexpected status %d %s", request, code, http.StatusText(code))
}

// sleepUntil returns false if ctx ends before that time.
func sleepUntil(ctx context.Context, at time.Time) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
