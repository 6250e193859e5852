package logbook

import (
	"bytes"
	"encoding/binary"
	"time"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// A row has these parts: format (1 byte), time in microseconds since 1970 (8 bytes, big-endian),
// prev, signature, kind and payload. A uvarint with the length precedes the signature and the kind.
const (
	rowFormat     = 1
	rowHeaderSize = 1 + 8 + identity.Size
)

func (e *Entry) MarshalBinary() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, err
	}
	if !utf8.ValidString(e.Kind) {
		return nil, problem.Invalid("kind", "UTF-8", "other bytes")
	}
	v, err := parsePayload(e.Payload, canon.DefaultLimits())
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(v.AppendCJ(nil), e.Payload) {
		return nil, problem.Invalid("payload", "canonical JSON", "another form")
	}
	b := make([]byte, 0, rowHeaderSize+2*binary.MaxVarintLen64+len(e.Signature)+len(e.Kind)+len(e.Payload))
	b = append(b, rowFormat)
	b = binary.BigEndian.AppendUint64(b, uint64(e.Time.UnixMicro()))
	b = append(b, e.Prev[:]...)
	b = append(binary.AppendUvarint(b, uint64(len(e.Signature))), e.Signature...)
	b = append(binary.AppendUvarint(b, uint64(len(e.Kind))), e.Kind...)
	return append(b, e.Payload...), nil
}

// UnmarshalBinary refuses rows that MarshalBinary would not return, so that each entry has only one
// row form. Errors have kind Damaged.
func (e *Entry) UnmarshalBinary(row []byte) error {
	if len(row) < rowHeaderSize {
		return problem.New(problem.Damaged, "log row: expected at least %d bytes, got %d", rowHeaderSize, len(row))
	}
	if row[0] != rowFormat {
		return problem.New(problem.Damaged, "log row: expected format %d, got %d", rowFormat, row[0])
	}
	var entry Entry
	entry.Time = time.UnixMicro(int64(binary.BigEndian.Uint64(row[1:]))).UTC()
	copy(entry.Prev[:], row[rowHeaderSize-identity.Size:])
	signature, rest, ok := cutPrefixed(row[rowHeaderSize:])
	if !ok {
		return problem.New(problem.Damaged, "log row: its signature is truncated")
	}
	kind, rest, ok := cutPrefixed(rest)
	if !ok {
		return problem.New(problem.Damaged, "log row: its kind is truncated")
	}
	entry.Signature, entry.Kind, entry.Payload = bytes.Clone(signature), string(kind), bytes.Clone(rest)
	reencoded, err := entry.MarshalBinary()
	if err != nil {
		return problem.New(problem.Damaged, "log row: %s", problem.AsError(err).Text())
	}
	if !bytes.Equal(reencoded, row) {
		return problem.New(problem.Damaged, "log row: a length is not written in its shortest form")
	}
	*e = entry
	return nil
}

func cutPrefixed(b []byte) (field, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size) {
		return nil, nil, false
	}
	return b[size : size+int(n)], b[size+int(n):], true
}
