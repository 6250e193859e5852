// Package sse reads the server-sent events (WHATWG HTML §9.2) that models, agents and MCP servers
// send. It returns the name, the id and the data of each event, and skips comments and a byte order
// mark.
//
// The reader accepts two deviations from the standard. A field "error", which llama.cpp sends, is
// the data of an event named "error". If a server separates events with one newline instead of two,
// the events are recognized if the data of each is a JSON object.
package sse

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
)

// Done is the data of the last event of many streams.
const Done = "[DONE]"

// ErrTooLong is returned if an event or a line is longer than the reader's limit.
var ErrTooLong = errors.New("an event is too long")

// Event is an event with data.
type Event struct {
	Name string // empty if the event has no name
	ID   string // empty if the event has no id
	Data []byte // valid until the next event
}

// IsNoise reports whether an event in a stream of JSON messages contains no message, for example a
// heartbeat, a farewell or a mark such as null or [Done]. Data that starts with "{" or "[" is not
// noise, because it may be part of an answer. An error is not noise either.
func (e Event) IsNoise() bool {
	data := bytes.TrimSpace(e.Data)
	return e.Name != "error" && (len(data) == 0 || data[0] != '{' && data[0] != '[' || string(data) == Done)
}

// Events returns the events that are read from r. It limits each line and the data of each event to
// maxBytes bytes. It skips an event without a data field, and a last event without its blank line.
func Events(r io.Reader, maxBytes int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		reader := lineReader{Reader: bufio.NewReader(r)}
		if bom, _ := reader.Peek(3); string(bom) == "\uFEFF" {
			_, _ = reader.Discard(3)
		}
		var data, line []byte
		var name, dataName, id string // dataName is the name at the start of the data
		hasData := false              // whether a data field was read, because its value may be empty
		nameAfterData := false        // whether the name was read after data
		isOneEvent := false           // whether the lines of data form one event
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
				name, data, hasData, nameAfterData, isOneEvent = "", data[:0], false, false, false
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
			if hasData && !isOneEvent {
				if isOneEvent = !startsNewEvent(data, value); !isOneEvent {
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

// lineReader reads lines that end with LF, CRLF or CR.
type lineReader struct {
	*bufio.Reader
	lastWasCR bool // whether the last line ended with CR, because its LF may arrive much later
}

func (l *lineReader) readLine(line []byte, maxBytes int) ([]byte, error) {
	for {
		// At the end of the input, the error is io.EOF, even if the last line has no line end.
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
