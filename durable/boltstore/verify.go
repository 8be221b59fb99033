package boltstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"os"
)

// The layout of a bbolt file, as far as verify reads it: pages of one size, each
// with a header, two of them meta pages, the rest a tree of branches and leaves.
const (
	headerSize  = 16 // id 8, flags 2, count 2, overflow 4
	elementSize = 16 // branch: pos 4, key size 4, page 8; leaf: flags 4, pos 4, key size 4, value size 4
	bucketSize  = 16 // root page 8, sequence 8; root page 0: the page follows, inline

	branchPage = 0x01
	leafPage   = 0x02
	metaPage   = 0x04
	bucketLeaf = 0x01

	magic       = 0xED0CDAED
	version     = 2
	metaSize    = 64 // magic 4, version 4, page size 4, flags 4, root bucket 16, freelist 8, pages 8, txid 8, checksum 8
	maxPageSize = 64 << 10
	maxDepth    = 64
	newFile     = 1 // number of the commit of a new file
)

// A verifier reads a file page by page and checks what bbolt takes for granted:
// that pages are what and where they should be, keys are in order, and each record
// and each bucket have the right checksum.
type verifier struct {
	file     *os.File
	size     int64
	pageSize int64
	pages    uint64 // in use by the tree or free; those after them are nothing
	seen     []bool
	newest   uint64 // number of the last commit
	buckets  int    // found
	records  int
}

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
}

// verify checks a file that nobody is writing, and returns how many records it
// has.
func verify(path string) (records int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	v := &verifier{file: f, size: info.Size()}
	root, err := v.metas()
	if err != nil {
		return 0, err
	}
	v.seen = make([]bool, v.pages)
	w := walk{verifier: v, leaf: v.bucket}
	if err := w.page(root, nil, nil, 0); err != nil {
		return 0, err
	}
	// Before its first commit, which makes the buckets, a file has none.
	if v.buckets != bucketCount && (v.buckets != 0 || v.newest != newFile) {
		return 0, damaged("%d buckets of %d are left", v.buckets, bucketCount)
	}
	return v.records, nil
}

// metas checks the two meta pages and returns the root page of the newer one.
//
// bbolt is content with one of them, and falls back on the older one, which is the
// file as it was one commit ago. But the commit after that was acknowledged; and a
// meta page lies within one sector, so that a crash leaves it old or new, not torn.
// Commits write them in turn, so their numbers are next to each other.
func (v *verifier) metas() (root uint64, err error) {
	var before uint64
	buf := make([]byte, headerSize+metaSize)
	for i := range int64(2) {
		if _, err := v.file.ReadAt(buf, i*v.pageSize); err != nil {
			return 0, damaged("meta page %d: the file ends after %d bytes", i, v.size)
		}
		m := buf[headerSize:]
		word := func(at int) uint32 { return binary.NativeEndian.Uint32(m[at:]) }
		long := func(at int) uint64 { return binary.NativeEndian.Uint64(m[at:]) }
		h := fnv.New64a()
		h.Write(m[:metaSize-8])
		if word(0) != magic || word(4) != version || h.Sum64() != long(metaSize-8) {
			return 0, damaged("meta page %d fails its checksum", i)
		}
		size := int64(word(8))
		if size < 512 || size > maxPageSize || i == 1 && size != v.pageSize {
			return 0, damaged("meta page %d: a page size of %d", i, size)
		}
		v.pageSize = size
		if binary.NativeEndian.Uint64(buf) != uint64(i) || binary.NativeEndian.Uint16(buf[8:]) != metaPage {
			return 0, damaged("meta page %d has the header of another page", i)
		}
		txid := long(48)
		if before, v.newest = min(v.newest, txid), max(v.newest, txid); v.newest == txid {
			root, v.pages = long(16), long(40)
		}
	}
	if v.newest != before+1 {
		return 0, damaged("the meta pages are of commits %d and %d", before, v.newest)
	}
	if v.pages > uint64(v.size/v.pageSize) {
		return 0, damaged("it was cut off: %d bytes are left of at least %d", v.size, v.pages*uint64(v.pageSize))
	}
	return root, nil
}

// load reads a page of the tree with its overflow pages, each of which is read
// once only.
func (v *verifier) load(id uint64) ([]byte, error) {
	if id < 2 || id >= v.pages {
		return nil, damaged("a reference to page %d of %d", id, v.pages)
	}
	page := make([]byte, v.pageSize)
	if _, err := v.file.ReadAt(page, int64(id)*v.pageSize); err != nil {
		return nil, err
	}
	more := uint64(binary.NativeEndian.Uint32(page[12:]))
	if binary.NativeEndian.Uint64(page) != id || id+more >= v.pages {
		return nil, damaged("page %d has the header of another page", id)
	}
	for n := id; n <= id+more; n++ {
		if v.seen[n] {
			return nil, damaged("page %d belongs to two places", n)
		}
		v.seen[n] = true
	}
	if more > 0 {
		page = append(page, make([]byte, int64(more)*v.pageSize)...)
		if _, err := v.file.ReadAt(page[v.pageSize:], int64(id+1)*v.pageSize); err != nil {
			return nil, err
		}
	}
	return page, nil
}

// A walk visits the pages of one tree in order and hands out what is in its
// leaves.
type walk struct {
	*verifier
	leaf func(flags uint32, key, value []byte) error
	last []byte // the key before
}

// page visits a page whose keys are from low to high, which are nil for no limit.
func (w *walk) page(id uint64, low, high []byte, depth int) error {
	if depth > maxDepth {
		return damaged("page %d is %d pages deep", id, depth)
	}
	page, err := w.load(id)
	if err != nil {
		return err
	}
	if flags := binary.NativeEndian.Uint16(page[8:]); flags == leafPage {
		return w.elements(id, page, low, high)
	} else if flags != branchPage {
		return damaged("page %d is of type %#x", id, flags)
	}
	return w.branch(id, page, low, high, depth)
}

func (w *walk) branch(id uint64, page, low, high []byte, depth int) error {
	count := int(binary.NativeEndian.Uint16(page[10:]))
	if count == 0 || headerSize+count*elementSize > len(page) {
		return damaged("page %d: a branch to %d pages", id, count)
	}
	keys := make([][]byte, count+1)
	for i := range count {
		at := headerSize + i*elementSize
		var err error
		if keys[i], err = slice(page, at, page[at:], page[at+4:], 0); err != nil {
			return fmt.Errorf("%w in page %d", err, id)
		}
	}
	keys[count] = high
	for i := range count {
		key, next := keys[i], keys[i+1]
		if i == 0 && low != nil && bytes.Compare(key, low) < 0 || next != nil && bytes.Compare(key, next) >= 0 {
			return damaged("page %d: keys out of order", id)
		}
		child := binary.NativeEndian.Uint64(page[headerSize+i*elementSize+8:])
		if err := w.page(child, key, next, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// elements visits what is in a leaf.
func (w *walk) elements(id uint64, page, low, high []byte) error {
	count := int(binary.NativeEndian.Uint16(page[10:]))
	if headerSize+count*elementSize > len(page) {
		return damaged("page %d: a leaf of %d elements", id, count)
	}
	for i := range count {
		at := headerSize + i*elementSize
		flags := binary.NativeEndian.Uint32(page[at:])
		key, err := slice(page, at, page[at+4:], page[at+8:], 0)
		if err != nil {
			return fmt.Errorf("%w in page %d", err, id)
		}
		value, err := slice(page, at, page[at+4:], page[at+12:], len(key))
		if err != nil {
			return fmt.Errorf("%w in page %d", err, id)
		}
		if w.last != nil && bytes.Compare(w.last, key) >= 0 ||
			low != nil && bytes.Compare(key, low) < 0 || high != nil && bytes.Compare(key, high) >= 0 {
			return damaged("page %d: keys out of order", id)
		}
		w.last = key
		if err := w.leaf(flags, key, value); err != nil {
			return fmt.Errorf("%w, in page %d", err, id)
		}
	}
	return nil
}

// slice returns the bytes at a position relative to an element, given as it lies in
// the page, and a number of bytes behind it.
func slice(page []byte, element int, pos, size []byte, skip int) ([]byte, error) {
	from := uint64(element) + uint64(binary.NativeEndian.Uint32(pos)) + uint64(skip)
	to := from + uint64(binary.NativeEndian.Uint32(size))
	if to > uint64(len(page)) {
		return nil, damaged("an element that ends outside")
	}
	return page[from:to:to], nil
}

// bucket checks an element of the root, which must be one of this package's
// buckets, and all that is in it.
func (v *verifier) bucket(flags uint32, key, value []byte) error {
	which := 0
	for which < bucketCount && !bytes.Equal(key, bucketNames[which]) {
		which++
	}
	if which == bucketCount || flags != bucketLeaf || len(value) < bucketSize {
		return damaged("%.40q is no bucket of boltstore", key)
	}
	var sum uint64
	w := walk{verifier: v}
	w.leaf = func(flags uint32, key, value []byte) error {
		if flags != 0 || which == dueBucket && len(key) < 8 {
			return damaged("%.40q is no record", key)
		}
		r, err := decode(key, value)
		if err != nil {
			return err
		}
		if which == dueBucket && dueOf(key) != r.at {
			return damaged("%.40q is in the wrong place", key)
		}
		sum += uint64(sumOf(value))
		v.records++
		return nil
	}
	var err error
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		err = w.page(root, nil, nil, 0)
	} else if page := value[bucketSize:]; len(page) < headerSize ||
		binary.NativeEndian.Uint16(page[8:]) != leafPage {
		err = damaged("bucket %s begins with no page", key)
	} else {
		err = w.elements(0, page, nil, nil)
	}
	if err != nil {
		return err
	}
	if want := binary.NativeEndian.Uint64(value[8:]); sum != want {
		return damaged("timers are missing in bucket %s: the sum of the checksums is %x, it should be %x", key, sum, want)
	}
	v.buckets++
	return nil
}
