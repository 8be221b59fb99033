package boltstore

import "container/heap"

// A lease is a claim that was neither settled nor put out of date.
type lease struct {
	id    string
	token string
	until int64
	sum   uint32 // checksum of the record in the leased bucket
	seat  int    // place in the queue
}

// leases finds them by id and by their end.
type leases struct {
	byID  map[string]*lease
	queue leaseQueue
}

// first returns the lease that ends first, or nil.
func (l *leases) first() *lease {
	if len(l.queue) == 0 {
		return nil
	}
	return l.queue[0]
}

func (l *leases) add(x *lease) {
	if l.byID == nil {
		l.byID = make(map[string]*lease)
	}
	l.byID[x.id] = x
	heap.Push(&l.queue, x)
}

func (l *leases) extend(x *lease, until int64) {
	x.until = until
	heap.Fix(&l.queue, x.seat)
}

func (l *leases) remove(x *lease) {
	delete(l.byID, x.id)
	heap.Remove(&l.queue, x.seat)
}

type leaseQueue []*lease

func (q leaseQueue) Len() int           { return len(q) }
func (q leaseQueue) Less(i, j int) bool { return q[i].until < q[j].until }
func (q leaseQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].seat, q[j].seat = i, j
}

// Push is for package heap.
func (q *leaseQueue) Push(x any) {
	l := x.(*lease)
	l.seat = len(*q)
	*q = append(*q, l)
}

// Pop is for package heap.
func (q *leaseQueue) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return l
}
