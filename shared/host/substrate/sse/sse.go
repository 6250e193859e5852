// Package sse reads server-sent events (WHATWG HTML §9.2), in which models stream
// their answers. It keeps the data of events; names, ids and comments are skipped.
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

// Data is the data of each event of r, of at most so many bytes. It is valid until
// the next. An event that the end of r cuts off is left out.
func Data(r io.Reader, most int) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		in := lines{Reader: bufio.NewReader(r)}
		var data, line []byte
		some := false // an event may have empty data
		for {
			var err error
			if line, err = in.next(line[:0], most); err != nil {
				if err != io.EOF {
					yield(nil, err)
				}
				return
			}
			switch {
			case len(line) == 0:
				if some && !yield(data, nil) {
					return
				}
				data, some = data[:0], false
			case bytes.HasPrefix(line, []byte("data")):
				value, ok := bytes.CutPrefix(line[len("data"):], []byte(":"))
				if !ok && len(line) > len("data") {
					continue // another field
				}
				if some {
					data = append(data, '\n')
				}
				if data, some = append(data, bytes.TrimPrefix(value, []byte(" "))...), true; len(data) > most {
					yield(nil, ErrTooLong)
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
