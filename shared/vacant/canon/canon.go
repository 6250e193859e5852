// Package canon implements the protocol's JSON (PROTOCOL §2, §3): a strict decoder with limits, the
// canonical forms CJ and CJ-A (CJ in ASCII), and timestamps in their signed form.
//
// A strict decoder accepts only documents that have exactly one reading: it refuses duplicate keys,
// lone surrogates and Floats that exceed float64. If it accepts a document, it also accepts the
// canonical form, unless this form is longer than Limits.Bytes. Canonicalizing a canonical form
// does not change it. A lenient decoder (see [Limits]) gives these guarantees for the values that
// it reads, but not for the values that it skips.
package canon

import "bytes"

// Limits restrict a JSON document. They bound the cost of decoding input from other parties.
type Limits struct {
	Bytes int // maximum size of the document
	Depth int // maximum nesting of arrays and objects
	Keys  int // maximum number of keys in one object
	// Lenient is for messages from other parties: an invalid detail that is not used must not make
	// the complete message unreadable. If Lenient is true, Skip and SkipRaw check only the grammar
	// and the depth of a value. A skipped member may occur twice. A number such as 1.0 is accepted
	// as an integer. Unmarshal treats null for an optional member as absent. Signed bytes and
	// stored documents must be decoded strictly.
	Lenient bool
	// If SkipUnknown is true, Unmarshal skips unknown members, which newer programs may have written.
	SkipUnknown bool
}

// ByteOrderMark is the UTF-8 encoding of U+FEFF, which some editors and shells write at the start
// of a file.
const ByteOrderMark = "\uFEFF"

// TrimByteOrderMark returns b without a leading byte order mark. It is for local input and answers
// of agents, because decoders refuse the mark.
func TrimByteOrderMark(b []byte) []byte { return bytes.TrimPrefix(b, []byte(ByteOrderMark)) }

// maxDigits limits a number literal, in bytes without its sign. Python, the language of the
// reference implementation, has the same limit for integers.
const maxDigits = 4300

// DefaultLimits returns the limits for request bodies.
func DefaultLimits() Limits { return Limits{Bytes: 256 << 10, Depth: 32, Keys: 1024} }

// AnswerLimits returns the limits for answers of called peers. They allow a text of 300 KiB, the
// limit for answers of substrates, even if each of its bytes is escaped.
func AnswerLimits() Limits { return Limits{Bytes: 2 << 20, Depth: 32, Keys: 1024} }

// Kind is the type of a JSON value. A number written with '.', 'e' or 'E' is a Float and stays a
// Float, because 1 and 1.0 have different canonical forms and therefore different hashes
// (PROTOCOL §2).
type Kind uint8

// Invalid is the kind of input that does not begin a value.
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

// String returns the name of k with its article, for error messages.
func (k Kind) String() string {
	return [...]string{"no value", "null", "a boolean", "an integer", "a number", "a string", "an array", "an object"}[min(k, Object)]
}
