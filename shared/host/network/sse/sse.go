// Package sse reads the server-sent events (WHATWG HTML §9.2) of models, agents and MCP
// servers. It returns the names, ids and data of events; it skips comments and a byte order mark.
// A field "error", which llama.cpp sends, is the data of an event of that name. Servers that
// write one newline between events are understood if the data of each event is a JSON object.
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

// ErrTooLong means that an event is longer than the reader takes.
var ErrTooLong = errors.New("an event is too long")

// Event is an event with data.
type Event struct {
	Name string // "" if it has none
	ID   string // likewise
	Data []byte // valid until the next event
}

// IsNoise reports whether an event of a stream of JSON messages has no message: a heartbeat, a
// farewell, or a mark such as null or Done. Data that begins as an object or a list is not noise,
// because it may be a piece of an answer; nor is an error.
func (e Event) IsNoise() bool {
	data := bytes.TrimSpace(e.Data)
	return e.Name != "error" && (len(data) == 0 || data[0] != '{' && data[0] != '[' || string(data) == Done)
}

// Events returns the events of r, with at most so many bytes of data each. An event that
// the end of r cuts off is left out, as is one without data.
func Events(r io.Reader, most int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		in := lines{Reader: bufio.NewReader(r)}
		if mark, _ := in.Peek(3); string(mark) == "\uFEFF" {
			_, _ = in.Discard(3)
		}
		var data, line []byte
		var name, began, id string // began is the name when the data began
		some := false              // an event may have empty data
		renamed := false           // the name came after data
		joined := false            // the lines of the data belong together
		for {
			var err error
			if line, err = in.next(line[:0], most); err != nil {
				if err != io.EOF {
					yield(Event{}, err)
				}
				return
			}
			if len(line) == 0 {
				if some && !yield(Event{name, id, data}, nil) {
					return
				}
				id = ""
				name, data, some, renamed, joined = "", data[:0], false, false, false
				continue
			}
			field, value, _ := bytes.Cut(line, []byte(":"))
			value = bytes.TrimPrefix(value, []byte(" "))
			switch {
			case string(field) == "event":
				name, renamed = string(value), some
				continue
			case string(field) == "id":
				id = string(value)
				continue
			case string(field) == "error" && len(line) > len(field):
				name, renamed = "error", some
			case string(field) != "data":
				continue
			}
			if some && !joined {
				if joined = !beginsAnother(data, value); !joined {
					if !yield(Event{began, id, data}, nil) {
						return
					}
					if !renamed {
						name = ""
					}
					data, some, renamed = data[:0], false, false
				}
			}
			if some {
				data = append(data, '\n')
			} else {
				began, some = name, true
			}
			if data = append(data, value...); len(data) > most {
				yield(Event{}, ErrTooLong)
				return
			}
		}
	}
}

// beginsAnother reports whether a line of data that follows others begins another event: two
// objects in a row are not JSON.
func beginsAnother(data, line []byte) bool {
	return len(line) > 0 && (line[0] == '{' || string(line) == Done) && bytes.HasPrefix(data, []byte("{")) && json.Valid(data)
}

// lines reads lines that end with LF, CRLF or CR.
type lines struct {
	*bufio.Reader
	cr bool // the last line ended with CR: a LF that follows belongs to it, but may be long in coming
}

// next appends the next line without its end. The error is io.EOF at the end, also
// of a line without an end.
func (l *lines) next(line []byte, most int) ([]byte, error) {
	for {
		c, err := l.ReadByte()
		if err != nil {
			return line, err
		}
		after := l.cr
		l.cr = c == '\r'
		switch {
		case c == '\n' && after:
		case c == '\n', c == '\r':
			return line, nil
		case len(line) >= most:
			return line, ErrTooLong
		default:
			line = append(line, c)
		}
	}
}
