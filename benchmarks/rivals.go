package main

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fee15284/timingwheel"
	"github.com/zeromicro/go-zero/core/collection"
)

// A timers is a way to have many timeouts, behind which the wheel and its rivals
// run the same bodies. H is its handle of one timeout.
type timers[H any] interface {
	add(d time.Duration, fn func()) H
	cancel(H) bool
	reset(h H, d time.Duration) bool
	close()
}

// A wheelTimers is the library's wheel.
type wheelTimers struct{ *timingwheel.Wheel }

func openWheel(tick time.Duration) wheelTimers {
	w, err := timingwheel.New(timingwheel.Options{Tick: tick})
	if err != nil {
		panic(err)
	}
	return wheelTimers{w}
}

func openWheels(n int, tick time.Duration) []wheelTimers {
	all := make([]wheelTimers, n)
	for i := range all {
		all[i] = openWheel(tick)
	}
	return all
}

func (w wheelTimers) add(d time.Duration, fn func()) timingwheel.Task {
	task, err := w.Add(d, fn)
	if err != nil {
		panic(err)
	}
	return task
}

func (w wheelTimers) cancel(t timingwheel.Task) bool                 { return w.Cancel(t) }
func (w wheelTimers) reset(t timingwheel.Task, d time.Duration) bool { return w.Reset(t, d) }
func (w wheelTimers) close()                                         { w.Stop() }

// moved returns how many tasks have cascaded.
func (w wheelTimers) moved() int { return int(w.Stats().Moved) }

// An afterFunc is one timer of the runtime per timeout.
type afterFunc struct{}

func openAfterFunc(time.Duration) afterFunc { return afterFunc{} }

func (afterFunc) add(d time.Duration, fn func()) *time.Timer { return time.AfterFunc(d, fn) }
func (afterFunc) cancel(t *time.Timer) bool                  { return t.Stop() }
func (afterFunc) reset(t *time.Timer, d time.Duration) bool  { return t.Reset(d) }
func (afterFunc) close()                                     {}

// A goZero is the TimingWheel of go-zero: one ring, a list per slot and a map of
// keys, all owned by one goroutine that is reached through channels. Its handle is
// the key, an order number, which is boxed once. It has 300 slots, as go-zero's own
// cache gives it.
type goZero struct {
	w    *collection.TimingWheel
	keys *atomic.Int64
}

const goZeroSlots = 300

func openGoZero(tick time.Duration) goZero {
	w, err := collection.NewTimingWheel(tick, goZeroSlots, runValue)
	if err != nil {
		panic(err)
	}
	return goZero{w, new(atomic.Int64)}
}

// runValue executes a task of go-zero: its value is the callback.
func runValue(_, value any) { value.(func())() }

func (g goZero) add(d time.Duration, fn func()) any {
	key := any(g.keys.Add(1))
	if err := g.w.SetTimer(key, fn, d); err != nil {
		panic(err)
	}
	return key
}

// cancel does not tell whether it came in time: go-zero's does not.
func (g goZero) cancel(key any) bool                 { return g.w.RemoveTimer(key) == nil }
func (g goZero) reset(key any, d time.Duration) bool { return g.w.MoveTimer(key, d) == nil }
func (g goZero) close()                              { g.w.Stop() }

// A heapTimers is the textbook's answer: a mutex around container/heap, and one
// timer for the earliest.
type heapTimers struct {
	mu    sync.Mutex // guards all below but start
	start time.Time
	items timeouts
	alarm *time.Timer
}

type timeout struct {
	due   time.Duration
	fn    func()
	index int // in the heap, or -1
}

type timeouts []*timeout

func (h timeouts) Len() int           { return len(h) }
func (h timeouts) Less(i, j int) bool { return h[i].due < h[j].due }
func (h timeouts) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }

func (h *timeouts) Push(x any) {
	item := x.(*timeout)
	item.index = len(*h)
	*h = append(*h, item)
}

func (h *timeouts) Pop() any {
	last := len(*h) - 1
	item := (*h)[last]
	(*h)[last], *h = nil, (*h)[:last]
	item.index = -1
	return item
}

func openHeap(time.Duration) *heapTimers { return &heapTimers{start: time.Now()} }

func (t *heapTimers) add(d time.Duration, fn func()) *timeout {
	item := &timeout{due: time.Since(t.start) + d, fn: fn}
	t.mu.Lock()
	defer t.mu.Unlock()
	heap.Push(&t.items, item)
	if item.index == 0 {
		t.arm(d)
	}
	return item
}

// arm sets the timer; the lock is held.
func (t *heapTimers) arm(d time.Duration) {
	if t.alarm == nil {
		t.alarm = time.AfterFunc(d, t.fire)
	} else {
		t.alarm.Reset(d)
	}
}

func (t *heapTimers) fire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.items) > 0 {
		if d := t.items[0].due - time.Since(t.start); d > 0 {
			t.arm(d)
			return
		}
		go heap.Pop(&t.items).(*timeout).fn()
	}
}

func (t *heapTimers) cancel(item *timeout) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if item.index < 0 {
		return false
	}
	heap.Remove(&t.items, item.index)
	return true
}

func (t *heapTimers) reset(item *timeout, d time.Duration) bool {
	due := time.Since(t.start) + d
	t.mu.Lock()
	defer t.mu.Unlock()
	if item.index < 0 {
		return false
	}
	item.due = due
	heap.Fix(&t.items, item.index)
	if item.index == 0 {
		t.arm(d)
	}
	return true
}

func (t *heapTimers) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.alarm != nil {
		t.alarm.Stop()
	}
}

// A contender is one kind of timers with every experiment that it takes part in.
type contender struct {
	name       string
	costs      func(b *bench, pending int)
	fireAtOnce func(b *bench, n int)
	mix        func(b *bench, handed bool)
	addLatency func(b *bench)
	lateness   func(b *bench)
	contend    func(b *bench, goroutines int)
}

func newContender[H any, T timers[H]](name string, open func(time.Duration) T) contender {
	return contender{
		name:       name,
		costs:      func(b *bench, n int) { costs[H](b, name, open(time.Second), n) },
		fireAtOnce: func(b *bench, n int) { fireAtOnce[H](b, name, open(time.Second), n) },
		mix:        func(b *bench, handed bool) { mix[H](b, mixName(name, handed), handed, open(mixTick)) },
		addLatency: func(b *bench) { addLatency[H](b, name, open(time.Millisecond)) },
		lateness:   func(b *bench) { lateness[H](b, name, open(10*time.Millisecond)) },
		contend:    func(b *bench, g int) { contend[H](b, name, g, byOrder, open(time.Second)) },
	}
}

// contenders are the wheel and its rivals, in the order in which tables list them.
func contenders() []contender {
	zero := newContender[any]("gozero", openGoZero)
	zero.fireAtOnce = goZeroAtOnce
	return []contender{
		newContender[timingwheel.Task]("wheel", openWheel),
		newContender[*time.Timer]("afterfunc", openAfterFunc),
		newContender[*timeout]("heap", openHeap),
		zero,
	}
}
