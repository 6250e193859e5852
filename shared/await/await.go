// Package await is how tests wait for what another goroutine, process or service does.
//
// The invariant: a wait ends by what it waits for. Its limit only guards against hanging,
// so it says nothing about how fast a machine is.
package await

import (
	"bufio"
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"
)

// Limit is the longest time that a test waits for one thing. It is twice what one busy core
// needs for a deployment, the slowest of these things, and less than the silence after which
// tests/runner ends all tests, because the runner cannot name what was waited for.
const Limit = 8 * time.Minute

// Times between two looks of Until.
const (
	firstPause = time.Millisecond
	maxPause   = 200 * time.Millisecond
)

// Until calls done until it returns true. It ends the test if that takes longer than
// Limit. what is a sentence about what is waited for.
func Until(t testing.TB, what string, done func() bool) {
	t.Helper()
	pause := firstPause
	for end := time.Now().Add(Limit); !done(); time.Sleep(pause) {
		if time.Now().After(end) {
			t.Fatalf("waited %s in vain: %s", Limit, what)
		}
		pause = min(2*pause, maxPause)
	}
}

// Receive returns the next value of a channel, or the zero value of a closed channel. It ends the
// test if that takes longer than Limit. what is a sentence about what is waited for.
func Receive[T any](t testing.TB, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(Limit):
		t.Fatalf("waited %s in vain: %s", Limit, what)
	}
	return value
}

// Line returns the next line that a program prints, without its end. It ends the test if the
// program's output ends first, or if that takes longer than Limit. output collects the other
// output of the program; it may be nil.
func Line(t testing.TB, program string, lines *bufio.Reader, output *Output) string {
	t.Helper()
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := lines.ReadString('\n')
		read <- result{line, err}
	}()
	select {
	case r := <-read:
		if r.err != nil {
			t.Fatalf("%s ended its output with %q: %v\n%s", program, r.line, r.err, output)
		}
		return strings.TrimSpace(r.line)
	case <-time.After(Limit):
		t.Fatalf("waited %s in vain for a line of %s\n%s", Limit, program, output)
	}
	return ""
}

// Output collects what a program prints. A test may read it while the program runs.
type Output struct {
	mu      sync.Mutex
	printed bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.printed.Write(p)
}

// String returns what the program printed so far.
func (o *Output) String() string {
	if o == nil {
		return ""
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.printed.String()
}
