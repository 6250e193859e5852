package blackbox

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func newKey(t *testing.T) *identity.Key {
	t.Helper()
	k, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func newKeys(t *testing.T) keys { return keys{newKey(t), newKey(t), newKey(t)} }

// self is the hosts' own identity, the same for both.
func (k keys) self(context.Context) (identity.Signer, error) { return k.host, nil }

func newOutsiders(t *testing.T, firm *identity.Key) *outsiders {
	t.Helper()
	return &outsiders{t: t, stranger: newKey(t), second: newKey(t), firm: firm.ID(), now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}
}

// outside lets the floors of imported vacants and a minute pass, so that hosts'
// caches expire, and makes unrelated callers of that time.
func outside(t *testing.T, k keys, hosts ...*host) *outsiders {
	t.Helper()
	o := newOutsiders(t, k.firm)
	for _, h := range hosts {
		h.Clock.Advance(call.MaxSkew + time.Minute)
		o.now = h.Clock.NowFunc(0)()
	}
	return o
}

func TestAVacantWithClosedChildrenLooksLikeOneWithout(t *testing.T) {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, live := range map[string]func(*testing.T, *host, vacants.Record){
		"just born": func(*testing.T, *host, vacants.Record) {},
		"asleep": func(t *testing.T, h *host, r vacants.Record) {
			_, err := h.Vacants.Pause(t.Context(), r.ID)
			must(t, err)
		},
		"sunk": func(t *testing.T, h *host, r vacants.Record) {
			_, err := h.Vacants.Sink(t.Context(), r.ID)
			must(t, err)
		},
		"archived": func(t *testing.T, h *host, r vacants.Record) {
			_, err := h.Vacants.Sink(t.Context(), r.ID)
			must(t, err)
			_, err = h.Vacants.Archive(t.Context(), r.ID)
			must(t, err)
		},
		"deleted": func(t *testing.T, h *host, r vacants.Record) {
			_, err := h.Vacants.Sink(t.Context(), r.ID)
			must(t, err)
			_, err = h.Vacants.Archive(t.Context(), r.ID)
			must(t, err)
			_, err = h.Vacants.Delete(t.Context(), r.ID)
			must(t, err)
		},
		"called by its parent": func(t *testing.T, h *host, r vacants.Record) {
			if got := h.ask(h.call(t, *r.Parent, r.ID)); got.Status != http.StatusOK {
				t.Fatalf("a call of the parent = %d %s", got.Status, got.Body)
			}
		},
		"refused at the gate": func(t *testing.T, h *host, r vacants.Record) {
			if got := h.ask(h.graduation(t, *r.Parent, r.ID)); got.Status != http.StatusAccepted || !strings.Contains(got.Body, `"refused"`) {
				t.Fatalf("an attempt of the child = %d %s, want it refused", got.Status, got.Body)
			}
		},
		"a parent itself": func(t *testing.T, h *host, r vacants.Record) { h.spawn(t, r.ID, "clerk") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			alone, firm := open(t, k), open(t, k)
			one, two := firm.spawn(t, k.firm.ID(), "drafter"), firm.spawn(t, k.firm.ID(), "reviewer")
			live(t, firm, one)
			alone.seal(t)
			firm.seal(t)
			o := outside(t, k, alone, firm)
			compare(t, alone, firm, o.battery(k.firm.ID(), one.ID, two.ID, newKey(t).ID()))
		})
	}
}

// With several public vacants the host route names nobody; closed children do
// not count.
func TestClosedChildrenDoNotCount(t *testing.T) {
	k := newKeys(t)
	other := vacants.CreateSpec{Name: "other", Capability: "counts", Substrate: "echo", Key: k.other}
	alone, firm := open(t, k, other), open(t, k, other)
	child := firm.spawn(t, k.firm.ID(), "drafter")
	o := outside(t, k, alone, firm)
	compare(t, alone, firm, o.battery(k.firm.ID(), child.ID))
}

// Neither a price of the parent nor a caller with an account tells of the children.
func TestMoneyTellsNothingOfClosedChildren(t *testing.T) {
	k := newKeys(t)
	alone, firm := open(t, k), open(t, k)
	child := firm.spawn(t, k.firm.ID(), "drafter")
	o := outside(t, k, alone, firm)
	for _, h := range []*host{alone, firm} {
		h.charge(t, k.firm.ID(), o.stranger)
		h.seal(t)
	}
	compare(t, alone, firm, o.battery(k.firm.ID(), child.ID))
}

// Everybody learns that a key is revoked, but not why: for a closed child the
// registry shows what it shows for a key that no host here has.
func TestARevokedChildLooksLikeARevokedKeyOfNobody(t *testing.T) {
	k := newKeys(t)
	alone, firm := open(t, k), open(t, k)
	child := firm.spawn(t, k.firm.ID(), "drafter")
	if _, _, err := firm.Vacants.Revoke(t.Context(), child.ID, "stolen"); err != nil {
		t.Fatal(err)
	}
	e := firm.ownEvent(t, child.ID, 2)
	if got := alone.ask(revocation(t, e)); got.Status != http.StatusOK {
		t.Fatalf("the same revocation elsewhere = %d %s, want 200", got.Status, got.Body)
	}
	alone.seal(t)
	firm.seal(t)
	o := outside(t, k, alone, firm)
	compare(t, alone, firm, o.battery(k.firm.ID(), child.ID))
}

// The holder of a revoked key may be anybody, even while the host is caching it
// as the parent's.
func TestARevokedParentSeesNoMoreThanAStranger(t *testing.T) {
	k := newKeys(t)
	alone, firm := open(t, k), open(t, k)
	child := firm.spawn(t, k.firm.ID(), "drafter")
	e := &envelope.Envelope{From: k.firm.ID(), To: child.ID, Seq: 1, Time: firm.Clock.NowFunc(0)(), Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}}}
	send := func() request {
		hash, err := e.Sign(t.Context(), k.firm)
		if err != nil {
			t.Fatal(err)
		}
		r := request{method: "POST", target: message.SendPath, body: envelope.AppendRequest(nil, nil, e)}
		e.Seq, e.Prev = e.Seq+1, hash
		return r
	}
	if got := firm.ask(send()); got.Status != http.StatusOK {
		t.Fatalf("a call of the parent = %d %s, want the answer", got.Status, got.Body)
	}
	for _, h := range []*host{alone, firm} {
		if _, _, err := h.Vacants.Revoke(t.Context(), k.firm.ID(), "stolen"); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []request{send(), send()} {
		for _, path := range []string{message.SendPath, message.AskPath, message.ResetPath} {
			r.target = path
			want, got := alone.ask(r), firm.ask(r)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%v (-without children +with):\n%s", r, diff)
			}
		}
	}
}

// ownEvent returns an event that only its actor may read.
func (h *host) ownEvent(t *testing.T, actor identity.ID, seq uint64) registry.LoggedEvent {
	t.Helper()
	if got := h.ask(request{method: "GET", target: fmt.Sprintf("/v1/event/%d", seq)}); got.Status != http.StatusNotFound {
		t.Errorf("event %d = %d %s for everybody, want 404", seq, got.Status, got.Body)
	}
	e, err := h.Registry.Event(t.Context(), seq, &actor)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// revocation is the request that made an event.
func revocation(t *testing.T, e registry.LoggedEvent) request {
	t.Helper()
	reason, err := e.ParseRevoke()
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(registryclient.Revocation{ID: e.Actor, Reason: reason, Time: e.Time, ActorSeq: e.ActorSeq, IdempotencyKey: e.IdempotencyKey, Signature: hex.EncodeToString(e.Signature)})
	if err != nil {
		t.Fatal(err)
	}
	return request{method: "POST", target: "/v1/revoke_halo", body: body}
}

// A composite fails with the texts and numbers of any vacant.
func TestACompositeFailsLikeAnyVacant(t *testing.T) {
	k := newKeys(t)
	alone, firm := open(t, k), open(t, k)
	child := firm.spawn(t, k.firm.ID(), "drafter")
	p, err := plan.Parse([]byte(`{"version":1,"delegate":[{"child":"drafter","kind":"draft","task":"{input}"}],"aggregate":{"how":"first"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := firm.Vacants.SetPlan(t.Context(), vacants.OperatorAsker(), k.firm.ID(), p); err != nil {
		t.Fatal(err)
	}
	o := outside(t, k, alone, firm)
	compare(t, alone, firm, append(o.reads(k.firm.ID()), o.everywhere()...))

	first := o.sign(o.stranger.ID(), k.firm.ID(), 1, "hi", o.now)
	ask := request{method: "POST", target: message.SendPath, body: envelope.AppendRequest(nil, nil, first)}
	for _, h := range []*host{alone, firm} {
		if got := h.ask(ask); got.Status != http.StatusOK {
			t.Fatalf("%v = %d %s, want the answer", ask, got.Status, got.Body)
		}
	}
	if _, err := firm.Vacants.Pause(t.Context(), child.ID); err != nil {
		t.Fatal(err)
	}
	// A vacant that is not a composite. Its substrate is unreachable.
	other, err := firm.Vacants.Create(t.Context(), vacants.CreateSpec{Name: "other", Capability: "counts", Substrate: "http:http://127.0.0.1:9", Key: k.other})
	if err != nil {
		t.Fatal(err)
	}
	firm.Clock.Advance(call.MaxSkew + time.Minute)
	o.now = firm.Clock.NowFunc(0)()
	second := o.sign(o.second.ID(), k.firm.ID(), 1, "hi", o.now)
	want := o.sign(o.second.ID(), other.ID, 1, "hi", o.now)
	got := firm.ask(request{method: "POST", target: message.SendPath, body: envelope.AppendRequest(nil, nil, second)})
	plain := firm.ask(request{method: "POST", target: message.SendPath, body: envelope.AppendRequest(nil, nil, want)})
	plain.Body = strings.ReplaceAll(plain.Body, want.Hash().String(), second.Hash().String())
	if diff := cmp.Diff(plain, got); diff != "" || got.Status != http.StatusInternalServerError {
		t.Errorf("a call that fails = %d (-any vacant +composite):\n%s", got.Status, diff)
	}
}

// call is the first call of one hosted vacant to another.
func (h *host) call(t *testing.T, from, to identity.ID) request {
	t.Helper()
	e := &envelope.Envelope{From: from, To: to, Seq: 1, Time: h.Clock.NowFunc(0)(), Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hi"}}}
	if err := h.Vacants.WithSigner(t.Context(), from, func(s identity.Signer) error {
		_, err := e.Sign(t.Context(), s)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return request{method: "POST", target: message.SendPath, body: envelope.AppendRequest(nil, nil, e)}
}

// graduation asks for a child's graduation, signed by both.
func (h *host) graduation(t *testing.T, parent, child identity.ID) request {
	t.Helper()
	r := composite.GraduationRequest{ParentID: parent, ChildID: child, CapabilityText: "reviews contracts"}
	for id, sign := range map[identity.ID]func(context.Context, identity.Signer) error{parent: r.SignParent, child: r.SignChild} {
		if err := h.Vacants.WithSigner(t.Context(), id, func(s identity.Signer) error { return sign(t.Context(), s) }); err != nil {
			t.Fatal(err)
		}
	}
	return request{method: "POST", target: "/v1/graduations", body: []byte(`{"request":` + string(r.Blob()) + `}`)}
}

// Strangers see nothing of a closed child; its own family does.
func TestParentAndSiblingsLookIn(t *testing.T) {
	k := newKeys(t)
	firm := open(t, k)
	one, two := firm.spawn(t, k.firm.ID(), "drafter"), firm.spawn(t, k.firm.ID(), "reviewer")
	for name, from := range map[string]identity.ID{"parent": k.firm.ID(), "sibling": two.ID} {
		r := firm.call(t, from, one.ID)
		for _, path := range []string{message.SendPath, "/v/" + one.ID.String() + message.AskPath} {
			r.target = path
			if got := firm.ask(r); got.Status != http.StatusOK || !strings.Contains(got.Body, "echo from") {
				t.Errorf("POST %s by the %s = %d %s, want the answer", path, name, got.Status, got.Body)
			}
		}
	}
}

// A parent that requests a child with the name of another's child gets it, and
// it is called like any other.
func TestAskingForANameTellsNothingOfOthers(t *testing.T) {
	k := newKeys(t)
	other := vacants.CreateSpec{Name: "other", Capability: "counts", Substrate: "echo", Key: k.other}
	alone, firm := open(t, k, other), open(t, k, other)
	child, gone := firm.spawn(t, k.firm.ID(), "drafter"), firm.spawn(t, k.firm.ID(), "former")
	for _, step := range []func(context.Context, identity.ID) (vacants.Record, error){firm.Vacants.Sink, firm.Vacants.Archive, firm.Vacants.Delete} {
		if _, err := step(t.Context(), gone.ID); err != nil {
			t.Fatal(err)
		}
	}
	signed := firm.asks(t, k.firm, "clerk", 0)
	if got := firm.ask(signed); got.Status != http.StatusCreated {
		t.Fatalf("%v = %d %s, want 201", signed, got.Status, got.Body)
	}
	for i, name := range []string{"firm", child.Name, gone.Name, "clerk", "nobody"} {
		r := firm.asks(t, k.other, name, i)
		want, got := alone.ask(r), firm.ask(r)
		if want.Status != http.StatusCreated || got.Status != want.Status {
			t.Errorf("%v = %d without children, %d %s with, want 201", r, want.Status, got.Status, got.Body)
		}
		if called := fmt.Sprintf(`"name":"%s-%s"`, name, k.other.ID().Short()); !strings.Contains(want.Body, called) || !strings.Contains(got.Body, called) {
			t.Errorf("%v = %s without children, %s with, want %s", r, want.Body, got.Body, called)
		}
	}
}

// asks is a parent's own request for a child.
func (h *host) asks(t *testing.T, parent *identity.Key, name string, nonce int) request {
	t.Helper()
	r := composite.SpawnRequest{ParentID: parent.ID(), BirthPath: "D2", Name: name, Nonce: fmt.Sprintf("%032x", nonce), Time: h.Clock.NowFunc(0)()}
	if err := r.Sign(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	return request{method: "POST", target: "/v1/admin/vacants/" + parent.ID().String() + "/children", body: r.Blob()}
}
