// Package canon holds the bytes of JSON: one strict decoder with limits, the
// two canonical forms CJ and CJ-A, and timestamps as they are signed (PROTOCOL §2,
// §3).
//
// The invariants: what the decoder accepts has exactly one reading (no
// duplicate keys, no lone surrogates, no number outside float64), and the
// canonical form of what it accepts is accepted again and is its own canonical
// form.
package canon

// Limits bound a JSON document, so that a stranger's body costs at most a
// pass over its bytes.
type Limits struct {
	Bytes int // of the whole document
	Depth int // of arrays and objects inside each other
	Keys  int // of one object
}

// maxDigits is the longest number literal in bytes: what the reference can
// read (PROTOCOL §2).
const maxDigits = 4300

// DefaultLimits bound every document that a stranger sends: a request body.
func DefaultLimits() Limits { return Limits{Bytes: 256 << 10, Depth: 32, Keys: 1024} }

// AnswerLimits bound what a peer that we called sends back. A text of 300 KB
// with every byte escaped, the most a substrate may say, fits in.
func AnswerLimits() Limits { return Limits{Bytes: 2 << 20, Depth: 32, Keys: 1024} }

// Kind is the type of a JSON value. Int and Float differ: a number written
// with '.', 'e' or 'E' is a Float and stays one, since 1 and 1.0 hash
// differently (PROTOCOL §2).
type Kind uint8

// The kinds. Invalid is the kind of what is not a value.
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

// String names k with its article, for error texts.
func (k Kind) String() string {
	return [...]string{"no value", "null", "a boolean", "an integer", "a number", "a string", "an array", "an object"}[min(k, Object)]
}
