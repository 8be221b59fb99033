package timingwheel

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// check looks at everything a keyTable says twice.
func (t *keyTable[K]) check() error {
	n := 0
	var err error
	for c, chunk := range t.chunks {
		if chunk == nil {
			continue
		}
		chunk.rows(c, func(i uint32, key K) {
			n++
			if got, ok := t.find(key); !ok || got != i {
				err = fmt.Errorf("key %v of task %d is found as %d, %v", key, i, got, ok)
			}
			if _, both := t.tasks[key]; both && t.old != nil {
				if _, both = t.old[key]; both {
					err = fmt.Errorf("key %v is in both maps", key)
				}
			}
		})
	}
	if n != t.len() {
		err = fmt.Errorf("%d keys in chunks, %d in maps", n, t.len())
	}
	return err
}

func TestKeysAreFoundWhileTheyMoveToASmallerMap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var table keyTable[int]
	model := map[int]uint32{} // key to task
	free := r.Perm(60 * 256)
	moves := 0
	add := func() {
		i := uint32(free[len(free)-1])
		free = free[:len(free)-1]
		if row := uint8(i); row == 0 || row > chunkRows {
			return // no task has such an index
		}
		key := r.Int()
		table.set(i, key)
		model[key] = i
	}
	remove := func() {
		for key, i := range model {
			require.Equal(t, key, table.unset(i))
			delete(model, key)
			free = append(free, int(i))
			return
		}
	}
	for round := range 4 {
		for range 3_000 {
			add()
		}
		for n := 0; len(model) > round; n++ {
			remove()
			if n%5 == 0 {
				add()
			}
			if table.old != nil {
				moves++
			}
			if n%50 == 0 || table.old != nil && n%7 == 0 {
				require.NoError(t, table.check())
			}
			require.Equal(t, len(model), table.len())
		}
		require.NoError(t, table.check())
		require.LessOrEqual(t, table.most, 4*smallMap, "few keys are left in a small map")
	}
	require.Positive(t, moves)
}
