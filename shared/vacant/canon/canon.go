// Package canon implements the protocol's JSON (PROTOCOL §2, §3): a strict decoder with limits, the
// canonical forms CJ and CJ-A (CJ in ASCII), and timestamps in their signed form.
//
// A strict decoder accepts only documents that have exactly one reading. It refuses duplicate keys,
// lone surrogates and floats that exceed float64. If it accepts a document, it also accepts the
// canonical form, unless this form is longer than Limits.Bytes. Canonicalizing a canonical form
// does not change it. A lenient decoder does not check the values that it skips.
package canon

import "bytes"

// Limits bound the cost of decoding a document.
type Limits struct {
	Bytes int
	Depth int // maximum nesting
	Keys  int // in one object
	// Lenient is for messages of other parties, in which unused values may be invalid. Skipped
	// values are checked only for grammar and depth, and 1.0 is accepted as an integer. Unmarshal
	// treats null for an optional member as absent. Signed bytes and stored documents must be
	// decoded strictly.
	Lenient bool
	// SkipUnknown is for documents that newer programs may have written.
	SkipUnknown bool
}

// ByteOrderMark is a character that some editors write at the start of a file.
const ByteOrderMark = "\uFEFF"

// TrimByteOrderMark is for local input, because decoders refuse the mark.
func TrimByteOrderMark(b []byte) []byte { return bytes.TrimPrefix(b, []byte(ByteOrderMark)) }

// maxDigits limits a number literal without its sign, like Python's limit for integers.
const maxDigits = 4300

func DefaultLimits() Limits { return Limits{Bytes: 256 << 10, Depth: 32, Keys: 1024} }

// AnswerLimits returns the limits for answers of called peers.
func AnswerLimits() Limits { return Limits{Bytes: 2 << 20, Depth: 32, Keys: 1024} }

// Kind is the type of a JSON value. A number written with '.', 'e' or 'E' is a Float and stays a
// Float, because 1 and 1.0 have different hashes (PROTOCOL §2).
type Kind uint8

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

// String returns k with its article, for error messages.
func (k Kind) String() string {
	return [...]string{"no value", "null", "a boolean", "an integer", "a number", "a string", "an array", "an object"}[min(k, Object)]
}
