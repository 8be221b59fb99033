package timingwheel

import "math"

// watch makes level.counts say how many tasks each slot holds. Nobody pays for
// them, in memory or in time, before someone has looked: then the tasks that are
// there are counted chunk by chunk, and put and take keep the counts of those in
// chunks already seen; an entry never moves to another chunk. watch looks at fewer
// than 512 entries, so that its caller can let go of a lock, and reports whether
// the counts are complete; from then on they stay so.
//
// Walking all tasks for each look instead would touch a million cache lines, and
// be wrong by what moves meanwhile.
func (h *hierarchy) watch() bool {
	const chunksAtOnce = 4
	if h.watched == math.MaxUint32 {
		return true
	}
	if h.levels[0].counts == nil {
		for k := range h.levels {
			h.levels[k].counts = make([]uint32, len(h.levels[k].slots))
		}
	}
	for range chunksAtOnce {
		if int(h.watched) >= len(h.tasks.chunks) {
			h.watched = math.MaxUint32
			return true
		}
		h.countChunk(h.tasks.chunks[h.watched])
		h.watched++
	}
	return false
}

func (h *hierarchy) countChunk(c *chunk) {
	if c == nil {
		return
	}
	for row := range c.rows[:c.fresh] {
		if place := c.rows[row].place(); place >= placeSlots {
			k, n := h.slotOf(place)
			h.levels[k].counts[n]++
		}
	}
}
