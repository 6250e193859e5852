package remote

import (
	"bytes"
	"encoding/json"
	"strings"
)

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
