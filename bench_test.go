package timingwheel_test

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fee15284/timingwheel"
)

// The benchmarks in this file run the same body for the wheel and for what a
// program would use without it. Each callback is a closure of its own, capturing an
// order number, and delays are those of orders: 10 to 60 minutes.

// A timers is a way to have many timeouts. H is its handle.
type timers[H any] interface {
	add(d time.Duration, fn func()) H
	cancel(H) bool
	reset(h H, d time.Duration) bool
	close()
}

type wheelTimers struct{ *timingwheel.Wheel }

func newWheelTimers() wheelTimers {
	w, err := timingwheel.New(timingwheel.Options{})
	if err != nil {
		panic(err)
	}
	return wheelTimers{w}
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

type afterFunc struct{}

func (afterFunc) add(d time.Duration, fn func()) *time.Timer { return time.AfterFunc(d, fn) }
func (afterFunc) cancel(t *time.Timer) bool                  { return t.Stop() }
func (afterFunc) reset(t *time.Timer, d time.Duration) bool  { return t.Reset(d) }
func (afterFunc) close()                                     {}

// A heapTimers is the textbook's answer: a mutex around container/heap.
type heapTimers struct {
	mu    sync.Mutex
	start time.Time
	items timerHeap
	alarm *time.Timer
}

type heapItem struct {
	due   time.Duration
	fn    func()
	index int
}

type timerHeap []*heapItem

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *timerHeap) Push(x any)        { x.(*heapItem).index = len(*h); *h = append(*h, x.(*heapItem)) }
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	item := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	item.index = -1
	return item
}

func newHeapTimers() *heapTimers { return &heapTimers{start: time.Now()} }

func (t *heapTimers) add(d time.Duration, fn func()) *heapItem {
	item := &heapItem{due: time.Since(t.start) + d, fn: fn}
	t.mu.Lock()
	defer t.mu.Unlock()
	heap.Push(&t.items, item)
	if item.index == 0 {
		t.arm(d)
	}
	return item
}

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
	for now := time.Since(t.start); len(t.items) > 0; {
		if d := t.items[0].due - now; d > 0 {
			t.arm(d)
			return
		}
		go heap.Pop(&t.items).(*heapItem).fn()
	}
}

func (t *heapTimers) cancel(item *heapItem) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if item.index < 0 {
		return false
	}
	heap.Remove(&t.items, item.index)
	return true
}

func (t *heapTimers) reset(item *heapItem, d time.Duration) bool {
	due := time.Since(t.start) + d
	t.mu.Lock()
	defer t.mu.Unlock()
	if item.index < 0 {
		return false
	}
	item.due = due
	heap.Fix(&t.items, item.index)
	return true
}

func (t *heapTimers) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.alarm != nil {
		t.alarm.Stop()
	}
}

var orders atomic.Int64 // what callbacks do: count the order

// callback returns the closure of one order.
func callback(order int) func() { return func() { orders.Add(int64(order)) } }

// delay returns 10 to 60 minutes.
func delay(n int) time.Duration {
	return 10*time.Minute + time.Duration(uint32(n)*2654435761%3_000_000)*time.Millisecond
}

func fill[H any, T timers[H]](t T, n int) []H {
	handles := make([]H, n)
	for i := range handles {
		handles[i] = t.add(delay(i), callback(i))
	}
	runtime.GC()
	return handles
}

func drain[H any, T timers[H]](t T, handles []H) {
	for _, h := range handles {
		t.cancel(h)
	}
	t.close()
}

// pendings are how many tasks are pending beside those that a benchmark measures;
// with -short, not so many that making them takes longer than the rest.
func pendings() []int {
	if testing.Short() {
		return []int{0, 10_000}
	}
	return []int{0, 10_000, 1_000_000}
}

// many is a large number of tasks, or with -short a smaller one.
func many() int {
	n := pendings()
	return n[len(n)-1]
}

// each runs a benchmark body for the wheel and its rivals with n tasks pending.
func each(b *testing.B, wheel func(*testing.B, wheelTimers, []timingwheel.Task),
	after func(*testing.B, afterFunc, []*time.Timer), heap func(*testing.B, *heapTimers, []*heapItem)) {
	for _, n := range pendings() {
		b.Run(fmt.Sprintf("wheel/pending=%d", n), func(b *testing.B) { run(b, newWheelTimers(), n, wheel) })
		b.Run(fmt.Sprintf("afterfunc/pending=%d", n), func(b *testing.B) { run(b, afterFunc{}, n, after) })
		b.Run(fmt.Sprintf("heap/pending=%d", n), func(b *testing.B) { run(b, newHeapTimers(), n, heap) })
	}
}

func run[H any, T timers[H]](b *testing.B, t T, n int, body func(*testing.B, T, []H)) {
	handles := fill[H](t, n)
	defer drain(t, handles)
	b.ReportAllocs()
	b.ResetTimer()
	body(b, t, handles)
	b.StopTimer()
}

func addCancel[H any, T timers[H]](b *testing.B, t T, _ []H) {
	for i := range b.N {
		t.cancel(t.add(delay(i), callback(i)))
	}
}

func BenchmarkAddCancel(b *testing.B) {
	each(b, addCancel[timingwheel.Task, wheelTimers], addCancel[*time.Timer, afterFunc], addCancel[*heapItem, *heapTimers])
}

// The least that adding and cancelling can cost with this interface: the closure,
// one reading of the clock, and two lock pairs that nobody contends for.
func BenchmarkAddCancelFloor(b *testing.B) {
	b.ReportAllocs()
	var mu sync.Mutex
	start := time.Now()
	var now time.Duration
	for i := range b.N {
		fn := callback(i)
		now += time.Since(start) + delay(i)
		mu.Lock()
		held = fn
		mu.Unlock()
		mu.Lock()
		held = nil
		mu.Unlock()
	}
	sink.Store(int64(now))
}

var (
	held func()
	sink atomic.Int64
)

func addCancelParallel[H any, T timers[H]](b *testing.B, t T, _ []H) {
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			t.cancel(t.add(delay(i), callback(i)))
		}
	})
}

func BenchmarkAddCancelParallel(b *testing.B) {
	each(b, addCancelParallel[timingwheel.Task, wheelTimers], addCancelParallel[*time.Timer, afterFunc], addCancelParallel[*heapItem, *heapTimers])
}

// A caller that has the time at hand saves reading the clock.
func BenchmarkAddAtCancel(b *testing.B) {
	w := newWheelTimers()
	defer w.close()
	b.ReportAllocs()
	now := time.Now()
	for i := range b.N {
		task, err := w.AddAt(now.Add(delay(i)), callback(i))
		if err != nil {
			b.Fatal(err)
		}
		w.Cancel(task)
	}
}

func addOnly[H any, T timers[H]](b *testing.B, t T, _ []H) {
	handles := make([]H, b.N)
	b.ResetTimer()
	for i := range handles {
		handles[i] = t.add(delay(i), callback(i))
	}
	b.StopTimer()
	for _, h := range handles {
		t.cancel(h)
	}
}

func BenchmarkAdd(b *testing.B) {
	each(b, addOnly[timingwheel.Task, wheelTimers], addOnly[*time.Timer, afterFunc], addOnly[*heapItem, *heapTimers])
}

func resetOne[H any, T timers[H]](b *testing.B, t T, _ []H) {
	h := t.add(time.Minute, callback(0))
	b.ResetTimer()
	for i := range b.N {
		t.reset(h, delay(0)+time.Duration(i)*time.Nanosecond)
	}
	b.StopTimer()
	t.cancel(h)
}

func BenchmarkReset(b *testing.B) {
	each(b, resetOne[timingwheel.Task, wheelTimers], resetOne[*time.Timer, afterFunc], resetOne[*heapItem, *heapTimers])
}

func cancelRandom[H any, T timers[H]](b *testing.B, t T, handles []H) {
	if len(handles) == 0 {
		b.Skip("nothing is pending")
	}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range b.N {
		h := &handles[r.IntN(len(handles))]
		t.cancel(*h)
		*h = t.add(delay(i), callback(i))
	}
}

func BenchmarkCancelRandomAdd(b *testing.B) {
	each(b, cancelRandom[timingwheel.Task, wheelTimers], cancelRandom[*time.Timer, afterFunc], cancelRandom[*heapItem, *heapTimers])
}

// fireAtOnce lets n distinct callbacks fall due at one instant and measures from
// the first start to the last end.
func fireAtOnce[H any, T timers[H]](b *testing.B, t T, n int) {
	b.ReportAllocs()
	for range b.N {
		b.StopTimer()
		var first, last atomic.Int64
		var left atomic.Int64
		left.Store(int64(n))
		start := time.Now()
		due := start.Add(time.Duration(n)*2*time.Microsecond + 100*time.Millisecond)
		done := make(chan struct{})
		seen := make([]int32, n)
		for i := range n {
			t.add(time.Until(due), func() {
				seen[i]++
				switch left.Add(-1) {
				case int64(n) - 1:
					first.Store(int64(time.Since(start)))
				case 0:
					last.Store(int64(time.Since(start)))
					close(done)
				}
			})
		}
		runtime.GC()
		b.StartTimer()
		<-done
		b.ReportMetric(float64(last.Load()-first.Load())/float64(n), "ns/task")
	}
	t.close()
}

func BenchmarkFireAtOnce(b *testing.B) {
	for _, n := range pendings()[1:] {
		name := strconv.Itoa(n)
		b.Run("wheel/due="+name, func(b *testing.B) { fireAtOnce[timingwheel.Task](b, newWheelTimers(), n) })
		b.Run("afterfunc/due="+name, func(b *testing.B) { fireAtOnce[*time.Timer](b, afterFunc{}, n) })
		b.Run("heap/due="+name, func(b *testing.B) { fireAtOnce[*heapItem](b, newHeapTimers(), n) })
	}
}

// A wheel on a fake clock, n tasks spread over an hour, and one jump over it: each
// task cascades from the minute wheel and fires.
func BenchmarkCascadeAndFire(b *testing.B) {
	for _, n := range pendings()[1:] {
		b.Run("due="+strconv.Itoa(n), func(b *testing.B) {
			for range b.N {
				b.StopTimer()
				w, c := newStepWheel(b, timingwheel.Options{})
				for i := range n {
					add(b, w, time.Duration(uint32(i)*2654435761%3_600_000)*time.Millisecond, callback(i))
				}
				runtime.GC()
				b.StartTimer()
				c.Add(time.Hour)
				w.Sync()
				b.StopTimer()
				w.Stop()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/task")
		})
	}
}

// What pending tasks cost the program that holds them: bytes each beside the
// closure, and one garbage collection.
func BenchmarkHold(b *testing.B) {
	n := many()
	b.Run("wheel", func(b *testing.B) { hold[timingwheel.Task](b, newWheelTimers(), n) })
	b.Run("afterfunc", func(b *testing.B) { hold[*time.Timer](b, afterFunc{}, n) })
	b.Run("heap", func(b *testing.B) { hold[*heapItem](b, newHeapTimers(), n) })
}

func hold[H any, T timers[H]](b *testing.B, t T, n int) {
	callbacks := make([]func(), n)
	for i := range callbacks {
		callbacks[i] = callback(i)
	}
	handles := make([]H, n)
	before := reachable()
	for i := range handles {
		handles[i] = t.add(delay(i), callbacks[i])
	}
	bytes := reachable() - before
	runtime.KeepAlive(callbacks)
	callbacks = nil
	b.ResetTimer()
	for range b.N {
		runtime.GC()
	}
	b.StopTimer()
	b.ReportMetric(float64(bytes)/float64(n), "B/task")
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/gc")
	drain(t, handles)
	runtime.KeepAlive(callbacks)
}

// Keyed against what one would write around time.AfterFunc: a map under a mutex.
func BenchmarkKeyedAddCancel(b *testing.B) {
	n := many()
	keys := make([]string, n+100_000)
	for i := range keys {
		keys[i] = "order-" + strconv.Itoa(i)
	}
	b.Run("wheel/pending="+strconv.Itoa(n), func(b *testing.B) {
		w := newWheelTimers()
		defer w.close()
		before := reachable()
		k := timingwheel.NewKeyed(w.Wheel, func(string) { orders.Add(1) })
		for i := range n {
			if err := k.Add(keys[i], delay(i)); err != nil {
				b.Fatal(err)
			}
		}
		bytes := reachable() - before
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			key := keys[n+i%100_000]
			if err := k.Add(key, delay(i)); err != nil {
				b.Fatal(err)
			}
			k.Cancel(key)
		}
		b.ReportMetric(float64(bytes)/float64(n), "B/task")
	})
	b.Run("afterfunc/pending="+strconv.Itoa(n), func(b *testing.B) {
		before := reachable()
		var mu sync.Mutex
		m := map[string]*time.Timer{}
		put := func(key string, d time.Duration) {
			t := time.AfterFunc(d, func() {
				mu.Lock()
				delete(m, key)
				mu.Unlock()
				orders.Add(1)
			})
			mu.Lock()
			m[key] = t
			mu.Unlock()
		}
		for i := range n {
			put(keys[i], delay(i))
		}
		bytes := reachable() - before
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			key := keys[n+i%100_000]
			put(key, delay(i))
			mu.Lock()
			if m[key].Stop() {
				delete(m, key)
			}
			mu.Unlock()
		}
		b.StopTimer()
		b.ReportMetric(float64(bytes)/float64(n), "B/task")
		for _, t := range m {
			t.Stop()
		}
	})
}
