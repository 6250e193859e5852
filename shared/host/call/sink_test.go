package call_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// events is a substrate that produces events, pauses and errors.
type events []any

func (all events) Infer(ctx context.Context, _ substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		for _, e := range all {
			switch e := e.(type) {
			case error:
				yield(nil, e)
				return
			case time.Duration:
				select {
				case <-time.After(e):
				case <-ctx.Done():
				}
			case substrate.Event:
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// watched returns a host whose vacant answers with a substrate, and a call to the vacant.
func watched(t *testing.T, of substrate.Substrate) (*call.Host, store.Store, *envelope.Envelope) {
	t.Helper()
	vacant, caller := newKey(t), newKey(t)
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	s := memory.New()
	host := call.New(call.Config{
		Store: s, Texts: textkeys.New(s, vault, time.Now, rand.Reader, 0), Now: time.Now, Rand: rand.Reader,
		Directory: call.SingleVacant{ID: vacant.ID(), State: lifecycle.Active, Behaviour: substrate.Behaviour(of), Signer: vacant},
	})
	e := &envelope.Envelope{From: caller.ID(), To: vacant.ID(), Seq: 1, Time: time.Now().UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hello"}}}
	if _, err := e.Sign(t.Context(), caller); err != nil {
		t.Fatal(err)
	}
	return host, s, e
}

// notes is a sink that records its calls.
type notes struct {
	mu  sync.Mutex
	all []string
}

func (n *notes) take(p call.Progress) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, told(p))
}

func (n *notes) read() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

func told(p call.Progress) string {
	switch p := p.(type) {
	case call.EndEvent:
		if p.Outcome.Reply != nil {
			return "signed " + p.Outcome.Reply.Payload.Text()
		}
		return fmt.Sprintf("%s %s", p.Outcome.State, p.Outcome.Problem.Kind)
	case call.ProvisionalEvent:
		if p.Usage != nil {
			return fmt.Sprintf("used %d", p.Usage.InputTokens)
		}
		if p.IsLast {
			return "last"
		}
		return p.Text + p.Thought + p.Tool
	}
	return "?"
}

func TestSinkReceivesEventsAndTheOutcome(t *testing.T) {
	failed := problem.New(problem.SubstrateBusy, "no")
	for name, tt := range map[string]struct {
		events events
		want   []string
	}{
		"an answer": {events{substrate.Thought("hm"), substrate.ToolCall{Name: "look"}, substrate.Text("a "), substrate.Usage{InputTokens: 3}, substrate.Text("b"), substrate.FinishStop},
			[]string{"hm", "look", "a ", "used 3", "b", "last", "signed a b"}},
		"a failure in its middle": {events{substrate.Text("a "), failed}, []string{"a ", "unanswered substrate_busy"}},
		"a failure at once":       {events{failed}, []string{"unanswered substrate_busy"}},
	} {
		host, s, e := watched(t, tt.events)
		var n notes
		out := host.SendWith(t.Context(), identity.ID{}, e, call.Options{Sink: func(p call.Progress) {
			row, err := s.Tip(t.Context(), call.Pair{Caller: e.From, Vacant: e.To}.Responses())
			if _, end := p.(call.EndEvent); err != nil || end != (row.Position == 1) {
				t.Errorf("%s: %s is told with %d answers stored, %v", name, told(p), row.Position, err)
			}
			n.take(p)
		}})
		if diff := cmp.Diff(tt.want, n.read()); diff != "" {
			t.Errorf("%s: told (-want +got):\n%s", name, diff)
		}
		if again := host.SendWith(t.Context(), identity.ID{}, e, call.Options{Sink: func(p call.Progress) { t.Errorf("%s: a resend tells %s", name, told(p)) }}); again.State != out.State && again.State != call.Answered {
			t.Errorf("%s: a resend is %s", name, again.State)
		}
	}
}

func TestSinkReceivesEachEventBeforeTheNextIsProduced(t *testing.T) {
	n := notes{}
	host, _, e := watched(t, pulls{&n})
	host.SendWith(t.Context(), identity.ID{}, e, call.Options{Sink: n.take})
	if diff := cmp.Diff([]string{"pull", "1", "pull", "2", "pull", "last", "signed 12"}, n.read()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// pulls records when its consumer requests the next event.
type pulls struct{ n *notes }

func (p pulls) Infer(context.Context, substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		for _, e := range []substrate.Event{substrate.Text("1"), substrate.Text("2"), substrate.FinishStop} {
			p.n.take(call.ProvisionalEvent{Text: "pull"})
			if !yield(e, nil) {
				return
			}
		}
	}
}

func TestAFailedSinkIsNotCalledAgain(t *testing.T) {
	for name, fail := range map[string]func(){
		"hangs":  func() { time.Sleep(time.Hour) },
		"panics": func() { panic("no") },
	} {
		synctest.Test(t, func(t *testing.T) {
			host, _, e := watched(t, events{substrate.Text("a"), substrate.Text("b"), substrate.Text("c"), substrate.FinishStop})
			var n notes
			began := time.Now()
			out := host.SendWith(t.Context(), identity.ID{}, e, call.Options{Sink: func(p call.Progress) {
				n.take(p)
				if told(p) == "b" {
					fail()
				}
			}})
			if took := time.Since(began); out.Reply == nil || out.Reply.Payload.Text() != "abc" || took > time.Second {
				t.Errorf("a sink that %s: %+v after %v", name, out, took)
			}
			time.Sleep(2 * time.Hour)
			if diff := cmp.Diff([]string{"a", "b"}, n.read()); diff != "" {
				t.Errorf("a sink that %s is told (-want +got):\n%s", name, diff)
			}
		})
	}
}

// The behaviour ignores its deadline and produces an event after the void.
func TestSinkReceivesNothingAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, _, e := watched(t, stubborn{})
		var n notes
		out := host.SendWith(t.Context(), identity.ID{}, e, call.Options{Sink: n.take})
		if out.State != call.Unanswered || !problem.Is(out.Problem, problem.DeadlineExceeded) {
			t.Errorf("SendWith() = %s %v", out.State, out.Problem)
		}
		if out.Cause == nil || !regexp.MustCompile(`^no answer within [0-9.hms]+, the time that the host allows$`).MatchString(out.Cause.Text) {
			t.Errorf("the cause is %v, want the limit in plain words", out.Cause)
		}
		time.Sleep(time.Hour)
		if diff := cmp.Diff([]string{"early", "unanswered deadline"}, n.read()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
	})
}

// stubborn produces an event long after the deadline.
type stubborn struct{}

func (stubborn) Infer(context.Context, substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if yield(substrate.Text("early"), nil) {
			time.Sleep(30 * time.Minute)
			if yield(substrate.Text("late"), nil) {
				yield(substrate.FinishStop, nil)
			}
		}
	}
}

func TestARefusedCallHasNoProgress(t *testing.T) {
	host, _, e := watched(t, events{substrate.FinishStop})
	e.Seq = 5
	out := host.SendWith(t.Context(), identity.ID{}, e, call.Options{Sink: func(p call.Progress) { t.Errorf("told %s", told(p)) }})
	if out.Problem == nil {
		t.Error("a call with a broken signature is answered")
	}
}
