package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"
)

// An Order is what a customer asked for, and what became of it.
type Order struct {
	ID    string `json:"id"`
	Item  string `json:"item"`
	Cents int64  `json:"cents"`

	State    State     `json:"state"`
	Created  time.Time `json:"created"`
	Deadline time.Time `json:"deadline"`       // Created plus the payment window
	Ended    time.Time `json:"ended,omitzero"` // when it was paid or expired
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

// The reasons for which the service says no.
var (
	ErrBadOrder = errors.New("bad order")
	ErrNotFound = errors.New("no such order")
	ErrTooLate  = errors.New("too late, the order has expired")
	ErrPaid     = errors.New("the order is paid already")
)

// Orders are the orders in a file. It stands for the database that a real service
// has. What its methods have done is on disk when they return.
type Orders struct{ db *bolt.DB }

var bucket = []byte("orders")

// OpenOrders opens a file of orders, and makes one if there is none.
func OpenOrders(path string) (*Orders, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{Timeout: time.Second})
	if err != nil {
		return nil, fmt.Errorf("orders in %s: %w", path, err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	db.MaxBatchDelay = 2 * time.Millisecond
	return &Orders{db}, err
}

// Close closes the file.
func (o *Orders) Close() error { return o.db.Close() }

// Put writes a new order.
func (o *Orders) Put(order Order) error {
	// Batch shares a sync of the disk among those who call at the same time.
	return o.db.Batch(func(tx *bolt.Tx) error { return write(tx, order) })
}

// Get returns an order. The error wraps ErrNotFound.
func (o *Orders) Get(id string) (Order, error) {
	var order Order
	err := o.db.View(func(tx *bolt.Tx) (err error) {
		order, err = read(tx, id)
		return err
	})
	return order, err
}

// End is the one place where paying and expiring meet: whichever transaction comes
// first ends the order, the other finds it ended. It returns the order as it is
// then, and whether this call ended it.
func (o *Orders) End(id string, as State, at time.Time) (order Order, ended bool, err error) {
	err = o.db.Batch(func(tx *bolt.Tx) (err error) {
		ended = false // this may be called twice
		if order, err = read(tx, id); err != nil || order.State != Pending {
			return err
		}
		order.State, order.Ended, ended = as, at, true
		return write(tx, order)
	})
	return order, ended, err
}

// Count returns how many orders there are in each state. It reads all of them.
func (o *Orders) Count() (map[State]int, error) {
	counts := map[State]int{Pending: 0, Paid: 0, Expired: 0}
	err := o.db.View(func(tx *bolt.Tx) error {
		return tx.Bucket(bucket).ForEach(func(_, data []byte) error {
			var order Order
			err := json.Unmarshal(data, &order)
			counts[order.State]++
			return err
		})
	})
	return counts, err
}

func read(tx *bolt.Tx, id string) (Order, error) {
	var order Order
	data := tx.Bucket(bucket).Get([]byte(id))
	if data == nil {
		return order, fmt.Errorf("order %q: %w", id, ErrNotFound)
	}
	return order, json.Unmarshal(data, &order)
}

func write(tx *bolt.Tx, order Order) error {
	data, err := json.Marshal(order)
	if err != nil {
		return err
	}
	return tx.Bucket(bucket).Put([]byte(order.ID), data)
}
