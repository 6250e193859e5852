// Package sse reads server-sent events (WHATWG HTML §9.2). It also accepts a field "error", which
// llama.cpp sends, and JSON objects that are separated by only one newline.
package sse

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
)

const Done = "[DONE]"

var ErrTooLong = errors.New("an event is too long")

type Event struct {
	Name string
	ID   string
	Data []byte // valid until the next event
}

// IsNoise reports whether an event in a stream of JSON messages contains no message, for example a
// heartbeat or [DONE].
func (e Event) IsNoise() bool {
	data := bytes.TrimSpace(e.Data)
	return e.Name != "error" && (len(data) == 0 || data[0] != '{' && data[0] != '[' || string(data) == Done)
}

// Events reads events from r. Each line, and the data of each event, may have at most maxBytes
// bytes.
func Events(r io.Reader, maxBytes int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		reader := lineReader{Reader: bufio.NewReader(r)}
		if bom, _ := reader.Peek(3); string(bom) == "\uFEFF" {
			_, _ = reader.Discard(3)
		}
		var data, line []byte
		var name, dataName, id string
		hasData := false
		nameAfterData := false
		isMultilineData := false
		for {
			var err error
			if line, err = reader.readLine(line[:0], maxBytes); err != nil {
				if err != io.EOF {
					yield(Event{}, err)
				}
				return
			}
			if len(line) == 0 {
				if hasData && !yield(Event{name, id, data}, nil) {
					return
				}
				id = ""
				name, data, hasData, nameAfterData, isMultilineData = "", data[:0], false, false, false
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch {
			case string(field) == "event":
				name, nameAfterData = string(value), hasData
				continue
			case string(field) == "id":
				id = string(value)
				continue
			case string(field) == "error" && len(line) > len(field):
				name, nameAfterData = "error", hasData
			case string(field) != "data":
				continue
			}
			if hasData && !isMultilineData {
				if isMultilineData = !startsNewEvent(data, value); !isMultilineData {
					if !yield(Event{dataName, id, data}, nil) {
						return
					}
					if !nameAfterData {
						name = ""
					}
					data, hasData, nameAfterData = data[:0], false, false
				}
			}
			if hasData {
				data = append(data, '\n')
			} else {
				dataName, hasData = name, true
			}
			if data = append(data, value...); len(data) > maxBytes {
				yield(Event{}, ErrTooLong)
				return
			}
		}
	}
}

func startsNewEvent(data, line []byte) bool {
	// If data is a complete object, another object cannot belong to the same JSON text.
	return len(line) > 0 && (line[0] == '{' || string(line) == Done) && bytes.HasPrefix(data, []byte("{")) && json.Valid(data)
}

type lineReader struct {
	*bufio.Reader
	lastWasCR bool // the LF of a CRLF may arrive much later
}

func (l *lineReader) readLine(line []byte, maxBytes int) ([]byte, error) {
	for {
		c, err := l.ReadByte()
		if err != nil {
			return line, err
		}
		afterCR := l.lastWasCR
		l.lastWasCR = c == '\r'
		switch {
		case c == '\n' && afterCR:
		case c == '\n', c == '\r':
			return line, nil
		case len(line) >= maxBytes:
			return line, ErrTooLong
		default:
			line = append(line, c)
		}
	}
}
