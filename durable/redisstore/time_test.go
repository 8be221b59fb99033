package redisstore

import (
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Due times are rounded up to milliseconds, the clock is rounded down: to the
// microsecond, no timer can be claimed before its delay is over, nor a lease that runs.
func TestNothingIsEarlyByAMicrosecond(t *testing.T) {
	mini := miniredis.RunT(t)
	start := time.UnixMilli(1_700_000_000_000)
	at := func(us int) { mini.SetTime(start.Add(time.Duration(us) * time.Microsecond)) }
	at(300)
	s := open(t, clientOf(t, mini.Addr()), freshPrefix(), 1)
	apply(t, s, putOp(1, 1500*time.Microsecond))
	for _, us := range []int{300, 1000, 1799, 1999} {
		at(us)
		if b := claim(t, s, lease); len(b.Claimed) > 0 {
			t.Fatalf("claimed at %d us, it is due at 1800", us)
		}
	}
	at(2000)
	const short = 2500 * time.Microsecond
	b := claim(t, s, short)
	if len(b.Claimed) != 1 || !b.Claimed[0].Due.Equal(start.Add(2*time.Millisecond)) {
		t.Fatalf("at 2000 us: %+v", b)
	}
	at(2000 + 2499)
	if b := claim(t, s, short); len(b.Claimed) > 0 {
		t.Fatal("claimed while the lease was running")
	}
	at(5000)
	if b := claim(t, s, short); len(b.Claimed) != 1 || b.Claimed[0].Attempt != 2 {
		t.Fatalf("after the lease: %+v", b)
	}
}
