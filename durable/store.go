package durable

import (
	"context"
	"time"
)

// A Store keeps timers where a crash of the process does not reach them, and hands
// them out under leases. A Scheduler is all that a program needs to see of it;
// whoever writes a Store finds the rules here, and package storetest checks them.
//
// A timer is known by its topic and key, and there is at most one under a topic
// and key. It is in one of three states:
//
//   - pending: it waits for its due time, or is due;
//   - in flight: it was claimed, and its lease has an end, after which it can be
//     claimed again. A store that only one process can open may take it for ended
//     when it is opened, since the holder is gone then;
//   - dead: it was given up, and only Redrive, Put or Cancel touch it.
//
// Time is the store's: the clock of the server, where there is one, else that of
// the process. Callers name delays, never instants, so their clocks decide nothing.
// Instants may be rounded up to a millisecond; a delay that is not positive means
// now, one that reaches beyond the end of the store's time never comes.
//
// All methods may be called from several goroutines at once. An error wraps
// ErrInvalid if the call broke a rule (nothing has happened then), ErrClosed after
// Close, ErrFailed if the store will not work again, or the error of ctx. Any other
// error is that of a server or a network: the call may have taken effect or not,
// and can be made again.
type Store interface {
	// Apply carries out 1 to MaxBatch operations and returns one status for each,
	// in their order. Each is one atomic step: no reader and no crash finds it half
	// done. Operations on the same timer take effect in their order; the batch as a
	// whole is not atomic. When Apply returns without an error, everything is as
	// durable as the store makes it.
	//
	// Each operation costs O(log n) in the number of timers. The store does not
	// keep ops or what they point to.
	Apply(ctx context.Context, ops []Op) ([]Status, error)

	// Claim takes up to max (1 to MaxBatch) timers whose time has come and leases
	// them to the caller: pending ones whose due time has come, and ones in flight
	// whose lease has ended; those first whose due time or end of lease is earliest.
	// Each gets a new random token, which makes earlier ones stale, and its attempt
	// is counted, durably, before Claim returns. The lease is from MinLease to
	// MaxLease.
	//
	// Claim never waits for a timer to fall due: Batch.Next says when to call again.
	Claim(ctx context.Context, max int, lease time.Duration) (Batch, error)

	// Wake returns a channel that receives when Claim should be called earlier than
	// the last Batch.Next said, because of something that was put since, by
	// whatever process. It is a hint only: some may be missing (a store that can
	// lose them keeps Batch.Next near), several may be merged into one, and some
	// may come in vain. It is the same channel at each call, and never closed. It
	// serves one receiver: one Scheduler has a Store.
	Wake() <-chan struct{}

	// Dead returns up to max (1 to MaxBatch) dead timers after leaving out the first
	// skip, in an order that stays the same while nothing changes.
	Dead(ctx context.Context, skip, max int) ([]DeadTimer, error)

	// Count returns how many timers there are. It costs O(1).
	Count(ctx context.Context) (Counts, error)

	// Close ends the use of the store and gives back what it holds; the timers stay.
	// Calls under way end first or return ErrClosed, as do later ones. A second
	// Close does nothing and returns nil.
	Close() error
}

// Limits that hold for every store.
const (
	MaxTopic   = 255              // bytes of a topic
	MaxKey     = 1 << 10          // bytes of a key
	MaxPayload = 64 << 10         // bytes of a payload
	MaxError   = 1 << 10          // bytes of the text of an error; longer ones are cut
	MaxBatch   = 100              // operations in one Apply, timers in one Claim
	MinLease   = time.Millisecond // the shortest lease
	MaxLease   = 24 * time.Hour   // the longest
)

// A Kind is what an Op does.
type Kind uint8

// What an Op can do, the fields that it reads beside Topic and Key, and what it
// may answer.
const (
	// Put makes a timer pending, due after Delay, in place of whatever timer has
	// its topic and key: pending, in flight (whose token is stale then) or dead.
	// Answers Created, or Replaced if there was one.
	//
	// Fields: Payload, Delay, ID. If the timer there is pending and was put by an
	// operation with the same ID, which is not 0, this is a repetition of that
	// operation, made because its answer was lost: nothing changes, and the answer
	// is Created.
	Put Kind = iota + 1

	// PutNew is Put if there is no timer with that topic and key. If there is one,
	// nothing changes, and the answer is Exists, InFlight or Dead, as it is.
	PutNew

	// Cancel removes a timer. Answers Canceled if it was pending or dead: it does
	// not run. Answers InFlight if it was claimed: a handler may be running, or
	// have been cut off; it does not run again. Answers NotFound if there is none.
	Cancel

	// Ack removes a claimed timer that has been handled.
	//
	// Ack, Retry, Extend and Bury read Token, which must be that of the latest
	// claim; that the lease has ended does not matter as long as nobody claimed the
	// timer again. They answer Done, or Stale, in which case nothing has changed:
	// the timer was claimed again, put anew, cancelled or settled meanwhile.
	Ack

	// Retry makes a claimed timer pending again, due after Delay, and keeps Error
	// as its last error. If Uncounted is set, the attempt of this claim does not
	// count, and the last error stays as it was.
	Retry

	// Extend makes the lease of a claimed timer end after Delay, which is within
	// the limits of a lease.
	Extend

	// Bury makes a claimed timer dead, with Error as its last error.
	Bury

	// Redrive makes a dead timer pending, due after Delay, with no attempts
	// counted. Answers Done, or NotFound if there is no dead timer with that topic
	// and key.
	Redrive
)

// An Op is one operation of Store.Apply; which fields it reads depends on Kind.
type Op struct {
	Kind       Kind
	Topic, Key string

	Payload   []byte        // Put, PutNew
	Delay     time.Duration // Put, PutNew, Retry, Extend, Redrive
	ID        uint64        // Put, PutNew
	Token     string        // Ack, Retry, Extend, Bury
	Error     string        // Retry, Bury
	Uncounted bool          // Retry
}

// A Status is the answer to an operation.
type Status uint8

// The answers. The Kinds say which of them they give.
const (
	Created  Status = iota + 1 // the timer is new
	Replaced                   // the timer is in the place of an earlier one
	Exists                     // nothing changed: such a timer is pending
	InFlight                   // such a timer is claimed: a handler may be running
	Dead                       // nothing changed: such a timer is dead
	Canceled                   // the timer is removed and does not run
	NotFound                   // nothing changed: there is no such timer
	Done                       // it is done
	Stale                      // nothing changed: the token is that of an earlier claim
)

// A Batch is the answer to Store.Claim.
type Batch struct {
	Claimed []Claimed
	Now     time.Time // on the store's clock, when it claimed
	Next    time.Time // claim again by then at the latest; zero: not before Wake
}

// A Claimed is a timer that was leased to the caller.
type Claimed struct {
	Timer
	Token     string
	Due       time.Time // of this attempt, on the store's clock; after a lease that ended as before
	Attempt   int       // 1 for the first; those count whose lease ended, too
	LastError string    // of the attempt before, if it ended with one
}

// A DeadTimer is a timer that was given up.
type DeadTimer struct {
	Timer
	Died      time.Time // on the store's clock
	Attempts  int
	LastError string
}

// Counts says how many timers a store has.
type Counts struct {
	Live int // pending or in flight
	Dead int
}
