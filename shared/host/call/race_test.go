package call_test

import (
	"context"
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// warmHost is a host that has answered one call of a pair and has it in its
// caches.
type warmHost struct {
	*call.Host
	register
	store          store.Store
	vacant, caller *identity.Key
	ran            int
	prev           identity.Hash
}

func warmed(t *testing.T, s store.Store) *warmHost { return warmedAs(t, s, func(*call.Vacant) {}) }

// warmedAs returns a warmHost whose vacant is changed by is.
func warmedAs(t *testing.T, s store.Store, is func(*call.Vacant)) *warmHost {
	t.Helper()
	w := &warmHost{store: s, vacant: newKey(t), caller: newKey(t)}
	echoes := substrate.Behaviour(echo.Substrate)
	parent := w.caller.ID()
	vacant := call.Vacant{ID: w.vacant.ID(), State: lifecycle.Active, Signer: w.vacant, Parent: &parent,
		Behaviour: func(ctx context.Context, host *call.Host, e envelope.Envelope) (envelope.Message, error) {
			w.ran++
			return echoes(ctx, host, e)
		}}
	is(&vacant)
	w.Host = call.New(call.Config{
		Store: s, Texts: newTexts(t, s), Now: time.Now, Rand: rand.Reader, AreRevoked: w.Revoked,
		Wait:      func(context.Context, time.Duration) error { return nil },
		Directory: call.SingleVacant(vacant),
	})
	if o := w.Send(t.Context(), identity.ID{}, w.next(t, 1)); o.Problem != nil {
		t.Fatal(o.Problem)
	}
	return w
}

func (w *warmHost) next(t *testing.T, seq int64) *envelope.Envelope {
	t.Helper()
	e := &envelope.Envelope{From: w.caller.ID(), To: w.vacant.ID(), Seq: seq, Prev: w.prev, Time: time.Now().UTC().Truncate(time.Microsecond),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}}}
	hash, err := e.Sign(t.Context(), w.caller)
	if err != nil {
		t.Fatal(err)
	}
	w.prev = hash
	return e
}

func (w *warmHost) kinds(t *testing.T) (kinds []call.RowKind) {
	t.Helper()
	pair := call.Pair{Caller: w.caller.ID(), Vacant: w.vacant.ID()}
	rows, err := w.store.Rows(t.Context(), pair.Responses(), 1, 10, store.Ascending)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		r, err := call.DecodeResponse(row)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// Another instance, or the registry, has revoked a key. This instance has the
// pair in its caches and is not notified.
func TestAKeyRevokedElsewhereIsRefusedFromTheNextCallOn(t *testing.T) {
	for name, tt := range map[string]struct {
		whose       func(*warmHost) identity.ID
		want        problem.Kind
		wantMembers call.State
	}{
		"the caller's": {func(w *warmHost) identity.ID { return w.caller.ID() }, problem.Revoked, ""},
		"the vacant's": {func(w *warmHost) identity.ID { return w.vacant.ID() }, problem.Gone, call.Unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			w := warmed(t, memory.New())
			w.revoke(tt.whose(w))
			e := w.next(t, 2)
			o := w.Send(t.Context(), identity.ID{}, e)
			if !problem.Is(o.Problem, tt.want) || o.State != tt.wantMembers || o.HasChain != (tt.wantMembers != "") {
				t.Errorf("Send() = %v, state %q, chain told %t, want %v, %q", o.Problem, o.State, o.HasChain, tt.want, tt.wantMembers)
			}
			if w.ran != 1 {
				t.Errorf("the behaviour ran %d times, want once, before the revocation", w.ran)
			}
			pair := call.Pair{Caller: w.caller.ID(), Vacant: w.vacant.ID()}
			if n, kinds := rowsOf(t, w.store, pair), w.kinds(t); n != 2 || len(kinds) != 2 || kinds[1] != call.RowVoid {
				t.Errorf("%d requests are kept and decided as %v, want an answer and a void", n, kinds)
			}
			// From then on no rows are written for the key.
			for range 3 {
				if o := w.Send(t.Context(), identity.ID{}, w.next(t, 3)); !problem.Is(o.Problem, tt.want) {
					t.Errorf("Send() of the next = %v, want %v", o.Problem, tt.want)
				}
			}
			if n := rowsOf(t, w.store, pair); n != 2 {
				t.Errorf("%d requests are kept, want 2 still", n)
			}
			if o := w.Send(t.Context(), identity.ID{}, e); !problem.Is(o.Problem, tt.want) || o.Reply != nil {
				t.Errorf("Send() of the same bytes = %v, %v, want %v", o.Problem, o.Reply, tt.want)
			}
		})
	}
}

// The holder of a parent's revoked key may be anybody, even while the parent is still in the cache.
func TestAClosedChildIsNotThereForAParentThatIsRevoked(t *testing.T) {
	w := warmedAs(t, memory.New(), func(v *call.Vacant) { v.IsClosedChild = true })
	w.revoke(w.caller.ID())
	e := w.next(t, 2)
	first, cold := w.Send(t.Context(), identity.ID{}, e), w.Send(t.Context(), identity.ID{}, e)
	for what, o := range map[string]call.Outcome{"remembered": first, "read": cold} {
		if !problem.Is(o.Problem, problem.Misdirected) || o.HasChain || o.State != "" || !o.Floor.IsZero() {
			t.Errorf("Send() of a pair that is %s = %+v, want that the vacant is not here", what, o)
		}
	}
	if diff := cmp.Diff(cold.Problem.Text(), first.Problem.Text()); diff != "" {
		t.Errorf("the refusal (-read +remembered):\n%s", diff)
	}
	if kinds := w.kinds(t); w.ran != 1 || len(kinds) != 2 || kinds[1] != call.RowVoid {
		t.Errorf("the behaviour ran %d times, and the calls are decided as %v, want once, and a void", w.ran, kinds)
	}
}

// quicker is another host that takes the position of a call before the call does.
type quicker struct {
	store.Store
	other func()
}

func (q *quicker) Commit(ctx context.Context, writes ...store.Write) error {
	if other := q.other; other != nil {
		q.other = nil
		other()
	}
	return q.Store.Commit(ctx, writes...)
}

func TestARevokedKeyIsToldNothingWhenItsPositionIsTaken(t *testing.T) {
	q := &quicker{Store: memory.New()}
	w := warmed(t, q)
	e := w.next(t, 2)
	q.other = func() {
		if o := w.Send(t.Context(), identity.ID{}, e); o.Problem != nil {
			t.Errorf("Send() of the same bytes at the same time = %v, want the answer", o.Problem)
		}
		w.revoke(w.caller.ID())
	}
	// Whether the call reads the revocation before or after the other write, its refusal reveals no
	// other information.
	if o := w.Send(t.Context(), identity.ID{}, e); !problem.Is(o.Problem, problem.Revoked) && !problem.Is(o.Problem, problem.Replay) {
		t.Errorf("Send() = %v, want revoked, or a replay by what was read in time", o.Problem)
	}
	if w.ran != 2 {
		t.Errorf("the behaviour ran %d times, want 2", w.ran)
	}
}

func TestAnAcceptedCallWhoseKeysCannotBeJudgedIsVoid(t *testing.T) {
	w := warmed(t, memory.New())
	w.away = errors.New("away")
	e := w.next(t, 2)
	if o := w.Send(t.Context(), identity.ID{}, e); !problem.Is(o.Problem, problem.Unavailable) || o.HasChain || o.State != "" {
		t.Errorf("Send() = %+v, want unavailable and nothing else", o)
	}
	w.away = nil
	if o := w.Send(t.Context(), identity.ID{}, e); !problem.Is(o.Problem, problem.Replay) || o.State != call.Unanswered {
		t.Errorf("Send() of the same bytes = %v, %q, want that it is unanswered", o.Problem, o.State)
	}
	if w.ran != 1 {
		t.Errorf("the behaviour ran %d times, want once", w.ran)
	}
	if o := w.Send(t.Context(), identity.ID{}, w.next(t, 3)); o.Problem != nil {
		t.Errorf("Send() of the next = %v, want the answer", o.Problem)
	}
}

// together makes the append and the check of the keys wait for each other.
type together struct {
	store.Store
	wait            bool
	wrote, revealed chan struct{}
}

func (m *together) Commit(ctx context.Context, writes ...store.Write) error {
	if m.wait {
		m.wait = false
		m.wrote <- struct{}{}
		<-m.revealed
	}
	return m.Store.Commit(ctx, writes...)
}

func TestAWarmCallWaitsNoLongerForTheRevocations(t *testing.T) {
	m := &together{Store: memory.New(), wrote: make(chan struct{}), revealed: make(chan struct{})}
	w := warmed(t, m)
	m.wait = true
	w.Host.AreRevoked = func(_ context.Context, ids ...identity.ID) ([]bool, error) {
		<-m.wrote
		m.revealed <- struct{}{}
		return make([]bool, len(ids)), nil
	}
	if o := w.Send(t.Context(), identity.ID{}, w.next(t, 2)); o.Problem != nil {
		t.Errorf("Send() = %v, want the answer", o.Problem)
	}
}
