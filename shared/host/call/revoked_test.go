package call_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
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

// register knows which keys are revoked. It counts requests and can be unreachable.
type register struct {
	mu      sync.Mutex
	revoked map[identity.ID]bool
	asked   int
	away    error
}

func (r *register) Revoked(_ context.Context, ids ...identity.ID) ([]bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	out := make([]bool, len(ids))
	for i, id := range ids {
		out[i] = r.revoked[id]
	}
	return out, r.away
}

func (r *register) revoke(id identity.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revoked == nil {
		r.revoked = map[identity.ID]bool{}
	}
	r.revoked[id] = true
}

func registered(t *testing.T, s store.Store, vacant *identity.Key, r *register, now func() time.Time) *call.Host {
	t.Helper()
	return call.New(call.Config{
		Store: s, Texts: newTexts(t, s), Now: now, Rand: rand.Reader, AreRevoked: r.Revoked,
		Directory: call.SingleVacant{ID: vacant.ID(), State: lifecycle.Active, Behaviour: substrate.Behaviour(echo.Substrate), Signer: vacant},
	})
}

func TestARevokedKeyCallsNobodyAndIsToldNothing(t *testing.T) {
	vacant, caller := newKey(t), newKey(t)
	good := first(t, caller, vacant.ID(), "hi")
	reset := first(t, caller, vacant.ID(), envelope.ResetText)
	stale := &envelope.Envelope{From: caller.ID(), To: vacant.ID(), Seq: 1, Time: time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{envelope.ResetText}}}
	if _, err := stale.Sign(t.Context(), caller); err != nil {
		t.Fatal(err)
	}
	forged := *good
	forged.Payload.Parts = []string{"ho"}
	elsewhere := first(t, caller, newKey(t).ID(), "hi")
	id := identity.ID{}
	for name, c := range map[string]struct {
		run   func(*call.Host) call.Outcome
		asked int
		want  problem.Kind
	}{
		"a call":              {func(h *call.Host) call.Outcome { return h.Send(t.Context(), id, good) }, 1, problem.Revoked},
		"a question":          {func(h *call.Host) call.Outcome { return h.Ask(t.Context(), id, good) }, 1, problem.Revoked},
		"a reset":             {func(h *call.Host) call.Outcome { return h.Reset(t.Context(), id, reset) }, 1, problem.Revoked},
		"a reset of long ago": {func(h *call.Host) call.Outcome { return h.Reset(t.Context(), id, stale) }, 1, problem.Revoked},
		"a forged call":       {func(h *call.Host) call.Outcome { return h.Send(t.Context(), id, &forged) }, 0, problem.BadSignature},
		"a call of another":   {func(h *call.Host) call.Outcome { return h.Send(t.Context(), id, elsewhere) }, 1, problem.Misdirected},
	} {
		t.Run(name, func(t *testing.T) {
			s, r := memory.New(), &register{}
			r.revoke(caller.ID())
			o := c.run(registered(t, s, vacant, r, time.Now))
			if !problem.Is(o.Problem, c.want) {
				t.Errorf("outcome = %v, want %v", o.Problem, c.want)
			}
			if o.HasChain || o.State != "" || !o.Floor.IsZero() || o.Reply != nil {
				t.Errorf("outcome tells %+v beside its refusal, want nothing", o)
			}
			if r.asked != c.asked {
				t.Errorf("the registry was asked %d times, want %d", r.asked, c.asked)
			}
			if n := rowsOf(t, s, call.Pair{Caller: caller.ID(), Vacant: vacant.ID()}); n != 0 {
				t.Errorf("%d rows were written, want none", n)
			}
		})
	}
}

// The holder of a revoked key also has the messages that it signed, and must not get their answers.
func TestAfterARevocationEvenAnOldAnswerIsNotGivenBack(t *testing.T) {
	vacant, caller, r, now := newKey(t), newKey(t), &register{}, time.Now()
	h := registered(t, memory.New(), vacant, r, func() time.Time { return now })
	e := first(t, caller, vacant.ID(), "hi")
	if o := h.Send(t.Context(), identity.ID{}, e); o.Problem != nil {
		t.Fatal(o.Problem)
	}
	r.revoke(caller.ID())
	for what, o := range map[string]call.Outcome{
		"a resend":   h.Send(t.Context(), identity.ID{}, e),
		"a question": h.Ask(t.Context(), identity.ID{}, e),
	} {
		if !problem.Is(o.Problem, problem.Revoked) || o.Reply != nil || o.State != "" {
			t.Errorf("%s = %v, %v, %q, want revoked and nothing else", what, o.Problem, o.Reply, o.State)
		}
	}
}

// The registry may be another function, which does not write vacants' records.
func TestAVacantWhoseKeyIsRevokedIsClosedWhateverItsRecordSays(t *testing.T) {
	vacant, caller, r := newKey(t), newKey(t), &register{}
	r.revoke(vacant.ID())
	h := registered(t, memory.New(), vacant, r, time.Now)
	for what, o := range map[string]call.Outcome{
		"a call":  h.Send(t.Context(), identity.ID{}, first(t, caller, vacant.ID(), "hi")),
		"a reset": h.Reset(t.Context(), identity.ID{}, first(t, caller, vacant.ID(), envelope.ResetText)),
	} {
		if !problem.Is(o.Problem, problem.Gone) || !o.HasChain {
			t.Errorf("%s = %v, chain told %t, want gone and the chain", what, o.Problem, o.HasChain)
		}
	}
}

func TestWhetherAKeyIsGoodMustBeKnown(t *testing.T) {
	vacant, caller := newKey(t), newKey(t)
	r := &register{away: errors.New("away")}
	s := memory.New()
	h := registered(t, s, vacant, r, time.Now)
	e := first(t, caller, vacant.ID(), "hi")
	for range 2 {
		if o := h.Send(t.Context(), identity.ID{}, e); !problem.Is(o.Problem, problem.Unavailable) {
			t.Errorf("Send() = %v, want unavailable", o.Problem)
		}
	}
	r.away = nil
	if o := h.Send(t.Context(), identity.ID{}, e); o.Problem != nil {
		t.Errorf("Send() of the same bytes again = %v, want the answer", o.Problem)
	}
}

// meeting makes two lookups wait for each other.
type meeting struct {
	call.Directory
	record, revoked chan struct{}
}

func (m *meeting) Vacant(ctx context.Context, id identity.ID, fresh bool) (call.Vacant, bool, error) {
	m.record <- struct{}{}
	<-m.revoked
	return m.Directory.Vacant(ctx, id, fresh)
}

func (m *meeting) Revoked(_ context.Context, ids ...identity.ID) ([]bool, error) {
	<-m.record
	m.revoked <- struct{}{}
	return make([]bool, len(ids)), nil
}

func TestTheRevocationIsReadBesideTheRecord(t *testing.T) {
	vacant, caller, s := newKey(t), newKey(t), memory.New()
	m := &meeting{record: make(chan struct{}), revoked: make(chan struct{}),
		Directory: call.SingleVacant{ID: vacant.ID(), State: lifecycle.Active, Behaviour: substrate.Behaviour(echo.Substrate), Signer: vacant}}
	h := call.New(call.Config{Store: s, Texts: newTexts(t, s), Now: time.Now, Rand: rand.Reader, AreRevoked: m.Revoked, Directory: m})
	if o := h.Send(t.Context(), identity.ID{}, first(t, caller, vacant.ID(), "hi")); o.Problem != nil {
		t.Errorf("Send() = %v, want the answer", o.Problem)
	}
	h = call.New(call.Config{Store: s, Texts: newTexts(t, s), Now: time.Now, Rand: rand.Reader, AreRevoked: m.Revoked, Directory: m})
	if o := h.Reset(t.Context(), identity.ID{}, first(t, caller, vacant.ID(), envelope.ResetText)); o.Problem != nil {
		t.Errorf("Reset() = %v, want done", o.Problem)
	}
}
