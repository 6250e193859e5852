package remote

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Reason is a provider's word for why an answer ends, in lower case. It is "" if a server sends
// no member for it.
type Reason string

// none is the Reason of an answer that has not ended, from a server that sends reasons.
const none Reason = "null"

// UnmarshalJSON implements json.Unmarshaler. A value that is not a string is an unknown
// word.
func (r *Reason) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) != nil {
		s = string(data)
	}
	*r = Reason(strings.ToLower(s))
	if *r == "" || *r == "finish_reason_unspecified" { // servers may say so until the answer ends
		*r = none
	}
	return nil
}

// Arguments returns the arguments of a call that came as a text or as a JSON
// value.
func Arguments(value json.RawMessage) string {
	value = bytes.TrimSpace(value)
	var text string
	if len(value) == 0 || json.Unmarshal(value, &text) == nil { // null is not a text either
		return text
	}
	return string(value)
}
