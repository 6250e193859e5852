package remote

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Reason is a provider's finish reason in lower case.
type Reason string

// noReasonYet is the Reason of an answer that has not ended.
const noReasonYet Reason = "null"

func (r *Reason) UnmarshalJSON(data []byte) error {
	var s string
	if json.Unmarshal(data, &s) != nil {
		s = string(data)
	}
	*r = Reason(strings.ToLower(s))
	// Servers may send these values until the answer ends.
	if *r == "" || *r == "finish_reason_unspecified" {
		*r = noReasonYet
	}
	return nil
}

func ArgumentsText(value json.RawMessage) string {
	value = bytes.TrimSpace(value)
	// Servers send a string or a JSON value.
	var text string
	if len(value) == 0 || json.Unmarshal(value, &text) == nil { // null leaves text empty
		return text
	}
	return string(value)
}
