package timingwheel

import (
	"math/rand/v2"
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
		target := 0
		for step := range 3000 {
			if step%300 == 0 {
				target = []int{0, 1, 254, 255, 256, 600, 1500}[s.intn(7)]
			}
			switch {
			case len(order) < target || len(order) == 0 && s.intn(2) == 0:
				var h *hook
				if s.intn(3) == 0 {
					h = &hook{}
				}
				i := tab.add(func() {}, h)
				require.NotContains(t, live, i, "seed %d: two tasks in one row", seed)
				require.NotZero(t, i)
				e := tab.at(i)
				require.Equal(t, h != nil, e.hooked())
				if h != nil {
					require.Same(t, h, tab.hook(i))
				}
				live[i] = e.seq()
				order = append(order, i)
			case len(order) > 0 && s.intn(10) == 0:
				i := order[s.intn(len(order))]
				stale[i] = append(stale[i], live[i])
				tab.renew(i)
				require.NotEqual(t, live[i], tab.at(i).seq())
				live[i] = tab.at(i).seq()
			case len(order) > 0:
				k := s.intn(len(order))
				i := order[k]
				order = append(order[:k], order[k+1:]...)
				stale[i] = append(stale[i], live[i])
				delete(live, i)
				tab.remove(i)
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
	i := tab.add(nil, nil)
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
	require.Equal(t, uint64(seqMax), tab.at(tab.add(nil, nil)).seq())
	require.Equal(t, uint64(1), tab.at(tab.add(nil, nil)).seq())
}

func TestChunksGoBackWhenABurstHasDrained(t *testing.T) {
	var tab table
	var in inspector
	var all []uint32
	for range 100 * chunkRows {
		all = append(all, tab.add(nil, nil))
	}
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
	require.Equal(t, 3, kept, "those in use, and a spare")
	for range 3 * chunkRows { // the holes are used again
		tab.add(nil, nil)
	}
	require.Len(t, tab.chunks, 100)
	require.NoError(t, in.table(&tab))
	for _, i := range all[99*chunkRows:] {
		tab.remove(i)
	}
	require.NoError(t, in.table(&tab))
	for range 200 * chunkRows {
		tab.add(nil, nil)
	}
	require.NoError(t, in.table(&tab))

	tab, in, all = table{}, inspector{}, all[:0]
	for range 1_000 * chunkRows {
		all = append(all, tab.add(nil, nil))
	}
	for _, i := range all[1:] {
		tab.remove(i)
	}
	require.NoError(t, in.table(&tab))
	require.LessOrEqual(t, cap(tab.chunks), 4, "the directory is cut behind the last chunk")
	require.LessOrEqual(t, cap(tab.holes), 4)

	tab, in = table{}, inspector{}
	all = all[:0]
	for range 10 * chunkRows {
		all = append(all, tab.add(nil, nil))
	}
	for _, i := range all {
		tab.remove(i)
	}
	require.Len(t, tab.chunks, 1)
	require.NoError(t, in.table(&tab))
	again := tab.add(nil, nil)
	require.NotNil(t, tab.at(again))
	require.NoError(t, in.table(&tab))
}

func TestATableAtTheEdgeOfAChunkMakesNoNewOnes(t *testing.T) {
	var tab table
	for range chunkRows {
		tab.add(nil, nil)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() { tab.remove(tab.add(nil, nil)) }))
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
				i := tab.add(nil, nil)
				list.pushBack(&tab, i)
				want = append(want, i)
			case op == 2:
				i := tab.add(nil, nil)
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
