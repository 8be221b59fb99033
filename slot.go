package timingwheel

// A slot is a first-in, first-out list of tasks, linked through their table
// entries into a ring, so that the head alone is kept here: four bytes a slot
// keep even a wheel of 1,000 slots small. The tail is the head's prev.
//
// All methods are O(1). A slot knows nothing of ticks.
type slot struct {
	head uint32 // 0: empty
}

func (s *slot) empty() bool { return s.head == 0 }

// pushBack appends task i, which must be in no list.
func (s *slot) pushBack(t *table, i uint32) {
	e := t.at(i)
	if s.head == 0 {
		e.prev, e.next = i, i
		s.head = i
		return
	}
	head := t.at(s.head)
	e.prev, e.next = head.prev, s.head
	t.at(head.prev).next = i
	head.prev = i
}

// pushFront puts task i, which must be in no list, before all others.
func (s *slot) pushFront(t *table, i uint32) {
	s.pushBack(t, i) // in a ring, the place after the tail is the place before the head
	s.head = i
}

// remove takes task i, which must be in this list, out of it.
func (s *slot) remove(t *table, i uint32) {
	e := t.at(i)
	if e.next == i {
		s.head = 0
		return
	}
	t.at(e.prev).next = e.next
	t.at(e.next).prev = e.prev
	if s.head == i {
		s.head = e.next
	}
}

// tail returns the last task, or 0.
func (s *slot) tail(t *table) uint32 {
	if s.head == 0 {
		return 0
	}
	return t.at(s.head).prev
}
