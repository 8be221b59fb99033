package timingwheel

import (
	"math/bits"
	"slices"
)

// A keyTable finds the task of a key and the key of a task, for one Keyed. It is
// guarded by the wheel's lock.
//
// Go's maps do not shrink. When few keys are left of many, they move to a new map,
// those of one chunk with each change of the table, so that none takes long.
type keyTable[K comparable] struct {
	tasks  map[K]uint32
	most   int            // of len(tasks) since it was made
	old    map[K]uint32   // while keys move: those in chunks from moved on
	moved  int            // how many chunks have moved
	chunks []*keyChunk[K] // as those of the wheel's table; nil: without keys
	spare  *keyChunk[K]   // one that is empty, kept for reuse
}

// A keyChunk holds the keys of the tasks in one chunk of the wheel's table.
type keyChunk[K comparable] struct {
	keys [chunkRows]K
	has  [(chunkRows + 63) / 64]uint64 // one bit per row
}

// smallMap is the number of keys up to which a map is never given up.
const smallMap = 128

func (t *keyTable[K]) len() int { return len(t.tasks) + len(t.old) }

// find returns the task of a key.
func (t *keyTable[K]) find(key K) (i uint32, ok bool) {
	if i, ok = t.tasks[key]; !ok && t.old != nil {
		i, ok = t.old[key]
	}
	return i, ok
}

// home returns the map that the key of task i is in, or belongs into.
func (t *keyTable[K]) home(i uint32) map[K]uint32 {
	if t.old != nil && int(i>>8) >= t.moved {
		return t.old
	}
	if t.tasks == nil {
		t.tasks = make(map[K]uint32)
	}
	return t.tasks
}

// set notes that task i stands for a key.
func (t *keyTable[K]) set(i uint32, key K) {
	n, row := int(i>>8), int(uint8(i)-1)
	for n >= len(t.chunks) {
		t.chunks = append(t.chunks, nil)
	}
	c := t.chunks[n]
	if c == nil {
		if c, t.spare = t.spare, nil; c == nil {
			c = new(keyChunk[K])
		}
		t.chunks[n] = c
	}
	c.keys[row] = key
	c.has[row>>6] |= 1 << (row & 63)
	t.home(i)[key] = i
	t.most = max(t.most, len(t.tasks))
	t.shrink()
}

// unset forgets the key of task i and returns it.
func (t *keyTable[K]) unset(i uint32) K {
	n, row := int(i>>8), int(uint8(i)-1)
	c := t.chunks[n]
	key := c.keys[row]
	var none K
	c.keys[row] = none
	c.has[row>>6] &^= 1 << (row & 63)
	if c.has == [len(c.has)]uint64{} {
		t.chunks[n], t.spare = nil, c
	}
	delete(t.home(i), key)
	t.shrink()
	return key
}

// rows calls yield for each task in chunk n.
func (c *keyChunk[K]) rows(n int, yield func(i uint32, key K)) {
	for w, word := range c.has {
		for ; word != 0; word &= word - 1 {
			row := w<<6 + bits.TrailingZeros64(word)
			yield(uint32(n<<8|row+1), c.keys[row])
		}
	}
}

// shrink begins to move the keys to a new map if few are left of many, or moves
// those of one more chunk.
func (t *keyTable[K]) shrink() {
	switch {
	case t.old != nil:
		if t.moved < len(t.chunks) {
			t.moveChunk(t.moved)
			t.moved++
			return
		}
		t.old, t.most = nil, len(t.tasks)
		for last := len(t.chunks) - 1; last >= 0 && t.chunks[last] == nil; last-- {
			t.chunks = t.chunks[:last]
		}
		t.chunks = slices.Clip(slices.Clone(t.chunks))
	case t.most > smallMap && len(t.tasks) < t.most/4:
		t.old, t.tasks, t.moved = t.tasks, make(map[K]uint32), 0
	}
}

func (t *keyTable[K]) moveChunk(n int) {
	c := t.chunks[n]
	if c == nil {
		return
	}
	c.rows(n, func(i uint32, key K) {
		delete(t.old, key)
		t.tasks[key] = i
	})
}
