package logbook

import (
	"encoding/hex"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// AppendLine appends e as a line of a logbook file without the newline. The line has sorted keys,
// Python's default separators and only ASCII characters.
func (e *Entry) AppendLine(dst []byte) []byte {
	dst = canon.AppendStringASCII(append(dst, `{"kind": `...), e.Kind)
	dst = appendSpaced(append(dst, `, "payload": `...), e.Payload)
	dst = e.Prev.AppendHex(append(dst, `, "prev_hash": "`...))
	dst = hex.AppendEncode(append(dst, `", "signature": "`...), e.Signature)
	dst = canon.AppendTime(append(dst, `", "ts": "`...), e.Time)
	return append(dst, `"}`...)
}

func appendSpaced(dst, cj []byte) []byte {
	inString := false
	for len(cj) > 0 {
		c := cj[0]
		switch {
		case c >= 0x7f: // such bytes occur only in strings
			r, n := utf8.DecodeRune(cj)
			for _, unit := range utf16.AppendRune(nil, r) {
				dst = fmt.Appendf(dst, `\u%04x`, unit)
			}
			cj = cj[n:]
			continue
		case inString && c == '\\' && len(cj) > 1:
			dst = append(dst, c, cj[1])
			cj = cj[2:]
			continue
		case c == '"':
			inString = !inString
		}
		dst = append(dst, c)
		if !inString && (c == ',' || c == ':') {
			dst = append(dst, ' ')
		}
		cj = cj[1:]
	}
	return dst
}

// ParseLine does not verify the entry. It ignores unknown keys. A time without an offset is in UTC
// (PROTOCOL §23 D6).
func ParseLine(line []byte) (Entry, error) {
	v, err := canon.Parse(line, canon.DefaultLimits())
	if err != nil {
		return Entry{}, problem.New(problem.Malformed, "log entry: %s", problem.AsError(err).Text())
	}
	if v.Kind() != canon.Object {
		return Entry{}, problem.Invalid("log entry", canon.Object.String(), v.Kind().String())
	}
	var e Entry
	for _, read := range []func(*Entry, canon.Value) error{readKind, readTime, readPayload, readPrev, readSignature} {
		if err := read(&e, v); err != nil {
			return Entry{}, err
		}
	}
	if err := e.check(); err != nil {
		return Entry{}, err
	}
	return e, nil
}

func readKind(e *Entry, v canon.Value) (err error) {
	e.Kind, err = stringAt(v, "kind")
	return err
}

func readTime(e *Entry, v canon.Value) error {
	s, err := stringAt(v, "ts")
	if err != nil {
		return err
	}
	e.Time, err = canon.ParseTime(s)
	return withField("ts", err)
}

func readPayload(e *Entry, v canon.Value) error {
	payload, err := memberAt(v, "payload", canon.Object)
	if err == nil {
		e.Payload = payload.AppendCJ(nil)
	}
	return err
}

func readPrev(e *Entry, v canon.Value) error {
	s, err := stringAt(v, "prev_hash")
	if err != nil {
		return err
	}
	e.Prev, err = identity.ParseHash(s)
	return withField("prev_hash", err)
}

func readSignature(e *Entry, v canon.Value) error {
	s, err := stringAt(v, "signature")
	if err != nil {
		return err
	}
	e.Signature, err = identity.ParseHex(s)
	return withField("signature", err)
}

func memberAt(v canon.Value, key string, want canon.Kind) (canon.Value, error) {
	got, ok := v.Get(key)
	if !ok {
		return canon.Value{}, problem.Invalid(key, want.String(), "nothing")
	}
	if got.Kind() != want {
		return canon.Value{}, problem.Invalid(key, want.String(), got.Kind().String())
	}
	return got, nil
}

func stringAt(v canon.Value, key string) (string, error) {
	s, err := memberAt(v, key, canon.String)
	return s.Text(), err
}

func withField(field string, err error) error {
	if err == nil {
		return nil
	}
	return problem.New(problem.Malformed, "%s: %s", field, problem.AsError(err).Text())
}
