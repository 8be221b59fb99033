package main

import (
	"errors"
	"time"
)

// An Order is what a customer asked for, and what became of it.
type Order struct {
	ID    uint64 `json:"id"`
	Item  string `json:"item"`
	Cents int64  `json:"cents"`

	State    State     `json:"state"`
	Created  time.Time `json:"created"`
	Deadline time.Time `json:"deadline"`          // Created plus the payment window
	Ended    time.Time `json:"ended,omitzero"`    // when it was paid or expired
	LateMS   float64   `json:"late_ms,omitempty"` // expired: from Deadline to Ended, in ms
}

// A State says where an order stands. An order starts as Pending and ends in one
// of the other two, for good.
type State string

// The states of an order.
const (
	Pending State = "pending"
	Paid    State = "paid"
	Expired State = "expired"
)

// Stats counts orders and what happened to them.
type Stats struct {
	Created uint64 `json:"created"`
	Paid    uint64 `json:"paid"`
	Expired uint64 `json:"expired"`
	TooLate uint64 `json:"too_late"` // payments refused because the order had expired
	Pending int    `json:"pending"`  // orders neither paid nor expired

	// Timeouts is how many timeouts are waiting on the wheel: as many as there
	// are pending orders, but for those whose timeout is just being run.
	Timeouts int `json:"timeouts"`
}

// The reasons for which the service says no. Its errors wrap one of these or one
// of the wheel's.
var (
	ErrBadOrder = errors.New("bad order")
	ErrNotFound = errors.New("no such order")
	ErrTooLate  = errors.New("too late, the order has expired")
	ErrPaid     = errors.New("the order is paid already")
)
