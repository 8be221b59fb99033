package timingwheel

import (
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestHandlesAndRowsAreAsSmallAsPromised(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(Task{}), uintptr(16))
	require.LessOrEqual(t, unsafe.Sizeof(entry{}), uintptr(40))
	require.LessOrEqual(t, unsafe.Sizeof(chunk{}), uintptr(8192-8), "with its header a chunk must fit the size class of 8 KiB")
}

func TestTheTableAgreesWithAMap(t *testing.T) {
	from, to := seeds(t, 40)
	for seed := from; seed < to; seed++ {
		s := random{rand.New(rand.NewPCG(seed, 1))}
		var tab table
		var in inspector
		live := map[uint32]uint64{}
		var order []uint32
		stale := map[uint32][]uint64{}
		add := func() {
			var h *hook
			if s.intn(3) == 0 {
				h = &hook{}
			}
			i := tab.add(func() {}, h, s.intn(1+s.intn(groups)))
			if live[i] != 0 || i == 0 {
				t.Fatalf("seed %d: row %d is given out twice", seed, i)
			}
			e := tab.at(i)
			if e.hooked() != (h != nil) || h != nil && tab.hook(i) != h {
				t.Fatalf("seed %d: row %d has another task's hook", seed, i)
			}
			live[i] = e.seq()
			order = append(order, i)
		}
		remove := func(k int) {
			i := order[k]
			order = append(order[:k], order[k+1:]...)
			stale[i] = append(stale[i], live[i])
			delete(live, i)
			tab.remove(i)
		}
		target := 0
		for step := range 3000 {
			if step%300 == 0 {
				target = []int{0, 1, 254, 255, 256, 600, 1500, 10_000}[s.intn(8)]
				for len(order) < target-200 {
					add()
				}
				for len(order) > target+200 {
					remove(len(order) - 1 - s.intn(200))
				}
			}
			switch {
			case len(order) < target || len(order) == 0 && s.intn(2) == 0:
				add()
			case len(order) > 0 && s.intn(10) == 0:
				i := order[s.intn(len(order))]
				stale[i] = append(stale[i], live[i])
				tab.renew(i)
				require.NotEqual(t, live[i], tab.at(i).seq())
				live[i] = tab.at(i).seq()
			case len(order) > 0:
				remove(s.intn(len(order)))
			}
			if step%10 == 0 {
				require.NoError(t, in.table(&tab), "replay with TIMINGWHEEL_SEED=%d", seed)
				require.Equal(t, len(live), tab.used)
			}
		}
		for i, seq := range live {
			require.NotNil(t, tab.find(i, seq))
		}
		for i, seqs := range stale {
			for _, seq := range seqs {
				require.Nil(t, tab.find(i, seq), "seed %d: a stale handle is found", seed)
			}
		}
	}
}

func TestFindTakesAnyIndex(t *testing.T) {
	var tab table
	require.Nil(t, tab.find(0, 0))
	require.Nil(t, tab.find(1, 1))
	i := tab.add(nil, nil, 0)
	seq := tab.at(i).seq()
	require.NotNil(t, tab.find(i, seq))
	for _, other := range []uint32{0, i - 1, i + 1, 255, 256, 257, 1 << 20, 1<<32 - 1} {
		require.Nil(t, tab.find(other, seq), "index %d", other)
	}
	require.Nil(t, tab.find(i, 0))
	require.Nil(t, tab.find(i, seq+1))
	require.Nil(t, tab.find(i+1, 0), "a row never used has number 0, which is no task's")
}

func TestTheSequenceSkipsZeroWhenItWraps(t *testing.T) {
	tab := table{seq: seqMax - 1}
	require.Equal(t, uint64(seqMax), tab.at(tab.add(nil, nil, 0)).seq())
	require.Equal(t, uint64(1), tab.at(tab.add(nil, nil, 0)).seq())
}

// fillTable adds n tasks of one group and returns their indices.
func fillTable(t *table, n int) []uint32 {
	all := make([]uint32, n)
	for k := range all {
		all[k] = t.add(nil, nil, 0)
	}
	return all
}

func TestChunksGoBackWhenABurstHasDrained(t *testing.T) {
	var tab table
	var in inspector
	all := fillTable(&tab, 100*chunkRows)
	require.Len(t, tab.chunks, 100)
	for _, i := range all[chunkRows : 99*chunkRows] {
		tab.remove(i)
	}
	require.NoError(t, in.table(&tab))
	kept := 0
	for _, c := range tab.chunks {
		if c != nil {
			kept++
		}
	}
	require.Equal(t, 3, kept, "those in use, and one kept")
	for range 3 * chunkRows { // the holes are used again
		tab.add(nil, nil, 0)
	}
	require.Len(t, tab.chunks, 100)
	require.NoError(t, in.table(&tab))
	for _, i := range all[99*chunkRows:] {
		tab.remove(i)
	}
	require.NoError(t, in.table(&tab))
	for range 200 * chunkRows {
		tab.add(nil, nil, 0)
	}
	require.NoError(t, in.table(&tab))

	for _, rest := range []int{0, 5} { // so many tasks are in the last chunk, which stays open
		tab, in = table{}, inspector{}
		all = fillTable(&tab, 1_000*chunkRows+rest)
		for _, i := range all[1:] {
			tab.remove(i)
		}
		require.NoError(t, in.table(&tab))
		require.LessOrEqual(t, cap(tab.chunks), 64, "the directory is cut behind the last chunk")
		require.LessOrEqual(t, cap(tab.holes), 64)
	}

	tab, in = table{}, inspector{}
	all = fillTable(&tab, 10*chunkRows)
	for _, i := range all {
		tab.remove(i)
	}
	require.Len(t, tab.chunks, 1)
	require.NoError(t, in.table(&tab))
	again := tab.add(nil, nil, 0)
	require.NotNil(t, tab.at(again))
	require.NoError(t, in.table(&tab))
}

func TestAFewTasksThatComeAndGoBesideManyMakeNoChunks(t *testing.T) {
	var tab table
	var in inspector
	for range 1600 * chunkRows { // no row is left
		tab.add(nil, nil, 1)
	}
	for few := 1; few <= groups; few *= 2 {
		round := func() {
			for group := range few {
				tab.remove(tab.add(nil, nil, group))
			}
			var some [groups]uint32
			for group := range few {
				some[group] = tab.add(nil, nil, group)
			}
			for group := range few {
				tab.remove(some[group])
			}
		}
		round()
		require.Zero(t, testing.AllocsPerRun(100, round), "tasks of %d groups", few)
		require.NoError(t, in.table(&tab))
	}
}

// The list of chunks with free rows may hold one that has none left, but not one for
// each pair of a cancel and an add: the next add would look at them all.
func TestCancellingAndAddingLeavesNoChunksToLookAtLater(t *testing.T) {
	var tab table
	var in inspector
	all := fillTable(&tab, 50*chunkRows)
	for n := range 50 {
		tab.remove(all[n*chunkRows])
		require.Equal(t, all[n*chunkRows], tab.add(nil, nil, 0))
		require.NoError(t, in.table(&tab))
		listed := 0
		for n := tab.free; n != 0; n = tab.chunks[n-1].nextFree {
			listed++
		}
		require.LessOrEqual(t, listed, 1)
	}
}

func TestTasksOfAGroupLieTogetherAsTheTableGrows(t *testing.T) {
	var tab table
	var in inspector
	byChunk := map[uint32]map[int]bool{}
	for n := range groups * 100 * chunkRows {
		group := n * 7 % groups
		i := tab.add(nil, nil, group)
		if byChunk[i>>8] == nil {
			byChunk[i>>8] = map[int]bool{}
		}
		byChunk[i>>8][group] = true
		require.LessOrEqual(t, tab.fresh, tab.used/freshShare+chunkRows, "fresh rows beside %d used ones", tab.used)
	}
	require.NoError(t, in.table(&tab))
	mixed := 0
	for _, some := range byChunk {
		if len(some) > 1 {
			mixed++
		}
	}
	require.Less(t, mixed, 2*freshShare*groups, "chunks of several groups, made while there were few tasks; of %d", len(byChunk))

	one := tab.used - 1
	tab.remove(1<<8 | 1)
	require.Equal(t, uint32(1<<8|1), tab.add(nil, nil, 5), "a row given back comes first, for any group")
	require.Equal(t, one+1, tab.used)
}

// Holes that are filled again must not be noted for ever, nor those that lie behind
// the end of the directory.
func TestTheTableForgetsHolesThatItFills(t *testing.T) {
	var tab table
	var in inspector
	const chunks = 10
	for _, stays := range []int{0, 9 * chunkRows} { // the first chunk stays, or the last
		tab, in = table{}, inspector{}
		all := fillTable(&tab, chunks*chunkRows)
		leaving := slices.Concat(all[:stays], all[stays+chunkRows:])
		for range 20 {
			for _, i := range leaving {
				tab.remove(i)
			}
			require.NoError(t, in.table(&tab))
			leaving = fillTable(&tab, len(leaving))
			require.NoError(t, in.table(&tab))
			require.LessOrEqual(t, len(tab.holes), chunks)
		}
	}
}

func TestAGroupHasTheTasksOfOneSlot(t *testing.T) {
	var tasks table
	var h hierarchy
	h.init(&tasks, []int{1000, 60, 60, 24}, 0)
	require.Equal(t, h.group(5), h.group(999), "what is due within the finest ring is one group")
	for _, unit := range []int64{1000, 60_000, 3_600_000} {
		for n := int64(2); n < 24; n++ {
			require.Equal(t, h.group(n*unit), h.group((n+1)*unit-1))
			require.NotEqual(t, h.group(n*unit), h.group((n+1)*unit))
		}
	}
	for _, due := range []int64{-5, 0, 1 << 40, never} {
		require.Less(t, h.group(due), groups)
		require.GreaterOrEqual(t, h.group(due), 0)
	}
}

func TestATableAtTheEdgeOfAChunkMakesNoNewOnes(t *testing.T) {
	var tab table
	for range chunkRows {
		tab.add(nil, nil, 0)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { tab.remove(tab.add(nil, nil, 0)) }))
}

func TestASlotIsAQueueWithTwoEnds(t *testing.T) {
	from, to := seeds(t, 200)
	for seed := from; seed < to; seed++ {
		s := random{rand.New(rand.NewPCG(seed, 2))}
		var tab table
		var list slot
		want := []uint32{}
		for range 100 {
			switch op := s.intn(5); {
			case op < 2:
				i := tab.add(nil, nil, 0)
				list.pushBack(&tab, i)
				want = append(want, i)
			case op == 2:
				i := tab.add(nil, nil, 0)
				list.pushFront(&tab, i)
				want = append([]uint32{i}, want...)
			case len(want) > 0:
				k := s.intn(len(want))
				list.remove(&tab, want[k])
				tab.remove(want[k])
				want = append(want[:k], want[k+1:]...)
			}
			require.Equal(t, len(want) == 0, list.empty())
			got := []uint32{}
			for i := list.head; i != 0 && (len(got) == 0 || i != list.head); i = tab.at(i).next {
				got = append(got, i)
			}
			require.Equal(t, want, got, "replay with TIMINGWHEEL_SEED=%d", seed)
			last := uint32(0)
			if len(want) > 0 {
				last = want[len(want)-1]
			}
			require.Equal(t, last, list.tail(&tab))
		}
	}
}
