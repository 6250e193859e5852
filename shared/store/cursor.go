package store

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Cursor marks the last document of a page in Docs. It stays valid if that document is deleted.
type Cursor struct {
	Key       Key
	IndexSort string
}

func (c Cursor) String() string {
	var b []byte
	for _, part := range []string{c.IndexSort, c.Key.Partition, c.Key.Sort} {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func StreamCursor(s Stream) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func ParseStreamCursor(s string) (Stream, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) > MaxKey {
		return "", cursorError(s)
	}
	return Stream(b), nil
}

func cursorError(s string) error {
	return problem.Invalid("cursor", "the cursor of an earlier page", fmt.Sprintf("%.80q", s))
}

func ParseCursor(s string) (Cursor, error) {
	var c Cursor
	if s == "" {
		return c, nil
	}
	cursorErr := cursorError(s)
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return c, cursorErr
	}
	for _, part := range []*string{&c.IndexSort, &c.Key.Partition, &c.Key.Sort} {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > MaxKey || n > uint64(len(b)-used) {
			return Cursor{}, cursorErr
		}
		*part = string(b[used : used+int(n)])
		b = b[used+int(n):]
	}
	if len(b) > 0 || c.Key.Sort == "" {
		return Cursor{}, cursorErr
	}
	return c, nil
}
