package timingwheel

import (
	"fmt"
	"iter"
	"reflect"
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
// keys, and 8 bytes. The last two are held in blocks for 127 tasks of the wheel: a
// Keyed with few keys between very many other tasks may hold a block for each.
type Keyed[K comparable] struct {
	w      *Wheel
	expire func(K)
	hook   hook
	loose  bool        // some values of K cannot be keys: it has an interface in it
	keys   keyTable[K] // guarded by the wheel's lock
}

// NewKeyed returns a Keyed on a wheel; expire is called with each key whose time
// has come, in the way of any callback. If either is nil, adding returns an error.
func NewKeyed[K comparable](w *Wheel, expire func(K)) *Keyed[K] {
	k := &Keyed[K]{w: w, expire: expire, loose: holdsInterface(reflect.TypeFor[K]())}
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
// after which a pending task of the key stays as it was, ErrFull, ErrNilFunc if
// NewKeyed was given no function, or ErrOptions for a key that no map would find
// again, such as NaN or a slice in an interface. Callbacks may call it.
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
	if !k.comparable(key) {
		return false, w.reject(refuse(ErrOptions, "%s: key %v of type %T cannot be compared", method, key, key))
	}
	if !equal(key, key) {
		// A map would take it, and never find it again.
		return false, w.reject(refuse(ErrOptions, "%s: key %v does not equal itself", method, key))
	}
	now := w.elapsed()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.id == 0 {
		return false, refuse(ErrStopped, "%s: NewKeyed was given no wheel", method)
	}
	i, pending := k.keys.find(key)
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
	i = w.tasks.add(nil, &k.hook, w.group(now, d))
	k.keys.set(i, key)
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
	i, pending := k.find(key)
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
	i, pending := k.find(key)
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
	i, pending := k.find(key)
	if !pending {
		return time.Time{}, false
	}
	return w.instant(w.tasks.at(i).due), true
}

// Len returns the number of pending keys. Callbacks may call it.
func (k *Keyed[K]) Len() int {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	return k.keys.len()
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
		var keys [chunkRows]K
		var due [chunkRows]int64
		for c := 0; ; c++ {
			n, more := k.list(c, &keys, &due)
			for row := range n {
				if !yield(keys[row], k.w.instant(due[row])) {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// list copies the keys in chunk c and reports whether there are later chunks; it is
// called without the lock.
func (k *Keyed[K]) list(c int, keys *[chunkRows]K, due *[chunkRows]int64) (n int, more bool) {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	if c >= len(k.keys.chunks) {
		return 0, false
	}
	if chunk := k.keys.chunks[c]; chunk != nil {
		chunk.rows(c, func(i uint32, key K) {
			keys[n], due[n] = key, k.w.tasks.at(i).due
			n++
		})
	}
	return n, true
}

// find returns the task of a key that is pending; it is called with the lock held.
func (k *Keyed[K]) find(key K) (i uint32, pending bool) {
	if !k.comparable(key) {
		return 0, false
	}
	return k.keys.find(key)
}

// comparable reports whether a map takes the key: a slice in an interface, say,
// makes it panic.
func (k *Keyed[K]) comparable(key K) bool {
	if !k.loose {
		return true
	}
	onHeap := key // and not the parameter: this is no way to take for each key
	return reflect.ValueOf(&onHeap).Elem().Comparable()
}

func equal[K comparable](a, b K) bool { return a == b }

// holdsInterface reports whether values of a type have an interface in them.
func holdsInterface(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Array:
		return holdsInterface(t.Elem())
	case reflect.Struct:
		for n := range t.NumField() {
			if holdsInterface(t.Field(n).Type) {
				return true
			}
		}
	}
	return false
}

// start is called by the wheel, with its lock held, when the time of task i has
// come.
func (k *Keyed[K]) start(i uint32) expiry { return &expiring[K]{k, k.keys.unset(i)} }

// An expiring is a key whose time has come.
type expiring[K comparable] struct {
	k   *Keyed[K]
	key K
}

func (e *expiring[K]) call()        { e.k.expire(e.key) }
func (e *expiring[K]) name() string { return fmt.Sprint(e.key) }

// drop is called by the wheel, with its lock held, when task i was cancelled.
func (k *Keyed[K]) drop(i uint32) { k.keys.unset(i) }
