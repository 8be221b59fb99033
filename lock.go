package timingwheel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// A lock is a mutex for work that takes much less time than parking a goroutine
// and waking it: who finds it taken waits awake for a while, a little longer after
// each try (exponential backoff; T. E. Anderson, The Performance of Spin Lock
// Alternatives, 1990), and parks only then. Long pauses let the holder come back
// several times, with the wheel's memory in the cache of its processor.
//
// Measured against sync.Mutex alone on two processors, where the machine of one
// waits for the memory of the other some 100 ns: adding and cancelling on eight
// goroutines 139 ns against 772, on two 134 against 122; the longest of 10,000 adds
// while a million tasks fall due 0.2 ms against 6.7.
type lock struct {
	mutex  sync.Mutex
	wanted atomic.Int32 // how many goroutines wait
}

const (
	firstPause = 8_000  // steps of an empty loop: some 2 µs
	lastPause  = 64_000 // some 16 µs
	tries      = 12     // some 160 µs in all
)

func (l *lock) Lock() {
	if !l.mutex.TryLock() {
		l.wait()
	}
}

func (l *lock) Unlock() { l.mutex.Unlock() }

func (l *lock) wait() {
	l.wanted.Add(1)
	defer l.wanted.Add(-1)
	for n, try := firstPause, 0; try < tries; n, try = min(2*n, lastPause), try+1 {
		pause(n)
		if l.mutex.TryLock() {
			return
		}
	}
	l.mutex.Lock()
}

// yield lets go of the lock until others have had it that wait for it; but not for
// much longer than it takes them to notice.
func (l *lock) yield() {
	l.mutex.Unlock()
	pause(firstPause)
	for n := 0; n < 2*lastPause && l.wanted.Load() > 0; n += firstPause {
		pause(firstPause)
	}
	l.Lock()
}

// pause does nothing for so many steps, and then lets other goroutines have the
// processor.
func pause(steps int) {
	for range steps {
	}
	runtime.Gosched()
}
