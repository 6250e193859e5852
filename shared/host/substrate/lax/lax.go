// Package lax reads values of others that do not decide anything: in another form than expected
// they are as if absent.
package lax

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// Of is a value; the zero value of T if it came in another form.
type Of[T any] struct{ Value T }

// UnmarshalJSON implements json.Unmarshaler.
func (l *Of[T]) UnmarshalJSON(data []byte) error {
	var v T
	if json.Unmarshal(data, &v) == nil {
		l.Value = v
	}
	return nil
}

// maxCount bounds a Count.
const maxCount = 1 << 40

// Count is a number from 0, such as 10, 10.0 or "10".
type Count struct {
	n     int
	given bool
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Count) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(data, `"`)), 64)
	if err == nil && f >= 0 && !math.IsInf(f, 0) {
		*c = Count{int(min(f, maxCount)), true}
	}
	return nil
}

// Int is the number; 0 if it is absent.
func (c Count) Int() int { return c.n }

// IsGiven reports whether there is a number.
func (c Count) IsGiven() bool { return c.given }

// Keep sets n to the number, if there is one.
func (c Count) Keep(n *int) {
	if c.given {
		*n = c.n
	}
}
