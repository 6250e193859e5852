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
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// family is a host with a child of a parent, or without vacants.
type family struct {
	parent, child, sibling, stranger *identity.Key
	register                         register
	asked                            int // whether siblings were looked up
	away                             error
	vacant                           call.Vacant
	store                            store.Store
	now                              time.Time
}

func newFamily(t *testing.T) *family {
	t.Helper()
	f := &family{parent: newKey(t), child: newKey(t), sibling: newKey(t), stranger: newKey(t), store: memory.New(), now: time.Now()}
	parent := f.parent.ID()
	f.vacant = call.Vacant{ID: f.child.ID(), State: lifecycle.Active, Behaviour: substrate.Behaviour(echo.Substrate), Signer: f.child,
		Parent: &parent, IsClosedChild: true, Reachability: composite.ParentOnly, HasKin: true}
	return f
}

func (f *family) host(t *testing.T, here bool) *call.Host {
	t.Helper()
	only := call.SingleVacant(f.vacant)
	if !here {
		only = call.SingleVacant{ID: identity.ID{9}}
	}
	return call.New(call.Config{
		Store: f.store, Texts: newTexts(t, f.store), Now: func() time.Time { return f.now }, Rand: rand.Reader, Directory: only,
		AreRevoked: f.register.Revoked, Self: func(context.Context) (identity.ID, error) { return identity.ID{1, 2, 3}, nil },
		IsSibling: func(_ context.Context, parent, caller identity.ID) (bool, error) {
			f.asked++
			return parent == f.parent.ID() && caller == f.sibling.ID(), f.away
		},
	})
}

// handlers are the three handlers of envelopes.
var handlers = map[string]func(*call.Host, context.Context, identity.ID, *envelope.Envelope) call.Outcome{
	"send": (*call.Host).Send, "ask": (*call.Host).Ask, "reset": (*call.Host).Reset,
}

// wantMembers returns everything of an outcome that a caller sees.
func wantMembers(o call.Outcome) map[string]any {
	m := map[string]any{"state": o.State, "chain": o.HasChain, "seq": o.ExpectedSeq, "tip": o.ChainTip, "floor": o.Floor, "now": o.HostTime,
		"old": o.HasUnsearchedEpochs, "reply": o.Reply, "reply seq": o.ReplySeq, "reply hash": o.ReplyHash}
	if o.Problem != nil {
		m["kind"], m["text"] = o.Problem.Kind, o.Problem.Text()
	}
	return m
}

func TestAClosedChildIsToStrangersAsIfItWereNotHere(t *testing.T) {
	f := newFamily(t)
	to := f.child.ID()
	forge := func(k *identity.Key, text string) *envelope.Envelope {
		e := first(t, f.stranger, to, text)
		e.From = k.ID()
		return e
	}
	signed := func(from *identity.Key, text string, change func(*envelope.Envelope)) *envelope.Envelope {
		e := &envelope.Envelope{From: from.ID(), To: to, Seq: 1, Time: f.now.UTC().Truncate(time.Microsecond),
			Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}}
		change(e)
		if _, err := e.Sign(t.Context(), from); err != nil {
			t.Fatal(err)
		}
		return e
	}
	plain := func(*envelope.Envelope) {}
	envelopes := map[string]*envelope.Envelope{
		"a stranger's":                     signed(f.stranger, "hi", plain),
		"a stranger's out of order":        signed(f.stranger, "hi", func(e *envelope.Envelope) { e.Seq = 7 }),
		"a stranger's of tomorrow":         signed(f.stranger, "hi", func(e *envelope.Envelope) { e.Time = e.Time.Add(24 * time.Hour) }),
		"a stranger's of yesterday":        signed(f.stranger, envelope.ResetText, func(e *envelope.Envelope) { e.Time = e.Time.Add(-24 * time.Hour) }),
		"a stranger's answer":              signed(f.stranger, "hi", func(e *envelope.Envelope) { e.Payload.Role = envelope.RoleAgent }),
		"a stranger's with a reply's key":  signed(f.stranger, "hi", func(e *envelope.Envelope) { e.IdempotencyKey = "re:x" }),
		"a stranger's reset":               signed(f.stranger, envelope.ResetText, plain),
		"its own":                          signed(f.child, "hi", plain),
		"its own reset":                    signed(f.child, envelope.ResetText, plain),
		"one forged as its parent's":       forge(f.parent, "hi"),
		"one forged as its sibling's":      forge(f.sibling, "hi"),
		"one forged as its own":            forge(f.child, "hi"),
		"a reset forged as its parent's":   forge(f.parent, envelope.ResetText),
		"one of no signature at all":       {From: f.parent.ID(), To: to, Seq: 1, Time: f.now},
		"a stranger's, after a call of it": signed(f.stranger, "hi", func(e *envelope.Envelope) { e.Seq = 2 }),
	}
	states := map[string]func(*family){
		"active":           func(*family) {},
		"local":            func(f *family) { f.vacant.State = lifecycle.Local },
		"asleep":           func(f *family) { f.vacant.State = lifecycle.Hibernating },
		"sunk":             func(f *family) { f.vacant.State = lifecycle.Sunk },
		"archived":         func(f *family) { f.vacant.State = lifecycle.Archived },
		"of a revoked key": func(f *family) { f.register.revoke(f.child.ID()) },
		"with a floor":     func(f *family) { f.vacant.Floor = f.now.Add(time.Hour) },
		"open on paper":    func(f *family) { f.vacant.Reachability = composite.PublicA2A },
		"of a v1 manifest": func(f *family) { f.vacant.Reachability = "" },
		"without a parent": func(f *family) { f.vacant.Parent = nil },
		"of a locked key": func(f *family) {
			f.vacant.Ready = func(context.Context) error { return errors.New("the vault is away") }
		},
	}
	for state, change := range states {
		for name, e := range envelopes {
			for handler, send := range handlers {
				for _, route := range []identity.ID{{}, to, {9}} {
					child, nobody := newFamily(t), newFamily(t)
					for _, one := range []*family{child, nobody} {
						one.parent, one.child, one.sibling, one.stranger, one.now = f.parent, f.child, f.sibling, f.stranger, f.now
						one.vacant = f.vacant
						change(one)
					}
					want := wantMembers(send(nobody.host(t, false), t.Context(), route, e))
					got := wantMembers(send(child.host(t, true), t.Context(), route, e))
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s of %s to a child %s, by %x (-not hosted +closed):\n%s", handler, name, state, route[:1], diff)
					}
					if n := rowsOf(t, child.store, call.Pair{Caller: e.From, Vacant: to}); n != 0 {
						t.Errorf("%s of %s to a child %s left %d rows", handler, name, state, n)
					}
				}
			}
		}
	}
}

// A child that was open may have answered strangers, and has their rows.
func TestAChildThatClosedIsAsOneThatNeverWasHere(t *testing.T) {
	f := newFamily(t)
	f.vacant.IsClosedChild, f.vacant.Reachability = false, composite.PublicA2A
	h := f.host(t, true)
	old := first(t, f.stranger, f.child.ID(), "hi")
	if o := h.Send(t.Context(), identity.ID{}, old); o.Problem != nil {
		t.Fatal(o.Problem)
	}
	f.vacant.IsClosedChild = true
	h = f.host(t, true)
	f.store = memory.New()
	nobody := f.host(t, false)
	stale := first(t, f.stranger, f.child.ID(), "no reset")
	for handler, send := range handlers {
		for _, e := range []*envelope.Envelope{old, stale} {
			want, got := wantMembers(send(nobody, t.Context(), identity.ID{}, e)), wantMembers(send(h, t.Context(), identity.ID{}, e))
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s (-not hosted +closed):\n%s", handler, diff)
			}
		}
	}
}

func TestParentAndSiblingsCallAClosedChild(t *testing.T) {
	for name, who := range map[string]func(*family) *identity.Key{
		"parent":  func(f *family) *identity.Key { return f.parent },
		"sibling": func(f *family) *identity.Key { return f.sibling },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFamily(t)
			h, from := f.host(t, true), who(f)
			e := first(t, from, f.child.ID(), "hi")
			if o := h.Send(t.Context(), identity.ID{}, e); o.Problem != nil || o.Reply == nil {
				t.Fatalf("Send() = %v, want the answer", o.Problem)
			}
			if o := h.Ask(t.Context(), f.child.ID(), e); o.State != call.Answered {
				t.Errorf("Ask() = %v, %q, want answered", o.Problem, o.State)
			}
			f.now = f.now.Add(time.Second)
			if o := h.Reset(t.Context(), identity.ID{}, first(t, from, f.child.ID(), envelope.ResetText)); o.Problem != nil {
				t.Errorf("Reset() = %v, want done", o.Problem)
			}
			f.vacant.State = lifecycle.Hibernating
			if o := f.host(t, true).Send(t.Context(), identity.ID{}, first(t, from, f.child.ID(), "ho")); !problem.Is(o.Problem, problem.NotAccepting) {
				t.Errorf("Send() to it asleep = %v, want not accepting", o.Problem)
			}
			// The holder of a revoked key may not be its owner.
			f.register.revoke(from.ID())
			for handler, send := range handlers {
				o, want := send(f.host(t, true), t.Context(), identity.ID{}, e), send(f.host(t, false), t.Context(), identity.ID{}, e)
				if diff := cmp.Diff(wantMembers(want), wantMembers(o)); diff != "" {
					t.Errorf("%s by a revoked key (-not hosted +closed):\n%s", handler, diff)
				}
			}
		})
	}
}

func TestSiblingsAreReadOnceASecond(t *testing.T) {
	f := newFamily(t)
	h := f.host(t, true)
	f.away = errors.New("away")
	e := first(t, f.sibling, f.child.ID(), "hi")
	if o := h.Send(t.Context(), identity.ID{}, e); !problem.Is(o.Problem, problem.Unavailable) {
		t.Errorf("Send() while kinship is unknown = %v, want unavailable", o.Problem)
	}
	f.away, f.asked = nil, 0
	for range 3 {
		if o := h.Ask(t.Context(), identity.ID{}, e); o.State != call.Unknown {
			t.Errorf("Ask() = %v, %q, want unknown", o.Problem, o.State)
		}
		h.Send(t.Context(), identity.ID{}, first(t, f.parent, f.child.ID(), "hi"))
	}
	if f.asked != 1 {
		t.Errorf("kinship was asked for %d times within a second, want once", f.asked)
	}
	f.now = f.now.Add(time.Second)
	h.Ask(t.Context(), identity.ID{}, e)
	if f.asked != 2 {
		t.Errorf("kinship was asked for %d times after a second, want twice", f.asked)
	}
}

// A cached kinship applies to its caller and its parent only.
func TestKinshipIsOfOneCallerAndOneParent(t *testing.T) {
	f := newFamily(t)
	for _, order := range [][]*identity.Key{{f.sibling, f.stranger}, {f.stranger, f.sibling}} {
		f.store = memory.New()
		h := f.host(t, true)
		send := func(from *identity.Key) call.Outcome {
			return h.Send(t.Context(), identity.ID{}, first(t, from, f.child.ID(), "hi"))
		}
		var refused *problem.Error // of the stranger
		for _, from := range order {
			o := send(from)
			if (o.Problem == nil) != (from == f.sibling) {
				t.Fatalf("Send() by a sibling %t = %v", from == f.sibling, o.Problem)
			}
			if o.Problem != nil {
				refused = o.Problem
			}
		}
		another, child := f.stranger.ID(), f.vacant
		child.Parent = &another
		h.Directory = call.SingleVacant(child)
		if o := send(f.sibling); o.Problem == nil || o.Problem.Kind != refused.Kind {
			t.Errorf("Send() by the child of another parent = %v, want %v", o.Problem, refused)
		}
	}
}

// An open child's manifest publishes who may call it.
func TestAnOpenChildOfItsTreeAloneRefusesStrangersByName(t *testing.T) {
	for reach, refused := range map[composite.Reachability]bool{
		composite.ParentOnly: true, composite.ParentBridged: true, composite.PublicA2A: false, "": false,
	} {
		t.Run(string(reach), func(t *testing.T) {
			f := newFamily(t)
			f.vacant.IsClosedChild, f.vacant.Reachability = false, reach
			h := f.host(t, true)
			for name, from := range map[string]*identity.Key{"stranger": f.stranger, "parent": f.parent, "sibling": f.sibling} {
				no := refused && name == "stranger"
				for _, text := range []string{"hi", envelope.ResetText} {
					handler := handlers["send"]
					if text != "hi" {
						handler = handlers["reset"]
						f.now = f.now.Add(time.Second)
					}
					o := handler(h, t.Context(), identity.ID{}, first(t, from, f.child.ID(), text))
					if (o.Problem != nil) != no || no && !problem.Is(o.Problem, problem.TreeOnly) {
						t.Errorf("%s of the %s = %v, want it refused: %t", text, name, o.Problem, no)
					}
					if no && (!o.HasChain || o.ExpectedSeq != 1) {
						t.Errorf("%s of the %s tells the chain: %t, %d, want 1", text, name, o.HasChain, o.ExpectedSeq)
					}
				}
			}
		})
	}
}

func TestCallsOfRelatedVacantsAreObserved(t *testing.T) {
	for name, tt := range map[string]struct {
		kinCache bool
		observe  func(context.Context, call.Observation)
		want     int
	}{
		"a child":                {true, nil, 1},
		"a vacant without kin":   {false, nil, 0},
		"one who panics":         {true, func(context.Context, call.Observation) { panic("lost") }, 1},
		"one who takes too long": {true, func(ctx context.Context, _ call.Observation) { <-ctx.Done() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFamily(t)
			f.vacant.HasKin = tt.kinCache
			h := f.host(t, true)
			seen := make(chan call.Observation, 2)
			h.Observe = func(ctx context.Context, o call.Observation) {
				seen <- o
				if tt.observe != nil {
					tt.observe(ctx, o)
				}
			}
			o := h.Send(t.Context(), identity.ID{}, first(t, f.parent, f.child.ID(), "hi"))
			if o.Problem != nil {
				t.Fatalf("Send() = %v, want the answer whatever observes it", o.Problem)
			}
			if len(seen) != tt.want {
				t.Fatalf("%d answers were observed, want %d", len(seen), tt.want)
			}
			if tt.want == 0 {
				return
			}
			got := <-seen
			want := call.Observation{Pair: call.Pair{Caller: f.parent.ID(), Vacant: f.child.ID()}, Parent: f.vacant.Parent, Position: 1, Time: o.Reply.Time, Duration: got.Duration}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("observed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheHandlerAdmitsWhomTheManifestAdmits(t *testing.T) {
	f := newFamily(t)
	callers := map[string]*identity.Key{"parent": f.parent, "sibling": f.sibling, "stranger": f.stranger}
	for _, closed := range []bool{true, false} {
		for _, schema := range []composite.SchemaVersion{composite.SchemaV1, composite.SchemaV2} {
			for _, reach := range []composite.Reachability{composite.ParentOnly, composite.ParentBridged, composite.PublicA2A} {
				m := composite.Manifest{ParentID: f.parent.ID(), ChildID: f.child.ID(), BirthPath: "D1", ClosedByDefault: closed, Reachability: reach, OutboundPolicy: composite.NoExternal, SchemaVersion: schema}
				f.vacant.IsClosedChild, f.vacant.Reachability = closed, ""
				if schema == composite.SchemaV2 {
					f.vacant.Reachability = reach
				}
				for name, from := range callers {
					f.store = memory.New()
					o := f.host(t, true).Send(t.Context(), identity.ID{}, first(t, from, f.child.ID(), "hi"))
					if want := m.CanBeCalledBy(from.ID(), []identity.ID{f.sibling.ID()}); want != (o.Problem == nil) {
						t.Errorf("closed %t, %s, %s: a call by the %s = %v, the manifest admits them: %t", closed, schema, reach, name, o.Problem, want)
					}
				}
			}
		}
	}
}
