package main

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/fee15284/timingwheel"
)

// A keyedTimers holds one timeout per key.
type keyedTimers interface {
	put(key string, d time.Duration)
	cancel(key string)
}

// A wheelKeyed is the library's Keyed.
type wheelKeyed struct {
	*timingwheel.Keyed[string]
}

func openKeyed() wheelKeyed {
	w := openWheel(time.Second)
	return wheelKeyed{timingwheel.NewKeyed(w.Wheel, func(string) { orders.Add(1) })}
}

func (k wheelKeyed) put(key string, d time.Duration) {
	if err := k.Add(key, d); err != nil {
		panic(err)
	}
}

func (k wheelKeyed) cancel(key string) { k.Cancel(key) }

// A timerMap is what one would write around time.AfterFunc: a map under a mutex.
type timerMap struct {
	mu     sync.Mutex
	timers map[string]*time.Timer // guarded by mu
}

func (m *timerMap) put(key string, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.timers[key]; t != nil {
		t.Stop()
	}
	m.timers[key] = time.AfterFunc(d, func() { m.expire(key) })
}

func (m *timerMap) expire(key string) {
	m.mu.Lock()
	delete(m.timers, key)
	m.mu.Unlock()
	orders.Add(1)
}

func (m *timerMap) cancel(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.timers[key]; t != nil && t.Stop() {
		delete(m.timers, key)
	}
}

// keyed measures timeouts by key, with n pending; keys has some more than that.
func keyed(b *bench, impl string, t keyedTimers, keys []string, n int) {
	name := fmt.Sprintf("Keyed/impl=%s/pending=%d", impl, n)
	before := heapInUse()
	for i, key := range keys[:n] {
		t.put(key, delay(i))
	}
	b.record(name, n, metric{"B/task", (heapInUse() - before) / float64(n)})
	others := keys[n:]
	b.timed(name, func(from, n int) {
		for i := from; i < from+n; i++ {
			key := others[i%len(others)]
			t.put(key, delay(i))
			t.cancel(key)
		}
	})
	for _, key := range keys[:n] {
		t.cancel(key)
	}
}

func runKeyed(b *bench) {
	n := b.scaled(1_000_000)
	keys := make([]string, n+b.scaled(100_000))
	for i := range keys {
		keys[i] = "order-" + strconv.Itoa(i)
	}
	b.interleave("timeouts by key", b.rounds,
		func() { keyed(b, "wheel", openKeyed(), keys, n) },
		func() { keyed(b, "afterfunc", &timerMap{timers: map[string]*time.Timer{}}, keys, n) })
}
