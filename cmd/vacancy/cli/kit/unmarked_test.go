package kit

import (
	"bufio"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestStandardInputLosesAByteOrderMark(t *testing.T) {
	for in, want := range map[string]string{"\uFEFFa": "a", "\uFEFF\uFEFF": "\uFEFF", "a\uFEFF": "a\uFEFF", "": "", "\xef": "\xef", "\xef\xbbx": "\xef\xbbx", "\uFEFF": ""} {
		for _, r := range []io.Reader{strings.NewReader(in), iotest.OneByteReader(strings.NewReader(in)), iotest.DataErrReader(strings.NewReader(in))} {
			if got, err := io.ReadAll(bufio.NewReader(&bomReader{Reader: r})); string(got) != want || err != nil {
				t.Errorf("%q: %q, %v, want %q", in, got, err, want)
			}
		}
	}
	// A person's answer is not waited for longer than its line.
	r, w := io.Pipe()
	go func() { _, _ = io.WriteString(w, "y\n") }()
	if got, err := bufio.NewReader(&bomReader{Reader: r}).ReadString('\n'); got != "y\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
