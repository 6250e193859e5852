// Package lax decodes optional JSON values of other systems. A value of an unexpected type is
// treated as absent.
package lax

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

type Value[T any] struct{ Value T }

func (l *Value[T]) UnmarshalJSON(data []byte) error {
	var v T
	if json.Unmarshal(data, &v) == nil {
		l.Value = v
	}
	return nil
}

const maxCount = 1 << 40

// Count is an optional nonnegative number. Its JSON form is a number or a string.
type Count struct {
	value   int
	present bool
}

func (c *Count) UnmarshalJSON(data []byte) error {
	f, err := strconv.ParseFloat(string(bytes.Trim(data, `"`)), 64)
	if err == nil && f >= 0 && !math.IsInf(f, 0) {
		*c = Count{int(min(f, maxCount)), true}
	}
	return nil
}

func (c Count) Int() int { return c.value }

func (c Count) IsGiven() bool { return c.present }

func (c Count) Assign(target *int) {
	if c.present {
		*target = c.value
	}
}
