// Package sse reads server-sent events (WHATWG HTML §9.2), in which models stream
// their answers. It keeps the names and data of events; ids and comments are skipped.
// A field "error", which llama.cpp sends, is the data of an event of that name.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"iter"
)

// ErrTooLong means that an event is longer than the reader takes.
var ErrTooLong = errors.New("an event is too long")

// Event is an event with data.
type Event struct {
	Name string // "" if it has none
	Data []byte // valid until the next event
}

// Events are the events of r, with data of at most so many bytes. An event that the
// end of r cuts off is left out, and one without data.
func Events(r io.Reader, most int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		in := lines{Reader: bufio.NewReader(r)}
		var data, line []byte
		name := ""
		some := false // an event may have empty data
		for {
			var err error
			if line, err = in.next(line[:0], most); err != nil {
				if err != io.EOF {
					yield(Event{}, err)
				}
				return
			}
			switch {
			case len(line) == 0:
				if some && !yield(Event{name, data}, nil) {
					return
				}
				name, data, some = "", data[:0], false
			case bytes.HasPrefix(line, []byte("event:")):
				name = string(bytes.TrimPrefix(line[len("event:"):], []byte(" ")))
			case bytes.HasPrefix(line, []byte("data")), bytes.HasPrefix(line, []byte("error:")):
				field, value, _ := bytes.Cut(line, []byte(":"))
				switch string(field) {
				case "error":
					name = "error"
				case "data":
				default:
					continue // another field
				}
				if some {
					data = append(data, '\n')
				}
				if data, some = append(data, bytes.TrimPrefix(value, []byte(" "))...), true; len(data) > most {
					yield(Event{}, ErrTooLong)
					return
				}
			}
		}
	}
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
