package call

import (
	"context"
	"sync"
	"time"
)

// Sink receives the progress of a call: Provisional events between its accept and its
// decision, each before the agent produces the next one, and then one Ended. A refused
// call has no progress. The calls of a Sink do not overlap. A Sink that panics or takes
// longer than sinkTimeout is not called again; the call continues.
type Sink func(Progress)

// Progress is Provisional or Ended.
type Progress interface{ progress() }

// Provisional is an event of the vacant's agent. It is neither signed nor stored, and the
// call may still fail. Exactly one field is set.
type Provisional struct {
	Text    string // a part of the answer
	Thought string
	Tool    string // the name of a tool that the agent calls
	Usage   *Usage // the usage so far
	Last    bool   // no text follows
	// Detail is an agent's report besides the text of its answer. A Sink that knows its
	// type (package task) reads it; others ignore it.
	Detail any
}

// Ended is the result of Send: the reply, signed and stored, or the failure.
type Ended struct{ Outcome Outcome }

func (Provisional) progress() {}
func (Ended) progress()       {}

// sinkTimeout bounds how long a call waits for its Sink.
const sinkTimeout = time.Second

// reporter calls the Sink of one call. A nil reporter does nothing.
type reporter struct {
	mu   sync.Mutex
	sink Sink // nil after the end, or if the Sink failed
}

// Report reports an event to the Sink of the call that ctx belongs to. Without a Sink,
// and after the call was decided, Report does nothing.
func Report(ctx context.Context, p Provisional) {
	if r := runningIn(ctx); r != nil {
		r.reporter.report(p, false)
	}
}

// HasSink reports whether the call that ctx belongs to has a Sink.
func HasSink(ctx context.Context) bool {
	r := runningIn(ctx)
	return r != nil && r.reporter != nil
}

// report returns when the Sink has returned or failed. end marks the last event.
func (f *reporter) report(p Progress, end bool) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	sink := f.sink
	if sink == nil {
		return
	}
	if end {
		f.sink = nil
	}
	returned := make(chan bool, 1)
	go func() {
		ok := false
		defer func() {
			_ = recover() // the call must continue
			returned <- ok
		}()
		sink(p)
		ok = true
	}()
	timeout := time.NewTimer(sinkTimeout)
	defer timeout.Stop()
	select {
	case ok := <-returned:
		if ok {
			return
		}
	case <-timeout.C:
	}
	f.sink = nil
}
