package agp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Protocol names that an envelope may contain.
const (
	Protocol      = "openclaw/a2a/v1"
	ProtocolShort = "agp/1"
)

// Limits of an envelope, in bytes.
const (
	MaxBody    = 256 << 10
	maxFrom    = 256
	maxContext = 16 << 10
	maxTo      = 256
)

// Limits of ttl_ms; defaultTTL and maxAcceptedTTL are in milliseconds. Values above maxEffectiveTTL
// are reduced, and values above maxAcceptedTTL are refused.
const (
	defaultTTL      = 5000
	maxAcceptedTTL  = 600_000
	maxEffectiveTTL = 15 * time.Second
)

type Envelope struct {
	Protocol  string
	From, To  string
	Intent    string
	Payload   map[string]json.RawMessage
	Context   json.RawMessage // agent_context, or nil if it is empty
	TTL       time.Duration
	Timestamp string
}

// Post is the JSON of an envelope, for API descriptions. parseEnvelope also accepts from_agent
// instead of from.
type Post struct {
	Protocol  string         `json:"protocol,omitempty"`
	From      string         `json:"from"`
	To        string         `json:"to,omitempty"`
	Intent    string         `json:"intent"`
	Payload   map[string]any `json:"payload,omitempty"`
	Context   map[string]any `json:"agent_context,omitempty"`
	TTL       int64          `json:"ttl_ms,omitempty"`
	Timestamp string         `json:"timestamp,omitempty"`
}

func (e *Envelope) Agent() string {
	agent, _, _ := strings.Cut(e.From, ":")
	return agent
}

// invalidField describes an invalid member in the format of FastAPI.
type invalidField struct {
	Loc  []any  `json:"loc"`
	Msg  string `json:"msg"`
	Type string `json:"type"`
}

// validationError is an error with status 422 that lists the invalid members.
type validationError []invalidField

func (i validationError) Error() string {
	messages := make([]string, len(i))
	for n, field := range i {
		path := make([]string, 0, len(field.Loc))
		for _, l := range field.Loc[1:] {
			path = append(path, fmt.Sprint(l))
		}
		messages[n] = strings.TrimPrefix(strings.Join(path, ".")+": "+field.Msg, ": ")
	}
	return strings.Join(messages, "; ")
}

func fieldLocation(path ...string) []any {
	location := []any{"body"}
	for _, p := range path {
		location = append(location, p)
	}
	return location
}

func missingField(path ...string) invalidField {
	return invalidField{fieldLocation(path...), "expected, but missing", "missing"}
}

func invalidValue(want, kind string, path ...string) invalidField {
	return invalidField{fieldLocation(path...), "expected " + want, kind}
}

// parseObject parses a JSON object. If a member occurs twice, the last value is used.
func parseObject(raw []byte) (map[string]json.RawMessage, bool) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] != '{' || !utf8.Valid(raw) {
		return nil, false
	}
	var m map[string]json.RawMessage
	return m, json.Unmarshal(raw, &m) == nil
}

func parseEnvelope(body []byte) (e Envelope, err error) {
	members, ok := parseObject(body)
	if !ok {
		return e, validationError{invalidValue("a JSON object", "model_attributes_type")}
	}
	if raw, ok := members["jsonrpc"]; ok && len(raw) > 0 {
		return e, validationError{{fieldLocation("jsonrpc"), "this is AGP; A2A is at /v/{vacant}", "value_error"}}
	}
	e = Envelope{Protocol: Protocol, To: networkPrefix + "agnt", TTL: defaultTTL * time.Millisecond}
	var errs validationError
	fromMember := "from"
	if _, ok := members[fromMember]; !ok {
		fromMember = "from_agent"
	}
	if _, ok := members[fromMember]; !ok {
		errs = append(errs, missingField("from"))
	}
	for _, t := range []struct {
		name   string
		into   *string
		most   int
		needed bool
	}{{"protocol", &e.Protocol, 64, false}, {fromMember, &e.From, maxFrom, true}, {"to", &e.To, maxTo, true}, {"intent", &e.Intent, 128, true}, {"timestamp", &e.Timestamp, 64, false}} {
		raw, ok := members[t.name]
		if !ok {
			continue
		}
		if invalid := parseText(raw, t.into, t.most, t.needed, t.name); invalid != nil {
			errs = append(errs, *invalid)
		}
	}
	if _, ok := members["intent"]; !ok {
		errs = append(errs, missingField("intent"))
	}
	if raw, ok := members["payload"]; ok {
		if e.Payload, ok = parseObject(raw); !ok {
			errs = append(errs, invalidValue("an object", "dict_type", "payload"))
		}
	}
	if raw, ok := members["agent_context"]; ok {
		switch c, ok := parseObject(raw); {
		case !ok:
			errs = append(errs, invalidValue("an object", "dict_type", "agent_context"))
		case len(raw) > maxContext:
			errs = append(errs, invalidValue(fmt.Sprintf("at most %d bytes", maxContext), "too_long", "agent_context"))
		case len(c) > 0:
			e.Context = raw
		}
	}
	if raw, ok := members["ttl_ms"]; ok {
		n, ok := parseInteger(raw)
		if !ok || n < 1 || n > maxAcceptedTTL {
			errs = append(errs, invalidValue(fmt.Sprintf("an integer, 1 to %d", maxAcceptedTTL), "int_parsing", "ttl_ms"))
		}
		e.TTL = time.Duration(n) * time.Millisecond
	}
	if e.Timestamp != "" {
		if _, err := parseTime(e.Timestamp); err != nil {
			errs = append(errs, invalidValue("a time such as 2026-11-24T12:00:00Z, or nothing", "datetime_parsing", "timestamp"))
		}
	}
	if len(errs) > 0 {
		return e, errs
	}
	return e, nil
}

// parseText parses a string without control characters.
func parseText(raw json.RawMessage, into *string, maxBytes int, required bool, path ...string) *invalidField {
	var s string
	if json.Unmarshal(raw, &s) != nil || len(raw) == 0 || raw[0] != '"' {
		invalid := invalidValue("a string", "string_type", path...)
		return &invalid
	}
	hasControl := strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' })
	if len(s) > maxBytes || required && s == "" || hasControl {
		minBytes := 0
		if required {
			minBytes = 1
		}
		invalid := invalidValue(fmt.Sprintf("%d to %d bytes without control characters", minBytes, maxBytes), "string_too_long", path...)
		return &invalid
	}
	*into = s
	return nil
}

// parseInteger parses an integer. It also accepts a float without a fraction, for example 5.0, and
// a string of digits.
func parseInteger(raw json.RawMessage) (int64, bool) {
	s := string(raw)
	if len(s) > 1 && s[0] == '"' {
		s = strings.TrimSpace(s[1 : len(s)-1])
	}
	if len(s) > 32 {
		return 0, false
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || raw[0] == '"' || f != float64(int64(f)) {
		return 0, false
	}
	return int64(f), true
}

func parseTime(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02T15:04:05.999999999Z0700"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time", s)
}

// payloadFields parses the members of a payload and collects their errors.
type payloadFields struct {
	members map[string]json.RawMessage
	errs    validationError
}

func (f *payloadFields) has(name string) bool {
	raw, ok := f.members[name]
	return ok && !slices.Equal(raw, []byte("null"))
}

func (f *payloadFields) parseText(name string, maxBytes int) (s string) {
	if f.has(name) {
		if invalid := parseText(f.members[name], &s, maxBytes, false, "payload", name); invalid != nil {
			f.errs = append(f.errs, *invalid)
		}
	}
	return s
}

func (f *payloadFields) parseNumber(name string, defaultValue, minimum, maximum int64) int64 {
	if !f.has(name) {
		return defaultValue
	}
	n, ok := parseInteger(f.members[name])
	if !ok || n < minimum || n > maximum {
		f.addError(name, fmt.Sprintf("an integer, %d to %d", minimum, maximum), "int_parsing")
	}
	return n
}

func (f *payloadFields) addError(name, want, kind string) {
	f.errs = append(f.errs, invalidValue(want, kind, "payload", name))
}
