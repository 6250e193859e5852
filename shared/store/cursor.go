package store

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
)

// Cursor is the place after a document in the order of a range: where the next
// page of Docs goes on, also when that document is gone by then.
type Cursor struct {
	Key  Key    // the document's own
	Sort string // the sort that the index lists it under, if that is what is read
}

// String is the cursor as callers hold it, opaque to them and safe in a URL.
func (c Cursor) String() string {
	var b []byte
	for _, part := range []string{c.Sort, c.Key.Partition, c.Key.Sort} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// StreamCursor is the place after a stream in the listing of a view.
func StreamCursor(s Stream) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

// ParseStreamCursor reads what StreamCursor wrote; "" is the place before the
// first stream.
func ParseStreamCursor(s string) (Stream, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) > MaxKey {
		return "", errors.New("that cursor is none of this store's")
	}
	return Stream(b), nil
}

// ParseCursor reads what String wrote; "" is the zero Cursor. Whatever else
// comes is refused: cursors pass through other people's hands.
func ParseCursor(s string) (Cursor, error) {
	var c Cursor
	if s == "" {
		return c, nil
	}
	bad := errors.New("that cursor is none of this store's")
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return c, bad
	}
	for _, part := range []*string{&c.Sort, &c.Key.Partition, &c.Key.Sort} {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > MaxKey || n > uint64(len(b)-used) {
			return Cursor{}, bad
		}
		*part = string(b[used : used+int(n)])
		b = b[used+int(n):]
	}
	if len(b) > 0 || c.Key.Sort == "" {
		return Cursor{}, bad
	}
	return c, nil
}
