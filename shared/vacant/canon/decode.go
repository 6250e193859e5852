package canon

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Decoder decodes one JSON document in one pass. A read method fails without advancing if the next
// value has another kind. The callbacks of Document, Object and Array must read the value that they
// are called for.
//
// Errors have kind problem.NotJSON if the input is not JSON, problem.TooLarge if it exceeds
// Limits.Bytes, and otherwise problem.Malformed.
type Decoder struct {
	src    []byte
	text   string // copy of src; returned strings alias it
	pos    int
	limits Limits
	depth  int
	keys   []string // keys of the open objects, outermost first
	err    error    // error of the complete document

	skipDepth int // above zero while a lenient Skip reads a value
	skipEnd   int // end of the last value that a lenient Skip read
	keyBuffer [24]string
}

// NewDecoder returns a decoder of data. The caller must not change data while it uses the decoder
// or results of Raw and SkipRaw.
func NewDecoder(data []byte, l Limits) *Decoder {
	d := new(Decoder)
	d.Reset(data, l)
	return d
}

func (d *Decoder) Reset(data []byte, l Limits) {
	*d = Decoder{limits: l}
	d.keys = d.keyBuffer[:0]
	switch {
	case len(data) > l.Bytes:
		d.err = &problem.Error{Kind: problem.TooLarge, Field: "body",
			Want: fmt.Sprintf("at most %d bytes", l.Bytes), Got: strconv.Itoa(len(data))}
	case !utf8.Valid(data):
		// Other readers decode overlong forms and encoded surrogates differently (PROTOCOL §6.2).
		d.err = unparsableError("it is not UTF-8")
	case len(data) >= 3 && data[0] == 0xef && data[1] == 0xbb && data[2] == 0xbf:
		d.err = unparsableError("it begins with a byte order mark")
	case len(data) >= 2 && (data[0] == 0 || data[1] == 0):
		d.err = unparsableError("it is UTF-16 or UTF-32")
	default:
		// Strings alias one copy, which is cheaper than an allocation per string.
		d.src, d.text = data, string(data)
	}
}

// unparsableError begins with words that PROTOCOL §6.2 fixes.
func unparsableError(reason string) error {
	return problem.New(problem.Malformed, "There was an error parsing the body: %s", reason)
}

func (d *Decoder) peek() byte {
	for ; d.pos < len(d.text); d.pos++ {
		switch c := d.text[d.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

func (d *Decoder) Kind() Kind {
	switch c := d.peek(); c {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return numberKind(d.text[d.pos:])
	}
	return Invalid
}

func numberKind(s string) Kind {
	if strings.HasPrefix(s, "-I") { // -Infinity
		return Invalid
	}
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c >= '0' && c <= '9':
		case c == '.', c == 'e', c == 'E':
			return Float
		default:
			return Int
		}
	}
	return Int
}

// Document decodes the complete document as one object.
func (d *Decoder) Document(f func(key string) error) error {
	if k := d.Kind(); k != Object {
		if k == Invalid {
			return d.noValueError()
		}
		return problem.New(problem.NotJSON, "body: expected one JSON object, got %s", k)
	}
	if err := d.Object(f); err != nil {
		return err
	}
	return d.End()
}

// Object calls f for each member in order. It detects duplicate keys only at the end of the object.
func (d *Decoder) Object(f func(key string) error) error {
	if d.Kind() != Object {
		return d.MismatchError(Object.String())
	}
	if err := d.openContainer(); err != nil {
		return err
	}
	firstKey := len(d.keys)
	for more := d.peek() != '}'; more; {
		key, err := d.readKey()
		if err != nil {
			return err
		}
		if len(d.keys)-firstKey == d.limits.Keys {
			return problem.Invalid(d.memberNameAt(firstKey), fmt.Sprintf("at most %d keys", d.limits.Keys), "more")
		}
		d.keys = append(d.keys, key)
		if err := f(key); err != nil {
			return err
		}
		if d.skipDepth > 0 || d.skipEnd == d.pos {
			d.keys = d.keys[:len(d.keys)-1] // a key whose value was skipped may occur again
		}
		if more, err = d.readComma('}'); err != nil {
			return err
		}
	}
	if key, found := findDuplicate(d.keys[firstKey:]); found {
		// Readers differ in which of the two values they use (PROTOCOL §23 D4).
		return problem.Invalid(quoteName(key), wantKeyOnce, "it twice")
	}
	d.keys = d.keys[:firstKey]
	d.closeContainer()
	return nil
}

const wantKeyOnce = "the key once"

func findDuplicate(keys []string) (string, bool) {
	const maxPairwise = 16
	if len(keys) > maxPairwise {
		// Comparing all pairs would take quadratic time for an attacker's input. The order may
		// change, because Object drops the keys next.
		slices.Sort(keys)
		for i := 1; i < len(keys); i++ {
			if keys[i] == keys[i-1] {
				return keys[i], true
			}
		}
		return "", false
	}
	for i, k := range keys {
		for _, other := range keys[:i] {
			if k == other {
				return k, true
			}
		}
	}
	return "", false
}

func (d *Decoder) Array(f func(i int) error) error {
	if d.Kind() != Array {
		return d.MismatchError(Array.String())
	}
	if err := d.openContainer(); err != nil {
		return err
	}
	var err error
	for i, more := 0, d.peek() != ']'; more; i++ {
		if err := f(i); err != nil {
			return err
		}
		if more, err = d.readComma(']'); err != nil {
			return err
		}
	}
	d.closeContainer()
	return nil
}

func (d *Decoder) openContainer() error {
	if d.depth == d.limits.Depth {
		return unparsableError(fmt.Sprintf("%s: expected nesting of at most %d, got more", d.memberName(), d.limits.Depth))
	}
	d.depth++
	d.pos++
	return nil
}

func (d *Decoder) closeContainer() {
	d.depth--
	d.pos++
}

func (d *Decoder) readComma(end byte) (bool, error) {
	switch d.peek() {
	case ',':
		d.pos++
		return true, nil
	case end:
		return false, nil
	}
	return false, d.syntaxError("a comma or " + strconv.QuoteRune(rune(end)))
}

func (d *Decoder) readKey() (string, error) {
	if d.peek() != '"' {
		return "", d.syntaxError("a key in quotes")
	}
	key, err := d.readString()
	if err != nil {
		return "", err
	}
	if d.peek() != ':' {
		return "", d.syntaxError("a colon")
	}
	d.pos++
	return key, nil
}

func (d *Decoder) String() (string, error) {
	if d.Kind() != String {
		return "", d.MismatchError(String.String())
	}
	return d.readString()
}

func (d *Decoder) canBeInteger() bool {
	k := d.Kind()
	return k == Int || k == Float && d.limits.Lenient
}

// Int64 reads an Int. A lenient decoder also accepts a Float that is an integer of magnitude below
// 2^53.
func (d *Decoder) Int64() (int64, error) {
	if !d.canBeInteger() {
		return 0, d.MismatchError(Int.String())
	}
	isFloat := d.Kind() == Float
	lit, err := d.readNumber()
	if err != nil {
		return 0, err
	}
	if isFloat {
		const exactLimit = 1 << 53 // float64 represents smaller integers exactly
		if f, err := strconv.ParseFloat(lit, 64); err == nil && f == math.Trunc(f) && math.Abs(f) < exactLimit {
			return int64(f), nil
		}
		d.pos -= len(lit)
		return 0, d.MismatchError(Int.String())
	}
	n, err := strconv.ParseInt(lit, 10, 64)
	if err != nil {
		d.pos -= len(lit)
		return 0, d.MismatchError("an integer of at most 64 bits")
	}
	return n, nil
}

func (d *Decoder) Float64() (float64, error) {
	k := d.Kind()
	if k != Int && k != Float {
		return 0, d.MismatchError(Float.String())
	}
	lit, err := d.readNumber()
	if err != nil {
		return 0, err
	}
	f, err := strconv.ParseFloat(lit, 64)
	if err != nil {
		d.pos -= len(lit)
		return 0, d.MismatchError("a number that a float64 holds")
	}
	if k == Int && f == 0 {
		return 0, nil // -0 is the integer 0
	}
	return f, nil
}

func (d *Decoder) Bool() (bool, error) {
	if d.Kind() != Bool {
		return false, d.MismatchError(Bool.String())
	}
	if d.text[d.pos] == 't' {
		return true, d.readLiteral("true")
	}
	return false, d.readLiteral("false")
}

func (d *Decoder) Null() error {
	if d.Kind() != Null {
		return d.MismatchError(Null.String())
	}
	return d.readLiteral("null")
}

// Skip reads and checks the next value. A lenient decoder checks only its grammar and depth.
func (d *Decoder) Skip() error {
	if !d.limits.Lenient {
		return d.skipValue()
	}
	d.skipDepth++
	err := d.skipValue()
	d.skipDepth--
	d.skipEnd = d.pos
	return err
}

func (d *Decoder) skipValue() (err error) {
	switch d.Kind() {
	case Object:
		return d.Object(func(string) error { return d.skipValue() })
	case Array:
		return d.Array(func(int) error { return d.skipValue() })
	case String:
		_, err = d.readString()
	case Int, Float:
		_, err = d.readNumber()
	case Bool:
		_, err = d.Bool()
	case Null:
		err = d.Null()
	default:
		err = d.noValueError()
	}
	return err
}

// Raw reads the next value strictly and returns its bytes, which alias the document.
func (d *Decoder) Raw() ([]byte, error) { return d.readRaw(d.skipValue) }

// SkipRaw works like Raw, but a lenient decoder checks only the grammar and the depth of the value.
func (d *Decoder) SkipRaw() ([]byte, error) {
	raw, err := d.readRaw(d.Skip)
	d.skipEnd = 0 // unlike a skipped member, this member must not occur twice
	return raw, err
}

func (d *Decoder) readRaw(read func() error) ([]byte, error) {
	d.peek()
	start := d.pos
	if err := read(); err != nil {
		return nil, err
	}
	return d.src[start:d.pos:d.pos], nil
}

func (d *Decoder) End() error {
	if d.err != nil {
		return d.err
	}
	if d.peek(); d.pos < len(d.text) {
		return d.syntaxError("the end")
	}
	return nil
}

func (d *Decoder) readLiteral(w string) error {
	if !strings.HasPrefix(d.text[d.pos:], w) {
		return d.syntaxError(w)
	}
	d.pos += len(w)
	return nil
}
