package remote

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Lax is a member that does not decide an answer: a value of another type is as if it were
// absent.
type Lax[T any] struct{ Value T }

// UnmarshalJSON implements json.Unmarshaler.
func (l *Lax[T]) UnmarshalJSON(data []byte) error {
	var v T
	if json.Unmarshal(data, &v) == nil {
		l.Value = v
	}
	return nil
}

// maxCount bounds a Count.
const maxCount = 1 << 40

// Count is a number beside an answer, such as 10, 10.0 or "10". Another value is as if it
// were absent.
type Count struct {
	n     int
	given bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Count) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(data, `"`)), 64)
	if err == nil && !math.IsNaN(f) {
		*c = Count{int(min(max(f, -1), maxCount)), true}
	}
	return nil
}

// Int is the number; 0 if it is absent or below 0.
func (c Count) Int() int { return max(c.n, 0) }

// IsGiven reports whether there is a number.
func (c Count) IsGiven() bool { return c.given }

// Keep sets n to the number, if there is one.
func (c Count) Keep(n *int) {
	if c.given {
		*n = c.Int()
	}
}

// Reason is why an answer ends, in a provider's word in lower case; "" if the provider does
// not say.
type Reason string

// UnmarshalJSON implements json.Unmarshaler. A value that is no string is an unknown word.
func (r *Reason) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) != nil {
		s = string(data)
	}
	*r = Reason(strings.ToLower(s))
	if *r == "null" || *r == "finish_reason_unspecified" { // servers may say so until the answer ends
		*r = ""
	}
	return nil
}

// Arguments are those of a call: as a text, or as a JSON value.
func Arguments(value json.RawMessage) string {
	value = bytes.TrimSpace(value)
	var text string
	if len(value) == 0 || json.Unmarshal(value, &text) == nil { // null is no text either
		return text
	}
	return string(value)
}
