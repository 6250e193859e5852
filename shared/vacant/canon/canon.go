// Package canon implements the protocol's JSON: a strict decoder with limits,
// the canonical forms CJ and CJ-A, and timestamps in their signed form
// (PROTOCOL §2, §3).
//
// Invariants: everything the decoder accepts has exactly one reading (no
// duplicate keys, no lone surrogates, no number outside float64), and its
// canonical form is accepted and is its own canonical form.
package canon

// Limits bound a JSON document, so that a foreign body costs at most one pass
// over its bytes.
type Limits struct {
	Bytes int // of the whole document
	Depth int // nesting of arrays and objects
	Keys  int // of one object
}

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
