package bolt

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Format is the version of the file layout.
const Format = 4

var (
	metaBucket = []byte("meta")
	// journalBucket holds all rows in the order of acceptance: record number -> record.
	journalBucket = []byte("journal")
	// numberByNameBucket: stream name -> stream number.
	numberByNameBucket = []byte("names")
	// nameByNumberBucket: stream number -> stream name.
	nameByNumberBucket = []byte("numbers")
	// indexBucket locates rows: stream number, position -> record number.
	indexBucket = []byte("index")
	// documentsBucket: partition, sort -> document.
	documentsBucket = []byte("documents")
	// sparseIndexBucket: index partition, index sort, document key -> empty value.
	sparseIndexBucket = []byte("listed")
	// expiryBucket: Unix second, document key -> empty value.
	expiryBucket = []byte("expiring")

	formatKey      = []byte("format")
	lastIndexedKey = []byte("indexed")
	upgradeKey     = []byte("upgrade") // state of an incomplete upgrade
	versionKey     = []byte("about")
)

// entryFormat is the first byte of every record and every document.
const entryFormat = 1

// recordHeaderSize is the size of a record's format, WriteID, stream number and position.
const recordHeaderSize = 1 + 16 + 8 + 8

func encodeNumber(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }

func parseNumber(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func indexKey(streamNumber, position uint64) []byte {
	return binary.BigEndian.AppendUint64(encodeNumber(streamNumber), position)
}

// encodeRecord encodes a row. The committer sets the stream number later.
func encodeRecord(a store.Append) []byte {
	b := make([]byte, recordHeaderSize, recordHeaderSize+len(a.Data))
	b[0] = entryFormat
	copy(b[1:], a.WriteID[:])
	binary.BigEndian.PutUint64(b[25:], a.Position)
	return append(b, a.Data...)
}

func setStreamNumber(record []byte, streamNumber uint64) {
	binary.BigEndian.PutUint64(record[17:], streamNumber)
}

func parseRecord(record []byte, streamNumber, position uint64) (store.Row, error) {
	switch {
	case record == nil:
		return store.Row{}, damagedError("row %d of stream %d is missing", position, streamNumber)
	case len(record) < recordHeaderSize:
		return store.Row{}, damagedError("row %d of stream %d is truncated", position, streamNumber)
	case record[0] != entryFormat:
		return store.Row{}, damagedError("row %d of stream %d has format %d", position, streamNumber, record[0])
	case parseNumber(record[17:25]) != streamNumber || parseNumber(record[25:33]) != position:
		return store.Row{}, damagedError("the record of row %d of stream %d contains row %d of stream %d", position, streamNumber,
			parseNumber(record[25:33]), parseNumber(record[17:25]))
	}
	return store.Row{Position: position, WriteID: store.WriteID(record[1:17]), Data: record[recordHeaderSize:]}, nil // Data aliases record
}

// partitionPrefix returns the prefix of all keys of a partition. The prefix begins with the length,
// so that it never matches the keys of another partition.
func partitionPrefix(partition string) []byte {
	b := make([]byte, 0, 2+len(partition)+64)
	b = binary.BigEndian.AppendUint16(b, uint16(len(partition)))
	return append(b, partition...)
}

func documentKey(k store.Key) []byte { return append(partitionPrefix(k.Partition), k.Sort...) }

func parseDocumentKey(b []byte) (store.Key, error) {
	if len(b) >= 2 {
		if n := int(binary.BigEndian.Uint16(b)); len(b) >= 2+n {
			return store.Key{Partition: string(b[2 : 2+n]), Sort: string(b[2+n:])}, nil
		}
	}
	return store.Key{}, damagedError("%q is not a document's key", b)
}

// sparseIndexKey returns a key that sorts by the index sort, then by the document's key. The bytes
// 0 1 mark the end of the sort. A zero byte in the sort is written as 0 255.
func sparseIndexKey(index, document store.Key) []byte {
	return append(append(sparseIndexStart(index.Partition, index.Sort), 0, 1), documentKey(document)...)
}

func sparseIndexStart(partition, sort string) []byte {
	b := partitionPrefix(partition)
	for i := range len(sort) {
		if b = append(b, sort[i]); sort[i] == 0 {
			b = append(b, 255)
		}
	}
	return b
}

func parseSparseIndexKey(entry []byte, prefixSize int) (store.Key, error) {
	for offset := prefixSize; offset+1 < len(entry); offset++ {
		if entry[offset] != 0 {
			continue
		}
		if entry[offset+1] == 1 {
			return parseDocumentKey(entry[offset+2:])
		}
		offset++ // skip the 255 of an escaped zero byte
	}
	return store.Key{}, damagedError("%q is not an entry of the index", entry)
}

func expiryKey(d store.Doc) []byte {
	return append(encodeNumber(uint64(d.Expires.Unix())), documentKey(d.Key)...)
}

// encodeDocument encodes format, version, number, WriteID, index, expiry second or 0, and data.
func encodeDocument(d store.Doc) []byte {
	b := make([]byte, 0, 56+len(d.Index.Partition)+len(d.Index.Sort)+len(d.Data))
	b = append(b, entryFormat)
	b = binary.AppendUvarint(b, d.Version)
	b = binary.AppendVarint(b, d.Number)
	b = append(b, d.WriteID[:]...)
	b = appendString(b, d.Index.Partition)
	b = appendString(b, d.Index.Sort)
	second := uint64(0)
	if !d.Expires.IsZero() {
		second = uint64(d.Expires.Unix())
	}
	return append(binary.AppendUvarint(b, second), d.Data...)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func parseDocument(k store.Key, b []byte) (store.Doc, error) {
	if b == nil {
		return store.Doc{Key: k}, nil
	}
	if len(b) == 0 || b[0] != entryFormat {
		return store.Doc{}, damagedError("document %s has an unknown format", k)
	}
	d, ok := parseDocumentBody(k, b[1:])
	if !ok {
		return store.Doc{}, damagedError("document %s is truncated", k)
	}
	return d, nil
}

func parseDocumentBody(k store.Key, b []byte) (d store.Doc, ok bool) {
	if d, b, ok = parseDocumentHead(b); !ok {
		return d, false
	}
	d.Key = k
	second, used := binary.Uvarint(b)
	if used <= 0 || second > math.MaxInt64 {
		return d, false
	}
	if second > 0 {
		d.Expires = time.Unix(int64(second), 0).UTC()
	}
	d.Data = b[used:] // aliases b
	return d, true
}

func parseDocumentHead(b []byte) (d store.Doc, rest []byte, ok bool) {
	var used int
	if d.Version, used = binary.Uvarint(b); used <= 0 {
		return d, nil, false
	}
	b = b[used:]
	if d.Number, used = binary.Varint(b); used <= 0 || len(b) < used+len(d.WriteID) {
		return d, nil, false
	}
	b = b[used+copy(d.WriteID[:], b[used:]):]
	for _, text := range []*string{&d.Index.Partition, &d.Index.Sort} {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return d, nil, false
		}
		*text, b = string(b[used:used+int(n)]), b[used+int(n):]
	}
	return d, b, true
}

func cloneDoc(d store.Doc) store.Doc {
	d.Data = bytes.Clone(d.Data)
	return d
}

func damagedError(format string, args ...any) error {
	return problem.Wrap(problem.Damaged, fmt.Errorf(format, args...), "the data file is damaged: "+format, args...)
}

func checkFormat(db *bbolt.DB, u *Upgrade) error {
	info, err := readInfo(db)
	switch {
	case err != nil, info.Format == Format && info.UpgradeFrom == 0:
		return err
	case info.Format > Format:
		return problem.New(problem.Conflict, "%s has format %d, this vacancy reads format %d: use a newer vacancy, or other data with --data OTHER", db.Path(), info.Format, Format)
	case info.Format >= 0 && info.Format < earliestFormat:
		return problem.New(problem.Conflict, "%s has format %d, this vacancy reads format %d: it upgrades format %d and later; use the vacancy that wrote the file, or other data with --data OTHER", db.Path(), info.Format, Format, earliestFormat)
	case info.Format < 0:
		if err := db.Update(createBuckets); err != nil {
			return problem.Wrap(problem.Unavailable, err, "cannot write %s", db.Path())
		}
		return nil
	case u == nil && info.Format == Format:
		return NewOldFormatError("the upgrade of %s from format %d is incomplete: the next start of the host completes it", db.Path(), info.UpgradeFrom)
	case u == nil:
		return NewOldFormatError("%s has format %d, this vacancy reads format %d: the next start of the host upgrades it", db.Path(), info.Format, Format)
	}
	return upgradeFile(db, info.Format, u)
}

func readFormat(db *bbolt.DB) (format int, err error) {
	err = db.View(func(tx *bbolt.Tx) error {
		if k, _ := tx.Cursor().First(); k == nil {
			format = -1
			return nil
		}
		if b := tx.Bucket(metaBucket); b != nil && len(b.Get(formatKey)) == 8 {
			format = int(min(parseNumber(b.Get(formatKey)), math.MaxInt32))
			return nil
		}
		return problem.New(problem.Damaged, "%s is not a data file of Vacancy, or is damaged", db.Path())
	})
	return format, err
}

func createBuckets(tx *bbolt.Tx) error {
	for _, name := range [][]byte{metaBucket, journalBucket, numberByNameBucket, nameByNumberBucket, indexBucket, documentsBucket, sparseIndexBucket, expiryBucket} {
		if _, err := tx.CreateBucketIfNotExists(name); err != nil {
			return err
		}
	}
	return tx.Bucket(metaBucket).Put(formatKey, encodeNumber(Format))
}
