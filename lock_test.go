package timingwheel

import (
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALockLetsInOneAtATime(t *testing.T) {
	const goroutines, rounds = 8, 2_000
	var l lock
	var wait sync.WaitGroup
	inside, sum := 0, 0
	for g := range goroutines {
		wait.Go(func() {
			for n := range rounds {
				l.Lock()
				if inside++; inside != 1 {
					t.Errorf("%d are inside", inside)
				}
				if n%64 == g {
					runtime.Gosched() // others come and wait
				}
				sum++
				inside--
				l.Unlock()
			}
		})
	}
	wait.Wait()
	require.Equal(t, goroutines*rounds, sum)
	require.Zero(t, l.wanted.Load())
}

// A waiter that finds the lock taken at each try parks, and is woken.
func TestALockThatIsHeldForLongIsHandedOver(t *testing.T) {
	var l lock
	var got bool
	l.Lock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.Lock()
		got = true
		l.Unlock()
	}()
	for l.wanted.Load() == 0 {
		runtime.Gosched()
	}
	for range 4 * tries {
		spin(lastPause)
	}
	require.False(t, got)
	l.Unlock()
	<-done
	require.True(t, got)
}

func TestWhoYieldsTheLockLetsAnotherHaveIt(t *testing.T) {
	var l lock
	var got bool
	l.Lock()
	go func() {
		l.Lock()
		got = true
		l.Unlock()
	}()
	for !got {
		l.yield()
	}
	l.Unlock()
}

// Where more than a few want the lock, the others park, and each gets it.
func TestALockIsHandedToEachOfACrowd(t *testing.T) {
	const crowd = 4 * awake
	var l lock
	var wait sync.WaitGroup
	inside, sum := 0, 0
	l.Lock()
	for range crowd {
		wait.Go(func() {
			l.Lock()
			if inside++; inside != 1 {
				t.Errorf("%d are inside", inside)
			}
			sum++
			inside--
			l.Unlock()
		})
	}
	for l.wanted.Load() < crowd {
		runtime.Gosched()
	}
	l.Unlock()
	wait.Wait()
	require.Equal(t, crowd, sum)
	require.Zero(t, l.wanted.Load())
}
