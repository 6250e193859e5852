package call_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// vault is the key vault of a vacant's signer. It counts requests and can be unreachable.
type vault struct {
	asked int
	away  error
}

func (v *vault) ready(context.Context) error { v.asked++; return v.away }

func guarded(t *testing.T, s store.Store, vacant *identity.Key, state lifecycle.State, v *vault) *call.Host {
	t.Helper()
	return call.New(call.Config{
		Store: s, Texts: newTexts(t, s), Now: time.Now, Rand: rand.Reader,
		Directory: call.SingleVacant{
			ID: vacant.ID(), State: state, Behaviour: substrate.Behaviour(echo.Substrate), Signer: vacant, Ready: v.ready,
		},
	})
}

func rowsOf(t *testing.T, s store.Store, p call.Pair) int {
	t.Helper()
	rows, err := s.Rows(t.Context(), p.Requests(), 1, 10, store.Ascending)
	if err != nil {
		t.Fatal(err)
	}
	return len(rows)
}

func TestOnlyACallThatItsCallerSignedAsksForTheVacantsKey(t *testing.T) {
	vacant, caller := newKey(t), newKey(t)
	forged := first(t, caller, vacant.ID(), "hi")
	forged.Payload.Parts = []string{"ho"}
	good := first(t, caller, vacant.ID(), "hi")
	send := func(e *envelope.Envelope) func(*call.Host) call.Outcome {
		return func(h *call.Host) call.Outcome { return h.Send(t.Context(), identity.ID{}, e) }
	}
	for name, c := range map[string]struct {
		state lifecycle.State
		run   func(*call.Host) call.Outcome
		asked int
		want  string
	}{
		"a forged call":                {lifecycle.Active, send(forged), 0, "bad_signature"},
		"a call of one that sleeps":    {lifecycle.Hibernating, send(good), 0, "not_accepting"},
		"a call of one that is closed": {lifecycle.Archived, send(good), 0, "gone"},
		"a question about a call":      {lifecycle.Active, func(h *call.Host) call.Outcome { return h.Ask(t.Context(), identity.ID{}, good) }, 0, "ok"},
		"a reset": {lifecycle.Active, func(h *call.Host) call.Outcome {
			return h.Reset(t.Context(), identity.ID{}, first(t, caller, vacant.ID(), envelope.ResetText))
		}, 0, "ok"},
		"a call": {lifecycle.Active, send(good), 1, "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &vault{}
			o := c.run(guarded(t, memory.New(), vacant, c.state, v))
			got := "ok"
			if o.Problem != nil {
				got = o.Problem.Kind.String()
			}
			if got != c.want {
				t.Errorf("outcome = %s (%v), want %s", got, o.Problem, c.want)
			}
			if v.asked != c.asked {
				t.Errorf("the key was asked for %d times, want %d", v.asked, c.asked)
			}
		})
	}
}

func TestACallThatCouldNotBeSignedNowIsRefusedAndWritesNothing(t *testing.T) {
	s, vacant, caller := memory.New(), newKey(t), newKey(t)
	v := &vault{away: errors.New("the key service is away")}
	h := guarded(t, s, vacant, lifecycle.Active, v)
	e := first(t, caller, vacant.ID(), "hi")
	pair := call.Pair{Caller: caller.ID(), Vacant: vacant.ID()}
	if o := h.Send(t.Context(), identity.ID{}, e); !problem.Is(o.Problem, problem.Unavailable) || o.State != "" {
		t.Errorf("Send() = %v, state %q, want unavailable", o.Problem, o.State)
	}
	if n := rowsOf(t, s, pair); n != 0 {
		t.Errorf("the refused call left %d rows, want none", n)
	}
	v.away = nil
	if o := h.Send(t.Context(), identity.ID{}, e); o.Problem != nil || o.Reply == nil {
		t.Errorf("the same bytes again = %v, want the answer", o.Problem)
	}
	v.away = errors.New("away again")
	if o := h.Send(t.Context(), identity.ID{}, e); o.State != call.Answered || o.Reply == nil {
		t.Errorf("a resend while the key is away = %v, state %q, want the stored answer", o.Problem, o.State)
	}
}

func TestASpentBudgetRefusesNewCallsAndAnswersResends(t *testing.T) {
	s, vacant, caller := memory.New(), newKey(t), newKey(t)
	v := &vault{}
	h := guarded(t, s, vacant, lifecycle.Active, v)
	e := first(t, caller, vacant.ID(), "hi")
	answered := h.Send(t.Context(), identity.ID{}, e)
	if answered.Reply == nil {
		t.Fatalf("Send() = %v", answered.Problem)
	}
	v.away = problem.New(problem.BudgetSpent, "spent")
	if o := h.Send(t.Context(), identity.ID{}, e); o.State != call.Answered || o.Reply == nil || o.Reply.Hash() != answered.Reply.Hash() {
		t.Errorf("a resend = %v, state %q, want the stored answer", o.Problem, o.State)
	}
	next := envelope.Envelope{From: e.From, To: e.To, Seq: 2, Prev: e.Hash(), Time: e.Time.Add(time.Microsecond), Payload: e.Payload}
	if _, err := next.Sign(t.Context(), caller); err != nil {
		t.Fatal(err)
	}
	if o := h.Send(t.Context(), identity.ID{}, &next); !problem.Is(o.Problem, problem.BudgetSpent) || o.State != "" || !o.HasChain || o.ExpectedSeq != 2 {
		t.Errorf("a new call = %v, state %q, expected seq %d; want budget_spent and an unchanged chain", o.Problem, o.State, o.ExpectedSeq)
	}
	if n := rowsOf(t, s, call.Pair{Caller: e.From, Vacant: e.To}); n != 1 {
		t.Errorf("%d request rows, want 1", n)
	}
	v.away = nil
	if o := h.Send(t.Context(), identity.ID{}, &next); o.Reply == nil {
		t.Errorf("the same call later = %v, want its answer", o.Problem)
	}
}
