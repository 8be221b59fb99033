package boltstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fee15284/timingwheel"
	"github.com/fee15284/timingwheel/durable"
)

// BenchmarkSync is the latency of the disk: what no durable write can beat. A
// commit of bbolt syncs twice.
func BenchmarkSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	var lat latencies
	for i := range 256 {
		f.WriteAt(block, int64(i)*4096)
	}
	f.Sync()
	for i := 0; b.Loop(); i++ {
		start := time.Now()
		if _, err := f.WriteAt(block, int64(i%256)*4096); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
		lat = append(lat, time.Since(start))
	}
	lat.report(b)
}

type latencies []time.Duration

func (l latencies) report(b *testing.B) {
	slices.Sort(l)
	b.ReportMetric(float64(l[len(l)/2])/1e3, "p50-us")
	b.ReportMetric(float64(l[len(l)*99/100])/1e3, "p99-us")
}

// callers makes b.N calls from n goroutines and reports calls a second, latency,
// and bytes written for each.
func callers(b *testing.B, n int, call func(i int) error) {
	before := written()
	var next atomic.Int64
	all := make([]latencies, n)
	var wg sync.WaitGroup
	b.ResetTimer()
	for g := range n {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				start := time.Now()
				if err := call(int(i)); err != nil {
					b.Error(err)
					return
				}
				all[g] = append(all[g], time.Since(start))
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "adds/s")
	if bytes := written() - before; bytes > 0 {
		b.ReportMetric(float64(bytes)/float64(b.N), "written-B/add")
	}
	slices.Concat(all...).report(b)
}

// written returns how many bytes this process has caused to be written, 0 where
// that is not known.
func written() int64 {
	data, _ := os.ReadFile("/proc/self/io")
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "write_bytes: "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}

// BenchmarkAdd adds timers that are due in 15 minutes, beside the ceiling: bbolt
// alone, driven with the same group commit, one bucket, keys by due time, nothing
// else.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{1, 64, 512} {
		b.Run(fmt.Sprintf("callers=%d/bolt-alone", n), func(b *testing.B) { benchRaw(b, n) })
		b.Run(fmt.Sprintf("callers=%d/boltstore", n), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "timers.db"), nil)
			ctx := context.Background()
			callers(b, n, func(i int) error {
				_, err := s.Apply(ctx, []durable.Op{{Kind: durable.Put, Topic: "order.unpaid",
					Key: fmt.Sprintf("order-%09d", i), Delay: 15 * time.Minute, ID: uint64(i)}})
				return err
			})
		})
	}
}

func benchRaw(b *testing.B, n int) {
	db, err := bolt.Open(filepath.Join(b.TempDir(), "raw.db"), 0o600, &bolt.Options{
		NoFreelistSync: true, FreelistType: bolt.FreelistMapType, NoStatistics: true})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	name := []byte("1.due")
	if err := db.Update(func(tx *bolt.Tx) error { _, err := tx.CreateBucket(name); return err }); err != nil {
		b.Fatal(err)
	}
	w := &rawWriter{db: db, name: name, bell: make(chan struct{}, 1)}
	go w.write()
	defer close(w.bell)
	callers(b, n, w.put)
}

type rawWriter struct {
	db    *bolt.DB
	name  []byte
	bell  chan struct{}
	mu    sync.Mutex
	queue []*rawPut
}

type rawPut struct {
	key, value []byte
	done       chan error
}

func (w *rawWriter) put(i int) error {
	key := binary.BigEndian.AppendUint64(nil, uint64(time.Now().Add(15*time.Minute).UnixNano()))
	r := &rawPut{fmt.Appendf(key, "\x0corder.unpaidorder-%09d", i), make([]byte, 22), make(chan error, 1)}
	w.mu.Lock()
	w.queue = append(w.queue, r)
	w.mu.Unlock()
	select {
	case w.bell <- struct{}{}:
	default:
	}
	return <-r.done
}

func (w *rawWriter) write() {
	for range w.bell {
		for seen := 0; ; runtime.Gosched() {
			w.mu.Lock()
			n := len(w.queue)
			w.mu.Unlock()
			if n == seen {
				break
			}
			seen = n
		}
		w.mu.Lock()
		batch := w.queue
		w.queue = nil
		w.mu.Unlock()
		if len(batch) == 0 {
			continue
		}
		err := w.db.Update(func(tx *bolt.Tx) error {
			bucket := tx.Bucket(w.name)
			bucket.FillPercent = 0.9
			for _, r := range batch {
				if err := bucket.Put(r.key, r.value); err != nil {
					return err
				}
			}
			return nil
		})
		for _, r := range batch {
			r.done <- err
		}
	}
}

// BenchmarkClaimAndAck delivers timers that are due, 100 at a time.
func BenchmarkClaimAndAck(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "timers.db"), nil)
	million(b, s, b.N, 0)
	ctx := context.Background()
	b.ResetTimer()
	for n := 0; n < b.N; {
		batch, err := s.Claim(ctx, durable.MaxBatch, time.Minute)
		if err != nil || len(batch.Claimed) == 0 {
			b.Fatal(batch, err)
		}
		ops := make([]durable.Op, len(batch.Claimed))
		for i, c := range batch.Claimed {
			ops[i] = durable.Op{Kind: durable.Ack, Topic: c.Topic, Key: c.Key, Token: c.Token}
		}
		if _, err := s.Apply(ctx, ops); err != nil {
			b.Fatal(err)
		}
		n += len(ops)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "timers/s")
}

// BenchmarkDrain is a restart with b.N timers overdue: a scheduler runs handlers
// that do nothing.
func BenchmarkDrain(b *testing.B) {
	for _, places := range []int{durable.DefaultConcurrency, 512} {
		b.Run(fmt.Sprintf("concurrency=%d", places), func(b *testing.B) {
			s := open(b, filepath.Join(b.TempDir(), "timers.db"), nil)
			million(b, s, b.N, 0)
			w, err := timingwheel.New(timingwheel.Options{Tick: 10 * time.Millisecond})
			if err != nil {
				b.Fatal(err)
			}
			timers, err := durable.New(w, s, durable.Options{Concurrency: places})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			var left atomic.Int64
			left.Store(int64(b.N))
			err = timers.Handle("order.unpaid", func(context.Context, durable.Delivery) error {
				if left.Add(-1) == 0 {
					cancel()
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			if err := timers.Run(ctx); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "timers/s")
		})
	}
}

// million adds n timers, from several goroutines, in full batches.
func million(t testing.TB, s *Store, n int, d time.Duration) {
	t.Helper()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				first := int(next.Add(durable.MaxBatch)) - durable.MaxBatch
				if first >= n {
					return
				}
				var ops []durable.Op
				for i := first; i < min(first+durable.MaxBatch, n); i++ {
					ops = append(ops, durable.Op{Kind: durable.Put, Topic: "order.unpaid",
						Key: fmt.Sprintf("order-%09d", i), Delay: d, ID: uint64(i) + 1})
				}
				if _, err := s.Apply(context.Background(), ops); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A million timers are there again after a restart. The long version also times
// what a restart after 99 % of them have gone finds.
func TestMillionTimersAreRecovered(t *testing.T) {
	n := rounds(100_000, 1_000_000)
	path := filepath.Join(t.TempDir(), "timers.db")
	s := open(t, path, nil)
	start := time.Now()
	million(t, s, n, time.Hour)
	t.Logf("%d timers added in %v, 8 callers, batches of 100", n, time.Since(start).Round(time.Millisecond))
	s.Close()
	s = nil
	size := fileSize(t, path)

	before := heapInUse()
	start = time.Now()
	s = open(t, path, nil)
	took := time.Since(start)
	counts, err := s.Count(t.Context())
	if err != nil || counts.Live != n {
		t.Fatalf("%+v of %d timers, %v", counts, n, err)
	}
	t.Logf("recovered in %v; file %d MB, %d B a timer; memory %d B a timer", took.Round(time.Millisecond),
		size>>20, size/int64(n), (heapInUse()-before)/uint64(n))
	for first := 0; first < n; first += durable.MaxBatch {
		var ops []durable.Op
		for i := first; i < first+durable.MaxBatch; i++ {
			if i%100 > 0 {
				ops = append(ops, durable.Op{Kind: durable.Cancel, Topic: "order.unpaid", Key: fmt.Sprintf("order-%09d", i)})
			}
		}
		statuses, err := s.Apply(t.Context(), ops)
		if err != nil || slices.ContainsFunc(statuses, func(s durable.Status) bool { return s != durable.Canceled }) {
			t.Fatal(statuses, err)
		}
	}
	if counts, err := s.Count(t.Context()); err != nil || counts.Live != n/100 {
		t.Fatalf("%+v, %v", counts, err)
	}
	s.Close()
	start = time.Now()
	open(t, path, nil).Close()
	t.Logf("after 99 %% have gone: file %d MB, opened in %v", fileSize(t, path)>>20, time.Since(start).Round(time.Millisecond))
	runtime.KeepAlive(s)
}

func fileSize(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
