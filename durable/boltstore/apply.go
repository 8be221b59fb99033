package boltstore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/fee15284/timingwheel/durable"
)

// apply carries out a request's operations. Any error of it and what it calls
// means that the file is not what it was.
func (c *change) apply(r *request) error {
	for i := range r.ops {
		op := &r.ops[i]
		c.id = appendID(c.id[:0], op.Topic, op.Key)
		status, err := c.step(op)
		if err != nil {
			return err
		}
		r.statuses[i] = status
	}
	return nil
}

func (c *change) step(op *durable.Op) (durable.Status, error) {
	at, found := c.index[string(c.id)]
	switch op.Kind {
	case durable.Put, durable.PutNew:
		return c.put(op, at, found)
	case durable.Cancel:
		return c.cancel(at, found)
	case durable.Redrive:
		if !found || at != isDead {
			return durable.NotFound, nil
		}
		return durable.Done, c.redrive(op)
	}
	l := c.leases.byID[string(c.id)]
	if l == nil || l.token != op.Token {
		return durable.Stale, nil
	}
	return durable.Done, c.settle(op, l)
}

func (c *change) put(op *durable.Op, at int64, found bool) (durable.Status, error) {
	status := durable.Created
	id := ""
	if found {
		repeated, err := c.repeats(op, at)
		switch {
		case err != nil:
			return 0, err
		case repeated:
			return durable.Created, nil
		case op.Kind == durable.PutNew:
			return statusOf(at), nil
		}
		status = durable.Replaced
		if err := c.drop(at); err != nil {
			return 0, err
		}
	}
	id = string(c.id)
	return status, c.schedule(id, &record{op: op.ID, payload: op.Payload}, op.Delay)
}

// repeats reports whether a pending timer was put by this very operation.
func (c *change) repeats(op *durable.Op, at int64) (bool, error) {
	if op.ID == 0 || at < 0 {
		return false, nil
	}
	c.key = append(appendDue(c.key[:0], at), c.id...)
	r, _, err := c.fetch(dueBucket, c.key)
	return r.op == op.ID, err
}

// statusOf says what PutNew finds in its way.
func statusOf(at int64) durable.Status {
	switch at {
	case isLeased:
		return durable.InFlight
	case isDead:
		return durable.Dead
	}
	return durable.Exists
}

func (c *change) cancel(at int64, found bool) (durable.Status, error) {
	if !found {
		return durable.NotFound, nil
	}
	if err := c.drop(at); err != nil {
		return 0, err
	}
	delete(c.index, string(c.id))
	if at == isLeased {
		return durable.InFlight, nil
	}
	return durable.Canceled, nil
}

// drop removes the record of the timer with the id c.id; its place in the index is
// the caller's to change.
func (c *change) drop(at int64) error {
	switch at {
	case isLeased:
		l := c.leases.byID[string(c.id)]
		c.leases.remove(l)
		return c.remove(leasedBucket, c.id, l.sum)
	case isDead:
		_, sum, err := c.fetch(deadBucket, c.id)
		if err != nil {
			return err
		}
		c.dead--
		return c.remove(deadBucket, c.id, sum)
	}
	c.key = append(appendDue(c.key[:0], at), c.id...)
	_, sum, err := c.fetch(dueBucket, c.key)
	if err != nil {
		return err
	}
	return c.remove(dueBucket, c.key, sum)
}

// redrive makes a dead timer pending.
func (c *change) redrive(op *durable.Op) error {
	r, sum, err := c.fetch(deadBucket, c.id)
	if err != nil {
		return err
	}
	r = r.clone()
	c.dead--
	if err := c.remove(deadBucket, c.id, sum); err != nil {
		return err
	}
	r.attempts = 0
	return c.schedule(string(c.id), &r, op.Delay)
}

// settle carries out what the holder of a lease decided.
func (c *change) settle(op *durable.Op, l *lease) error {
	if op.Kind == durable.Extend {
		c.leases.extend(l, c.after(op.Delay))
		return nil
	}
	r, sum, err := c.fetch(leasedBucket, c.id)
	if err != nil {
		return err
	}
	r = r.clone()
	c.leases.remove(l)
	if err := c.remove(leasedBucket, c.id, sum); err != nil {
		return err
	}
	switch op.Kind {
	case durable.Retry:
		if op.Uncounted {
			r.attempts--
		} else {
			r.err = []byte(op.Error)
		}
		return c.schedule(l.id, &r, op.Delay)
	case durable.Bury:
		r.err = []byte(op.Error)
		r.at = c.latest
		c.index[l.id] = isDead
		c.dead++
		_, err := c.insert(deadBucket, c.id, &r)
		return err
	}
	delete(c.index, l.id)
	return nil
}

// clone returns a copy that does not refer to a page of the file.
func (r record) clone() record {
	r.err, r.payload = bytes.Clone(r.err), bytes.Clone(r.payload)
	return r
}

// claim leases out what is due: pending timers in the order of the due bucket, and
// those whose lease has ended.
func (c *change) claim(r *request) error {
	r.batch.Now = time.Unix(0, c.latest)
	cursor := c.buckets[dueBucket].Cursor()
	for {
		key, value := cursor.First()
		at := dueOf(key)
		l := c.leases.first()
		expired := l != nil && l.until < at
		if expired {
			at = l.until
		}
		if len(r.batch.Claimed) == r.max || at > c.latest {
			c.next = at
			if at != never {
				r.batch.Next = time.Unix(0, at)
			}
			return nil
		}
		var err error
		if expired {
			err = c.again(r, l)
		} else {
			err = c.lease(r, key, value)
		}
		if err != nil {
			return err
		}
	}
}

// lease leases a pending timer out.
func (c *change) lease(r *request, key, value []byte) error {
	rec, err := decode(key, value)
	if err != nil {
		return err
	}
	c.key = append(c.key[:0], key...)
	id := string(c.key[8:])
	if c.index[id] != rec.at {
		return fmt.Errorf("%w: %.40q is due at %d in the file, at %d in memory", ErrDamaged, id, rec.at, c.index[id])
	}
	sum := sumOf(value)
	rec = rec.clone()
	if err := c.remove(dueBucket, c.key, sum); err != nil {
		return err
	}
	c.index[id] = isLeased
	l := &lease{id: id, until: c.after(r.lease)}
	c.leases.add(l)
	return c.hand(r, l, &rec)
}

// again leases a timer out whose lease has ended.
func (c *change) again(r *request, l *lease) error {
	c.id = append(c.id[:0], l.id...)
	rec, sum, err := c.fetch(leasedBucket, c.id)
	if err != nil {
		return err
	}
	rec = rec.clone()
	c.sums[leasedBucket] -= uint64(sum)
	c.leases.extend(l, c.after(r.lease))
	return c.hand(r, l, &rec)
}

// hand counts the attempt of a claim and adds the timer to the answer.
func (c *change) hand(r *request, l *lease, rec *record) error {
	l.token = fmt.Sprintf("%016x", rand.Uint64())
	rec.attempts++
	c.id = append(c.id[:0], l.id...)
	var err error
	l.sum, err = c.insert(leasedBucket, c.id, rec)
	r.batch.Claimed = append(r.batch.Claimed, durable.Claimed{
		Timer:     timerOf(l.id, rec.payload),
		Token:     l.token,
		Due:       time.Unix(0, rec.at),
		Attempt:   rec.attempts,
		LastError: string(rec.err),
	})
	return err
}
