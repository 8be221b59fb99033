package boltstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/fee15284/timingwheel/durable"
)

// A timer's id is one byte with the length of the topic, the topic, and the key.
// Its record has the key
//
//	due time (8 bytes, big endian nanoseconds since 1970), id   in the due bucket
//	id                                                          in the others
//
// and the value
//
//	CRC-32C of the key and of what follows (4)
//	at (8): when it is or was due, in the dead bucket when it died
//	ID of the operation that put it (8)
//	attempts (uvarint)
//	length of the last error (uvarint), last error
//	payload
//
// By due time, timers that are added together lie together, and those that are due
// are the first ones: few pages are written. Keyed by id each add would touch a page
// of its own.
type record struct {
	at       int64
	op       uint64
	attempts int
	err      []byte
	payload  []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode appends the value of a record to a buffer and returns both.
func (r *record) encode(buf, key []byte) (grown, value []byte) {
	start := len(buf)
	buf = append(buf, 0, 0, 0, 0)
	buf = binary.LittleEndian.AppendUint64(buf, uint64(r.at))
	buf = binary.LittleEndian.AppendUint64(buf, r.op)
	buf = binary.AppendUvarint(buf, uint64(r.attempts))
	buf = binary.AppendUvarint(buf, uint64(len(r.err)))
	buf = append(buf, r.err...)
	buf = append(buf, r.payload...)
	value = buf[start:len(buf):len(buf)]
	binary.LittleEndian.PutUint32(value, checksum(key, value))
	return buf, value
}

func checksum(key, value []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value[4:])
}

// sumOf returns the checksum that a value carries.
func sumOf(value []byte) uint32 { return binary.LittleEndian.Uint32(value) }

const fixed = 4 + 8 + 8

// decode returns the record of a key and value, whose bytes it refers to.
func decode(key, value []byte) (record, error) {
	if len(value) < fixed || sumOf(value) != checksum(key, value) {
		return record{}, fmt.Errorf("%w: the record of key %.40q fails its checksum", ErrDamaged, key)
	}
	r := record{
		at: int64(binary.LittleEndian.Uint64(value[4:])),
		op: binary.LittleEndian.Uint64(value[12:]),
	}
	rest := value[fixed:]
	attempts, n := binary.Uvarint(rest)
	if n > 0 {
		rest = rest[n:]
	}
	length, m := binary.Uvarint(rest)
	if n <= 0 || m <= 0 || length > uint64(len(rest)-m) {
		return record{}, fmt.Errorf("%w: the record of key %.40q has an impossible length", ErrDamaged, key)
	}
	r.attempts = int(attempts)
	r.err, r.payload = rest[m:][:length], rest[m:][length:]
	return r, nil
}

func appendID(buf []byte, topic, key string) []byte {
	return append(append(append(buf, byte(len(topic))), topic...), key...)
}

func appendDue(buf []byte, due int64) []byte {
	return binary.BigEndian.AppendUint64(buf, uint64(due))
}

// timerOf returns the timer with an id, and a payload of its own.
func timerOf(id string, payload []byte) durable.Timer {
	n := int(id[0]) + 1
	return durable.Timer{Topic: id[1:n], Key: id[n:], Payload: slices.Clone(payload)}
}
