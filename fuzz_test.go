package timingwheel

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

// A tape makes choices from the bytes of a fuzzer; past its end it
// chooses the last, which adds nothing to a program.
type tape struct{ rest []byte }

func (t *tape) intn(n int) int {
	if len(t.rest) == 0 {
		return n - 1
	}
	choice := 0
	for size := 1; size < n && len(t.rest) > 0; size *= 256 {
		choice = choice<<8 | int(t.rest[0])
		t.rest = t.rest[1:]
	}
	return choice % n
}

func addTapes(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a program of a few operations"))
	for shape := range byte(len(rings)) {
		tape := []byte{shape, 3}
		for k := range byte(120) {
			tape = append(tape, k*k, k*7+shape, 200-k)
		}
		f.Add(tape)
	}
}

// FuzzHierarchy runs the program that the bytes spell on the wheels as a data
// structure and on a list.
func FuzzHierarchy(f *testing.F) {
	addTapes(f)
	f.Fuzz(func(t *testing.T, program []byte) {
		s := &tape{program[:min(len(program), 2000)]}
		sizes := rings[s.intn(len(rings))]
		start := []int64{0, 1, 1<<31 - 100, 1<<32 - 100, 1<<36 - 100, 1<<53 - 100}[s.intn(6)]
		r := newRig(sizes, start)
		err := r.check()
		for err == nil && len(s.rest) > 0 {
			err = r.operate(s)
		}
		if err == nil {
			err = r.finish(1 + len(program)%4)
		}
		require.NoError(t, r.fail(err))
	})
}

// FuzzWheel runs the program that the bytes spell on a Wheel and on a list.
func FuzzWheel(f *testing.F) {
	addTapes(f)
	f.Fuzz(func(t *testing.T, program []byte) {
		s := &tape{program[:min(len(program), 2000)]}
		var err error
		synctest.Test(t, func(*testing.T) {
			x := newWorld(s)
			for err = x.err; err == nil && len(s.rest) > 0; {
				err = x.run(1)
			}
			x.w.Stop()
		})
		require.NoError(t, err)
	})
}
