package durable

import (
	"errors"
	"fmt"
	"time"
)

// A Timer is a timeout as data: what a handler is told when its time has come. At
// most one exists with a topic and key.
type Timer struct {
	Topic   string // which handler; 1 to MaxTopic bytes
	Key     string // which one of that topic, such as an order number; 1 to MaxKey bytes
	Payload []byte // whatever the handler wants to know; up to MaxPayload bytes
}

// The reasons for which durable and its stores refuse. Each error wraps one of
// these and says what was wrong and what can be done.
var (
	ErrInvalid   = errors.New("durable: a value is out of range") // nothing has happened
	ErrClosed    = errors.New("durable: the store is closed")
	ErrFailed    = errors.New("durable: the store has failed and must be opened anew")
	ErrRunning   = errors.New("durable: the scheduler is running")
	ErrLeaseLost = errors.New("durable: the lease of this delivery is lost") // cause of a handler's context
)

// invalid returns an error that wraps ErrInvalid.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// check returns what is wrong with a timer.
func (t *Timer) check() error {
	switch {
	case t.Topic == "" || len(t.Topic) > MaxTopic:
		return invalid("a topic of %d bytes, it needs 1 to %d", len(t.Topic), MaxTopic)
	case t.Key == "" || len(t.Key) > MaxKey:
		return invalid("a key of %d bytes in topic %q, it needs 1 to %d", len(t.Key), t.Topic, MaxKey)
	case len(t.Payload) > MaxPayload:
		return invalid("a payload of %d bytes for topic %q, key %q: at most %d are kept, store more elsewhere and put a reference here",
			len(t.Payload), t.Topic, t.Key, MaxPayload)
	}
	return nil
}

// CheckOps returns an error that wraps ErrInvalid if Store.Apply must refuse ops.
// It is for those who write a Store.
func CheckOps(ops []Op) error {
	if len(ops) == 0 || len(ops) > MaxBatch {
		return invalid("a batch of %d operations, it needs 1 to %d", len(ops), MaxBatch)
	}
	for i := range ops {
		op := &ops[i]
		t := Timer{op.Topic, op.Key, op.Payload}
		if err := t.check(); err != nil {
			return err
		}
		switch {
		case op.Kind < Put || op.Kind > Redrive:
			return invalid("operation %d is of kind %d, which there is not", i, op.Kind)
		case op.Kind == Extend && (op.Delay < MinLease || op.Delay > MaxLease):
			return invalid("operation %d extends a lease by %v, it needs %v to %v", i, op.Delay, MinLease, MaxLease)
		case len(op.Error) > MaxError:
			return invalid("operation %d has an error of %d bytes, at most %d are kept", i, len(op.Error), MaxError)
		}
	}
	return nil
}

// CheckClaim returns an error that wraps ErrInvalid if Store.Claim must refuse its
// arguments. It is for those who write a Store.
func CheckClaim(max int, lease time.Duration) error {
	switch {
	case max < 1 || max > MaxBatch:
		return invalid("a claim of %d timers, it needs 1 to %d", max, MaxBatch)
	case lease < MinLease || lease > MaxLease:
		return invalid("a lease of %v, it needs %v to %v", lease, MinLease, MaxLease)
	}
	return nil
}

// CheckDead returns an error that wraps ErrInvalid if Store.Dead must refuse its
// arguments. It is for those who write a Store.
func CheckDead(skip, max int) error {
	if skip < 0 || max < 1 || max > MaxBatch {
		return invalid("%d dead timers after %d, it needs 1 to %d after 0 or more", max, skip, MaxBatch)
	}
	return nil
}

var kindNames = [...]string{"none", "Put", "PutNew", "Cancel", "Ack", "Retry", "Extend", "Bury", "Redrive"}

// String returns the name of the kind.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", k)
}

var statusNames = [...]string{"none", "Created", "Replaced", "Exists", "InFlight", "Dead", "Canceled",
	"NotFound", "Done", "Stale"}

// String returns the name of the status.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("Status(%d)", s)
}
