package timingwheel

import (
	"fmt"
	"iter"
	"time"
)

// A Keyed holds at most one pending task per key, on a wheel that it shares with
// others: a timeout per order number, a lease per holder, a session per host. When
// the time of a key has come, one function, the same for all keys, is called with
// the key; the key is no longer pending then, and may be added again.
//
// Its tasks are ordinary tasks of the wheel: Wheel.Pending lists them, and when
// Wheel.Cancel or Wheel.Reset changes one, Keyed follows, in the same step. Make
// one with NewKeyed; all methods may be called from several goroutines at once,
// and from callbacks.
//
// Beside what a task costs, a key costs its place in a map, one in an array of
// keys, and 8 bytes.
type Keyed[K comparable] struct {
	w      *Wheel
	expire func(K)
	hook   hook

	// All below is guarded by the wheel's lock.
	tasks map[K]uint32
	most  int // of len(tasks) since tasks was made
	keys  []*keyChunk[K]
	spare *keyChunk[K] // one that is empty
}

// A keyChunk holds the keys of the tasks in one chunk of the wheel's table.
type keyChunk[K comparable] struct {
	keys [chunkRows]K
	used int
}

// smallMap is the number of keys up to which an empty map is kept for reuse.
const smallMap = 128

// NewKeyed returns a Keyed on a wheel; expire is called with each key whose time
// has come, in the way of any callback. If either is nil, adding returns an error.
func NewKeyed[K comparable](w *Wheel, expire func(K)) *Keyed[K] {
	k := &Keyed[K]{w: w, expire: expire}
	if w == nil {
		k.w = &Wheel{stopped: true, timeline: timeline{tick: time.Second}}
	}
	k.hook.keys = k
	return k
}

// Add makes a key due after d, as Wheel.Add does with a callback. If the key is
// pending already, its task is replaced, in one step, also on a full wheel: it
// counts in Stats.Canceled, and the new one as added now.
//
// It costs O(1) and allocates nothing in steady state. The error wraps ErrStopped,
// after which a pending task of the key stays as it was, ErrFull, or ErrNilFunc if
// NewKeyed was given no function. Callbacks may call it.
func (k *Keyed[K]) Add(key K, d time.Duration) error {
	_, err := k.add("Keyed.Add", key, d, true)
	return err
}

// AddNew is Add for a key that is not pending. If it is pending, AddNew returns
// false and changes nothing. Callbacks may call it.
func (k *Keyed[K]) AddNew(key K, d time.Duration) (bool, error) {
	return k.add("Keyed.AddNew", key, d, false)
}

func (k *Keyed[K]) add(method string, key K, d time.Duration, replace bool) (bool, error) {
	w := k.w
	if k.expire == nil {
		return false, w.reject(refuse(ErrNilFunc, "%s: NewKeyed was given no function", method))
	}
	if key != key {
		// A map would take it, and never find it again.
		return false, w.reject(refuse(ErrOptions, "%s: key %v does not equal itself", method, key))
	}
	now := w.elapsed()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id == 0 {
		return false, refuse(ErrStopped, "%s: NewKeyed was given no wheel", method)
	}
	i, pending := k.tasks[key]
	switch {
	case pending && !w.stopped && !replace:
		return false, nil
	case pending && !w.stopped:
		w.replace(i, now, d)
		return true, nil
	}
	if err := w.refusal(method); err != nil {
		return false, err
	}
	i = w.tasks.add(nil, &k.hook)
	k.set(i, key)
	w.count.Added++
	w.schedule(i, now, d)
	return true, nil
}

// replace cancels task i and adds one like it in its place.
func (w *Wheel) replace(i uint32, now, d time.Duration) {
	w.leave(i, w.tasks.at(i))
	w.tasks.renew(i)
	w.count.Canceled++
	w.count.Added++
	w.schedule(i, now, d)
	w.release()
}

// Cancel takes a pending key back and reports whether this call made sure that
// the function is not called for it. It costs O(1). Callbacks may call it.
func (k *Keyed[K]) Cancel(key K) bool {
	w := k.w
	w.mu.Lock()
	defer w.mu.Unlock()
	i, pending := k.tasks[key]
	if pending {
		w.discard(i, w.tasks.at(i))
	}
	return pending
}

// Reset makes a pending key due at d from now, and reports whether it did: it
// returns false, and does nothing, if the key is not pending or the wheel is
// stopped. It costs O(1). Callbacks may call it.
func (k *Keyed[K]) Reset(key K, d time.Duration) bool {
	w := k.w
	now := w.elapsed()
	w.mu.Lock()
	defer w.mu.Unlock()
	i, pending := k.tasks[key]
	if !pending || w.stopped {
		return false
	}
	w.reset(i, w.tasks.at(i), now, d)
	return true
}

// Deadline returns the instant at which a key is due, and whether it is pending.
// Callbacks may call it.
func (k *Keyed[K]) Deadline(key K) (time.Time, bool) {
	w := k.w
	w.mu.Lock()
	defer w.mu.Unlock()
	i, pending := k.tasks[key]
	if !pending {
		return time.Time{}, false
	}
	return w.instant(w.tasks.at(i).due), true
}

// Len returns the number of pending keys. Callbacks may call it.
func (k *Keyed[K]) Len() int {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return len(k.tasks)
}

// Wheel returns the wheel that the keys are on; nil if NewKeyed was given none.
// Callbacks may call it.
func (k *Keyed[K]) Wheel() *Wheel {
	if k.w.id == 0 {
		return nil
	}
	return k.w
}

// Pending iterates over the pending keys with their deadlines, in no particular
// order. It holds no lock while the loop body runs, so the body may call any
// method; keys that are added, due or cancelled meanwhile may or may not be seen.
// Callbacks may call it.
func (k *Keyed[K]) Pending() iter.Seq2[K, time.Time] {
	return func(yield func(K, time.Time) bool) {
		w := k.w
		w.mu.Lock()
		// The step of a range over a map is made with the lock held, so that what
		// others do to the map is to it as if the loop body had done it.
		for key, i := range k.tasks {
			due := w.instant(w.tasks.at(i).due)
			w.mu.Unlock()
			if !yield(key, due) {
				return
			}
			w.mu.Lock()
		}
		w.mu.Unlock()
	}
}

// start is called by the wheel, with its lock held, when the time of task i has
// come.
func (k *Keyed[K]) start(i uint32) expiry { return &expiring[K]{k, k.unset(i)} }

// An expiring is a key whose time has come.
type expiring[K comparable] struct {
	k   *Keyed[K]
	key K
}

func (e *expiring[K]) call()        { e.k.expire(e.key) }
func (e *expiring[K]) name() string { return fmt.Sprint(e.key) }

// drop is called by the wheel, with its lock held, when task i was cancelled.
func (k *Keyed[K]) drop(i uint32) { k.unset(i) }

// set notes that task i stands for a key.
func (k *Keyed[K]) set(i uint32, key K) {
	if k.tasks == nil {
		k.tasks = make(map[K]uint32)
	}
	k.tasks[key] = i
	k.most = max(k.most, len(k.tasks))
	n := int(i >> 8)
	for n >= len(k.keys) {
		k.keys = append(k.keys, nil)
	}
	c := k.keys[n]
	if c == nil {
		if c, k.spare = k.spare, nil; c == nil {
			c = new(keyChunk[K])
		}
		k.keys[n] = c
	}
	c.keys[uint8(i)-1] = key
	c.used++
}

// unset forgets the key of task i and returns it. Go's maps do not shrink, so one
// that was large is dropped once it is empty, and so are the arrays of keys.
func (k *Keyed[K]) unset(i uint32) K {
	n, row := i>>8, uint8(i)-1
	c := k.keys[n]
	key := c.keys[row]
	var none K
	c.keys[row] = none
	if c.used--; c.used == 0 {
		k.keys[n], k.spare = nil, c
	}
	delete(k.tasks, key)
	if len(k.tasks) == 0 && k.most > smallMap {
		k.tasks, k.most, k.keys = nil, 0, nil
	}
	return key
}
