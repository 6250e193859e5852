// Package await lets tests wait for other goroutines, processes and services.
//
// A wait ends with the expected event. Its limit only prevents a test from hanging.
package await

import (
	"bufio"
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Limit is twice the time in which one busy core completes a deployment, the slowest event. It must
// be shorter than the silence after which tests/runner ends all tests, because the runner cannot
// report what a test waited for.
const Limit = 8 * time.Minute

const (
	firstPause = time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// Until calls done until it returns true. It fails the test after Limit.
func Until(t testing.TB, event string, done func() bool) {
	t.Helper()
	pause := firstPause
	for deadline := time.Now().Add(Limit); !done(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s in vain: %s", Limit, event)
		}
		pause = min(2*pause, maxPause)
	}
}

// Receive returns the next value of a channel, or the zero value if the channel is closed. It fails
// the test after Limit.
func Receive[T any](t testing.TB, event string, ch <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-ch:
	case <-time.After(Limit):
		t.Fatalf("waited %s in vain: %s", Limit, event)
	}
	return value
}

// ReadLine returns the next line that a program prints, without white space around it. output may
// be nil.
func ReadLine(t testing.TB, program string, lines *bufio.Reader, output *Output) string {
	t.Helper()
	type result struct {
		line string
		err  error
	}
	results := make(chan result, 1)
	go func() {
		line, err := lines.ReadString('\n')
		results <- result{line, err}
	}()
	select {
	case r := <-results:
		if r.err != nil {
			t.Fatalf("%s ended its output with %q: %v\n%s", program, r.line, r.err, output)
		}
		return strings.TrimSpace(r.line)
	case <-time.After(Limit):
		t.Fatalf("waited %s in vain for a line of %s\n%s", Limit, program, output)
	}
	return ""
}

// Output collects the output of a program. It may be read while the program runs. A nil Output is
// empty.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *Output) String() string {
	if o == nil {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
