package sse_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/network/sse"
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
		"":                                   nil,
		"data: a\n\n":                        {"a"},
		"data:a\n\ndata:  b\n\n":             {"a", " b"},
		"data: a\r\n\r\ndata: b\r\rrest":     {"a", "b"},
		"event: x\nid: 1\ndata: a\n\n":       {"a"},
		": comment\n\ndata: a\n\n":           {"a"},
		"data: one\ndata: two\n\n":           {"one\ntwo"},
		"data\n\ndata: \n\n":                 {"", ""},
		"database: no\n\nretry: 5\n\n":       nil,
		"error: {}\n\ndata: a\n\n":           {"{} (error)", "a"},
		"event: error\ndata: b\n\n":          {"b (error)"},
		"error\n\nerrors: c\n\n":             nil,
		"data: whole\n\ndata: cut off\n":     {"whole"},
		"data: whole\n\ndata: cut off":       {"whole"},
		"\n\n\ndata: after blank lines\n\n":  {"after blank lines"},
		"\uFEFFdata: a\n\n\uFEFFdata: b\n\n": {"a"},
		"\n":                                 nil,

		"data: {\"a\":1}\ndata: {\"b\":2}\ndata: [DONE]\n\n":               {`{"a":1}`, `{"b":2}`, "[DONE]"},
		"event: error\ndata: {\"a\":1}\nevent: x\ndata: {\"b\":2}\n\n":     {`{"a":1} (error)`, `{"b":2}`},
		"event: error\ndata: {\"a\":1}\ndata: {\"b\":2}\n\n":               {`{"a":1} (error)`, `{"b":2}`},
		"event: x\ndata: {\"a\":1}\nevent: error\ndata: {\"b\":2}\n\n":     {`{"a":1}`, `{"b":2} (error)`},
		"event: error\ndata: {\"a\":1}\nevent: error\ndata: {\"b\":2}\n\n": {`{"a":1} (error)`, `{"b":2} (error)`},
		"data: {\"a\":1}\nerror: {\"b\":2}\n\ndata: c\n\n":                 {`{"a":1}`, `{"b":2} (error)`, "c"},
		"data: {\"a\":1}\nevent: error\n\n":                                {`{"a":1} (error)`},
		"data: {\ndata: \"a\":{}\ndata: }\n\n":                             {"{\n\"a\":{}\n}"},
		"data: [{\"a\":1},\ndata: {\"b\":2}]\n\n":                          {"[{\"a\":1},\n{\"b\":2}]"},
		"data: {\"a\":[{}\ndata: {}\ndata: {}\n\ndata: {}\ndata: {}\n\n":   {"{\"a\":[{}\n{}\n{}", "{}", "{}"},
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

func TestNoiseHasNoMessage(t *testing.T) {
	for _, tt := range []struct {
		name, data string
		want       bool
	}{
		{"", "", true}, {"", "  ", true}, {"", "null", true}, {"", "ping", true}, {"ping", "2026-01-02", true}, {"close", "bye", true}, {"message", "7", true}, {"", `"x"`, true},
		{"", "[DONE]", true}, {"", "{}", false}, {"", ` {"a":1}`, false}, {"ping", "{", false}, {"", "[", false}, {"error", "no JSON", false}, {"error", "", false},
	} {
		if got := (sse.Event{Name: tt.name, Data: []byte(tt.data)}).IsNoise(); got != tt.want {
			t.Errorf("%q %q: %t, want %t", tt.name, tt.data, got, tt.want)
		}
	}
}

// The lines of one event are looked at once, whatever their number.
func TestManyLinesOfOneEvent(t *testing.T) {
	in := `data: {"a":[` + strings.Repeat("0,", 1<<19) + "{}\n" + strings.Repeat("data: {}\n", 1<<17) + "\n"
	if got, err := read(strings.NewReader(in), 16<<20); len(got) != 1 || err != nil {
		t.Errorf("%d events, %v", len(got), err)
	}
}

func FuzzData(f *testing.F) {
	f.Add([]byte("data: a\r\ndata: b\n\n: c\n\n"))
	f.Add([]byte("\uFEFFevent: error\ndata: {}\ndata: {\"a\":{}}\nevent: x\ndata: [DONE]\n\n"))
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
