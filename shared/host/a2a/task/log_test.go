package task_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/store"
)

// toolCalls counts the calls of tools in a turn.
const toolCalls = 10

// logged is a team whose agent calls tools. It records when logs are written, by its clock.
type logged struct {
	*team
	between func(calls int) // runs after each call of a tool

	mu    sync.Mutex
	times []time.Time
}

func newLogged(t *testing.T) *logged {
	t.Helper()
	l := &logged{between: func(int) {}}
	l.team = newTeam(t, agent(func(ctx context.Context, say func(string) bool) error {
		for n := range toolCalls {
			id := fmt.Sprint(n)
			call.Report(ctx, call.ProvisionalEvent{Detail: call.ToolStep{ID: id, Name: "Read", Arguments: "{}"}})
			task.WorkerTurnOf(ctx).Log(task.LogRead, task.LogData{Path: "notes.md"})
			call.Report(ctx, call.ProvisionalEvent{Detail: call.ToolStep{ID: id, Name: "Read", Outcome: call.ToolOK}})
			l.between(n + 1)
			time.Sleep(5 * time.Millisecond) // several ticks of the runner
		}
		say("done")
		return nil
	}))
	l.store.set(func(writes []store.Write) error {
		if p, ok := writes[0].(store.Put); ok && strings.HasPrefix(p.Key.Sort, "log#") {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.times = append(l.times, l.clock.now())
		}
		return nil
	})
	return l
}

// written returns the times of the writes.
func (l *logged) written() []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.times
}

// run runs a task, and requires that its log has all events in their order.
func (l *logged) run() {
	l.t.Helper()
	ref, message := l.dispatch("read")
	if err := l.a.RunQueued(l.t.Context(), message); err != nil {
		l.t.Fatal(err)
	}
	events := must(l.b.ReadLog(l.t.Context(), ref, 0))
	if len(events) != 2*toolCalls {
		l.t.Errorf("the log has %d events, want two of each call", len(events))
	}
	for i, e := range events {
		if want := []task.LogType{task.LogRead, task.LogUpdate}[i%2]; e.N != i+1 || e.Type != want {
			l.t.Errorf("event %d is %d %s, want %s", i+1, e.N, e.Type, want)
		}
	}
}

// A turn that is shorter than a second writes its log once.
func TestAShortTurnWritesItsLogOnce(t *testing.T) {
	l := newLogged(t)
	began := l.clock.now()
	l.run()
	if n, took := len(l.written()), l.clock.now().Sub(began); n != 1 && took < time.Second {
		t.Errorf("%d writes of the log in a turn of %s, want one", n, took)
	}
}

// A runner that does not learn that its log was stored stores the events again, with later ones. A reader sees each once.
func TestALogThatIsStoredTwiceIsReadOnce(t *testing.T) {
	l := newLogged(t)
	var lost store.Key // of a document that is stored, and whose writes the store never acknowledges
	l.store.set(func(writes []store.Write) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		p, ok := writes[0].(store.Put)
		switch {
		case !ok || !strings.HasPrefix(p.Key.Sort, "log#") || lost != (store.Key{}) && p.Key != lost:
			return nil
		case p.Key != lost:
			if err := l.store.Store.Commit(l.t.Context(), writes...); err != nil {
				return err
			}
			lost = p.Key
		}
		return store.ErrUnavailable
	})
	l.between = func(calls int) {
		if calls == 2 {
			await.Until(t, "the first events are stored", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return lost != (store.Key{})
			})
		}
	}
	l.run()
}

// While a turn runs, its log is written once a second at most.
func TestALogIsWrittenOnceASecondAtMost(t *testing.T) {
	const each = 500 * time.Millisecond
	l := newLogged(t)
	l.between = func(calls int) {
		l.clock.advance(each)
		if seconds := calls * int(each) / int(time.Second); calls < toolCalls && seconds*int(time.Second) == calls*int(each) {
			await.Until(t, "the log is written", func() bool { return len(l.written()) >= seconds })
		}
	}
	began := l.clock.now()
	l.run()
	times := l.written()
	for i := 1; i < len(times)-1; i++ { // the last one may be of the end
		if gap := times[i].Sub(times[i-1]); gap < 9*time.Second/10 { // sealing a document takes time, too
			t.Errorf("write %d came %s after the write before", i+1, gap)
		}
	}
	if seconds := int(l.clock.now().Sub(began) / time.Second); len(times) < 4 || len(times) > seconds+1 {
		t.Errorf("%d writes in %d seconds, want one a second, and one of the end", len(times), seconds)
	}
}
