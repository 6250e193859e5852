// Package canon implements the protocol's JSON: a strict decoder with limits,
// the canonical forms CJ and CJ-A, and timestamps in their signed form
// (PROTOCOL §2, §3).
//
// Invariants: everything the decoder accepts has exactly one reading (no
// duplicate keys, no lone surrogates, no number outside float64), and its
// canonical form is accepted and is its own canonical form. A lenient decoder keeps the
// invariant for what it reads, but not for what it skips (Limits.Lenient).
package canon

import "bytes"

// Limits bound a JSON document, so that a foreign body costs at most one pass
// over its bytes.
type Limits struct {
	Bytes int // of the whole document
	Depth int // nesting of arrays and objects
	Keys  int // of one object
	// Lenient decoders read what others send, where a detail that decides nothing must not cost
	// the rest: Skip and Span check only the grammar of JSON, a skipped member may come twice, a
	// number such as 1.0 is an integer, and Unmarshal takes null for an optional member as
	// absent. Signed bytes and what is stored are decoded by strict decoders.
	Lenient bool
	// If Open is true, Unmarshal skips unknown members, which newer programs may have written.
	Open bool
}

// ByteOrderMark is the mark that editors and shells put before a text.
const ByteOrderMark = "\uFEFF"

// TrimMark returns b without a byte order mark. It is for local input and the answers of
// agents; decoders refuse the mark.
func TrimMark(b []byte) []byte { return bytes.TrimPrefix(b, []byte(ByteOrderMark)) }

// maxDigits is the longest number literal in bytes, the reference's limit
// (PROTOCOL §2).
const maxDigits = 4300

// DefaultLimits bound request bodies.
func DefaultLimits() Limits { return Limits{Bytes: 256 << 10, Depth: 32, Keys: 1024} }

// AnswerLimits bound the answers of called peers. They fit a text of 300 KB,
// the most a substrate may return, with every byte escaped.
func AnswerLimits() Limits { return Limits{Bytes: 2 << 20, Depth: 32, Keys: 1024} }

// Kind is the type of a JSON value. A number written with '.', 'e' or 'E' is a
// Float and stays one, because 1 and 1.0 hash differently (PROTOCOL §2).
type Kind uint8

// The kinds. Invalid means no value.
const (
	Invalid Kind = iota
	Null
	Bool
	Int
	Float
	String
	Array
	Object
)

// String is the name of k with its article, for error texts.
func (k Kind) String() string {
	return [...]string{"no value", "null", "a boolean", "an integer", "a number", "a string", "an array", "an object"}[min(k, Object)]
}
