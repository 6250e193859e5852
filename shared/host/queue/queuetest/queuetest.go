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
	// Patience is the time for which a refused message is retried.
	Patience time.Duration
	// Late is the maximum time until a message is delivered.
	Late time.Duration
}

// Contract runs the tests that every queue must pass. in runs a single test, for example in a
// synctest bubble.
func Contract(t *testing.T, in func(*testing.T, func(*testing.T)), open func(*testing.T) Subject) {
	for name, test := range map[string]func(*testing.T, Subject){
		"WhatIsHandledIsDone": testDone, "ARefusedMessageComesAgain": testAgain, "ARefusedMessageIsDroppedInTheEnd": testDropped,
		"ASlowMessageKeepsNoOtherWaiting": testSlow, "TheEndWaitsForHandlers": testEnd,
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T) { test(t, open(t)) })
		})
	}
}

// handled records messages.
type handled struct {
	mu  sync.Mutex
	all []string
}

func (h *handled) add(m string) (n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, m)
	return len(h.all)
}

func (h *handled) read() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

func (h *handled) wait(t *testing.T, s *Subject, n int) []string {
	t.Helper()
	for until := time.Now().Add(s.Late); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		if messages := h.read(); len(messages) >= n {
			return messages
		}
	}
	t.Fatalf("handled %v in %v, want %d messages", h.read(), s.Late, n)
	return nil
}

// run delivers messages until the test ends or stop is called.
func (s *Subject) run(t *testing.T, handle func(context.Context, string) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() {
		defer close(ended)
		s.Run(ctx, handle)
	}()
	stop = func() { cancel(); <-ended }
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

func testDone(t *testing.T, s Subject) {
	const odd = "0123abcd#guest#00ff#1#2#3"
	s.send(t, odd) // sent before a consumer runs
	var got handled
	handle := func(_ context.Context, m string) error { got.add(m); return nil }
	stop := s.run(t, handle)
	want := []string{odd}
	for i := range 3 {
		s.send(t, fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
	}
	got.wait(t, &s, len(want))
	stop()
	s.run(t, handle) // another process receives no messages
	time.Sleep(s.Patience)
	messages := got.read()
	if len(messages) != len(want) {
		t.Errorf("handled %v, want each of %v once", messages, want)
	}
	slices.Sort(messages)
	slices.Sort(want)
	if !slices.Equal(messages, want) {
		t.Errorf("handled %v, want %v", messages, want)
	}
}

func testAgain(t *testing.T, s Subject) {
	var got handled
	s.run(t, func(_ context.Context, m string) error {
		if got.add(m) < 3 {
			return task.ErrAgain
		}
		return nil
	})
	s.send(t, "later")
	got.wait(t, &s, 3)
	time.Sleep(s.Patience)
	if messages := got.read(); len(messages) != 3 {
		t.Errorf("handled %d times, want 3", len(messages))
	}
}

func testDropped(t *testing.T, s Subject) {
	var got handled
	s.run(t, func(_ context.Context, m string) error { got.add(m); return task.ErrAgain })
	s.send(t, "never")
	got.wait(t, &s, 3)
	time.Sleep(s.Patience * 5 / 4)
	n := len(got.read())
	time.Sleep(2 * s.Patience)
	if after := len(got.read()); after != n {
		t.Errorf("handled %d times, and %d times after it was to be dropped", n, after-n)
	}
}

func testSlow(t *testing.T, s Subject) {
	block := make(chan bool)
	var got handled
	s.run(t, func(_ context.Context, m string) error {
		if m == "slow" {
			<-block
		}
		got.add(m)
		return nil
	})
	for _, m := range []string{"slow", "a", "b"} {
		s.send(t, m)
	}
	if messages := got.wait(t, &s, 2); slices.Contains(messages, "slow") {
		t.Errorf("handled %v, want a and b", messages)
	}
	close(block)
	got.wait(t, &s, 3)
}

func testEnd(t *testing.T, s Subject) {
	began, block := make(chan bool), make(chan bool)
	var got handled
	stop := s.run(t, func(_ context.Context, m string) error {
		close(began)
		<-block
		got.add(m)
		return nil
	})
	s.send(t, "long")
	<-began
	time.AfterFunc(100*time.Millisecond, func() { close(block) })
	stop()
	if messages := got.read(); len(messages) != 1 {
		t.Errorf("Run returned after %v, want its handler to end first", messages)
	}
}
