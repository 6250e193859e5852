// Package queuetest tests the contract of queues.
package queuetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
)

type Subject struct {
	task.Queue
	Run func(ctx context.Context, handle func(context.Context, string) error)
	// RetryTime is the time for which a refused message is retried.
	RetryTime time.Duration
	MaxDelay  time.Duration
}

// RunContract runs the tests that every queue must pass. runTest runs a single test, for example in
// a synctest bubble.
func RunContract(t *testing.T, runTest func(*testing.T, func(*testing.T)), newSubject func(*testing.T) Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"AHandledMessageIsDeleted": testHandledOnce, "ARefusedMessageIsRedelivered": testRetried, "ARefusedMessageIsEventuallyDropped": testDropped,
		"ASlowMessageDoesNotDelayOthers": testSlowHandler, "RunWaitsForHandlers": testRunWaits,
	} {
		t.Run(name, func(t *testing.T) {
			runTest(t, func(t *testing.T) { test(t, newSubject(t)) })
		})
	}
}

type recorder struct {
	mu       sync.Mutex
	messages []string
}

func (h *recorder) add(m string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.messages = append(h.messages, m)
	return len(h.messages)
}

func (h *recorder) snapshot() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.messages)
}

func (h *recorder) waitFor(t *testing.T, s *Subject, count int) []string {
	t.Helper()
	for deadline := time.Now().Add(s.MaxDelay); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if messages := h.snapshot(); len(messages) >= count {
			return messages
		}
	}
	t.Fatalf("handled %v in %v, want %d messages", h.snapshot(), s.MaxDelay, count)
	return nil
}

// startConsumer delivers messages until the test ends or stop is called.
func (s *Subject) startConsumer(t *testing.T, handle func(context.Context, string) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan bool)
	go func() {
		defer close(done)
		s.Run(ctx, handle)
	}()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func (s *Subject) send(t *testing.T, message string) {
	t.Helper()
	settle, err := s.Send(t.Context(), message, "sender")
	if err != nil {
		t.Fatal(err)
	}
	settle(t.Context(), true)
}

func testHandledOnce(t *testing.T, s Subject) {
	const oddMessage = "0123abcd#guest#00ff#1#2#3"
	s.send(t, oddMessage) // sent before a consumer runs
	var got recorder
	handle := func(_ context.Context, m string) error { got.add(m); return nil }
	stop := s.startConsumer(t, handle)
	want := []string{oddMessage}
	for i := range 3 {
		s.send(t, fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
	}
	got.waitFor(t, &s, len(want))
	stop()
	s.startConsumer(t, handle) // another process receives no messages
	time.Sleep(s.RetryTime)
	messages := got.snapshot()
	if len(messages) != len(want) {
		t.Errorf("handled %v, want each of %v once", messages, want)
	}
	slices.Sort(messages)
	slices.Sort(want)
	if !slices.Equal(messages, want) {
		t.Errorf("handled %v, want %v", messages, want)
	}
}

func testRetried(t *testing.T, s Subject) {
	var got recorder
	s.startConsumer(t, func(_ context.Context, m string) error {
		if got.add(m) < 3 {
			return task.ErrRetryLater
		}
		return nil
	})
	s.send(t, "later")
	got.waitFor(t, &s, 3)
	time.Sleep(s.RetryTime)
	if messages := got.snapshot(); len(messages) != 3 {
		t.Errorf("handled %d times, want 3", len(messages))
	}
}

func testDropped(t *testing.T, s Subject) {
	var got recorder
	s.startConsumer(t, func(_ context.Context, m string) error { got.add(m); return task.ErrRetryLater })
	s.send(t, "never")
	got.waitFor(t, &s, 3)
	time.Sleep(s.RetryTime * 5 / 4)
	n := len(got.snapshot())
	time.Sleep(2 * s.RetryTime)
	if countAfter := len(got.snapshot()); countAfter != n {
		t.Errorf("handled %d times, and %d times after it should have been dropped", n, countAfter-n)
	}
}

func testSlowHandler(t *testing.T, s Subject) {
	block := make(chan bool)
	var got recorder
	s.startConsumer(t, func(_ context.Context, m string) error {
		if m == "slow" {
			<-block
		}
		got.add(m)
		return nil
	})
	for _, m := range []string{"slow", "a", "b"} {
		s.send(t, m)
	}
	if messages := got.waitFor(t, &s, 2); slices.Contains(messages, "slow") {
		t.Errorf("handled %v, want a and b", messages)
	}
	close(block)
	got.waitFor(t, &s, 3)
}

func testRunWaits(t *testing.T, s Subject) {
	started, block := make(chan bool), make(chan bool)
	var got recorder
	stop := s.startConsumer(t, func(_ context.Context, m string) error {
		close(started)
		<-block
		got.add(m)
		return nil
	})
	s.send(t, "long")
	<-started
	time.AfterFunc(100*time.Millisecond, func() { close(block) })
	stop()
	if messages := got.snapshot(); len(messages) != 1 {
		t.Errorf("Run returned after %v, want its handler to end first", messages)
	}
}
