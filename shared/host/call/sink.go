package call

import (
	"context"
	"sync"
	"time"
)

// Sink is told of a call what happens between its accept and its decision: Provisional
// pieces, each before the next one arrives, and in the end, once, Ended. Of a call that
// is refused it is told nothing. A Sink that takes longer than sinkPatience for one
// Progress, or panics, is told nothing more; the call goes on. Calls of a Sink do not
// overlap.
type Sink func(Progress)

// Progress is Provisional or Ended.
type Progress interface{ progress() }

// Provisional is a piece of what the vacant's agent does. Nothing is signed or stored of
// it, and the call may still fail. One member is set.
type Provisional struct {
	Text    string // of the answer
	Thought string
	Tool    string // the name of a tool that is called
	Usage   *Usage // so far
}

// Ended is what Send returns: the signed reply, which is stored, or why there is none.
type Ended struct{ Outcome Outcome }

func (Provisional) progress() {}
func (Ended) progress()       {}

// sinkPatience is how long a call waits for its Sink.
const sinkPatience = time.Second

// feed tells a Sink. A nil feed tells nobody.
type feed struct {
	mu   sync.Mutex
	sink Sink // nil: told nothing more
}

type feedKey struct{}

// Show tells the Sink of the call whose behaviour has this context. Elsewhere, and after
// the call is decided, it does nothing.
func Show(ctx context.Context, p Provisional) {
	f, _ := ctx.Value(feedKey{}).(*feed)
	f.tell(p, false)
}

// IsWatched reports whether the call whose behaviour has this context has a Sink.
func IsWatched(ctx context.Context) bool {
	f, _ := ctx.Value(feedKey{}).(*feed)
	return f != nil
}

// tell tells the Sink, for the last time if p is the end, and returns when it has taken
// p or is dropped.
func (f *feed) tell(p Progress, end bool) {
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
	taken := make(chan bool, 1)
	go func() {
		ok := false
		defer func() {
			_ = recover() // the call goes on
			taken <- ok
		}()
		sink(p)
		ok = true
	}()
	late := time.NewTimer(sinkPatience)
	defer late.Stop()
	select {
	case ok := <-taken:
		if ok {
			return
		}
	case <-late.C:
	}
	f.sink = nil
}
