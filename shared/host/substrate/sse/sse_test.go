package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/substrate/sse"
)

func read(r io.Reader, most int) (all []string, failure error) {
	for e, err := range sse.Events(r, most) {
		if err != nil {
			return all, err
		}
		all = append(all, string(e.Data))
		if e.Name == "error" {
			all[len(all)-1] += " (error)"
		}
	}
	return all, nil
}

func TestEventsAreRead(t *testing.T) {
	for in, want := range map[string][]string{
		"":                                  nil,
		"data: a\n\n":                       {"a"},
		"data:a\n\ndata:  b\n\n":            {"a", " b"},
		"data: a\r\n\r\ndata: b\r\rrest":    {"a", "b"},
		"event: x\nid: 1\ndata: a\n\n":      {"a"},
		": comment\n\ndata: a\n\n":          {"a"},
		"data: one\ndata: two\n\n":          {"one\ntwo"},
		"data\n\ndata: \n\n":                {"", ""},
		"database: no\n\nretry: 5\n\n":      nil,
		"error: {}\n\ndata: a\n\n":          {"{} (error)", "a"},
		"event: error\ndata: b\n\n":         {"b (error)"},
		"error\n\nerrors: c\n\n":            nil,
		"data: whole\n\ndata: cut off\n":    {"whole"},
		"data: whole\n\ndata: cut off":      {"whole"},
		"\n\n\ndata: after blank lines\n\n": {"after blank lines"},
	} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in))} {
			got, err := read(r, 100)
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%q: %v (-want +got):\n%s", in, err, diff)
			}
		}
	}
	broken := errors.New("broken")
	if got, err := read(io.MultiReader(strings.NewReader("data: a\n\ndata: b\n"), iotest.ErrReader(broken)), 100); !errors.Is(err, broken) || len(got) != 1 {
		t.Errorf("of a broken reader: %q, %v", got, err)
	}
	for _, in := range []string{"data: " + strings.Repeat("x", 100), strings.Repeat("data: 12345678901\n", 10), strings.Repeat("x", 101)} {
		if _, err := read(strings.NewReader(in+"\n\n"), 100); !errors.Is(err, sse.ErrTooLong) {
			t.Errorf("%d bytes: %v, want ErrTooLong", len(in), err)
		}
	}
}

func FuzzData(f *testing.F) {
	f.Add([]byte("data: a\r\ndata: b\n\n: c\n\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		const most = 64
		got, err := read(bytes.NewReader(in), most)
		again, againErr := read(iotest.HalfReader(bytes.NewReader(in)), most)
		if diff := cmp.Diff(got, again); diff != "" || (err == nil) != (againErr == nil) {
			t.Errorf("read in other pieces: %v, %v (-want +got):\n%s", err, againErr, diff)
		}
		for _, data := range got {
			if len(data) > most || strings.ContainsRune(data, '\r') {
				t.Errorf("data %q", data)
			}
		}
	})
}
