package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

func TestAPublicationIsKeptWithWhatItClaims(t *testing.T) {
	c, k, parent := newClock(), key(1), key(2).ID()
	r := open(memory.New(), c)
	p := publication(t, k, draft{BeforeSign: func(p *registry.Publication) {
		p.DeclaredCapabilities, p.Parent = []string{"tab\there", "法律"}, &parent
		p.BaseModel, p.Family, p.Owner, p.Version = text("opus"), text("claude"), text("acme"), text("1.2.3")
	}})
	receipt, err := r.Publish(t.Context(), p)
	must(t, err)
	signed, err := card.Parse(p.Card)
	must(t, err)
	if want := (registry.Receipt{ID: k.ID(), Visibility: lifecycle.Public, Seq: 1, CardHash: signed.Hash(), AwaitsProbe: true}); receipt != want {
		t.Errorf("Publish() = %+v, want %+v", receipt, want)
	}
	got := get(t, r, k.ID())
	want := registry.Registration{
		ID: k.ID(), Card: signed.Blob(), CardHash: signed.Hash(),
		Visibility: lifecycle.Public, SignedVisibility: lifecycle.Public, State: lifecycle.Active, StateSince: start, Status: registry.StatusActive, AwaitsProbe: true,
		DeclaredCapabilities: []string{"tab\there", "法律"}, Family: "claude", Owner: "acme", BaseModel: "opus", Version: "1.2.3",
		Parent: &parent, FirstSeq: 1, LastSeq: 1, ActorSeq: 1, ChangedAt: start, ChangeKey: registry.FormatChangeKey(start), DocVersion: 1,
	}
	if diff := cmp.Diff(want, got, asKept); diff != "" {
		t.Errorf("Get() (-want +got):\n%s", diff)
	}
}

func TestPublishDefaultsAndUnchangedFields(t *testing.T) {
	r, k := open(memory.New(), newClock()), key(1)
	mustPublish(t, r, k, draft{})
	g := get(t, r, k.ID())
	if diff := cmp.Diff([]any{[]string{"translate English to Chinese"}, "unknown", "0.0.1", "", ""},
		[]any{g.DeclaredCapabilities, g.Family, g.Version, g.Owner, g.BaseModel}); diff != "" {
		t.Errorf("nothing said (-want +got):\n%s", diff)
	}
	mustPublish(t, r, k, draft{Seq: 2, BeforeSign: func(p *registry.Publication) {
		p.Family, p.Owner, p.DeclaredCapabilities = text("gpt"), text("acme"), []string{"x"}
	}})
	mustPublish(t, r, k, draft{Seq: 3, BeforeSign: func(p *registry.Publication) { p.Owner = text("") }})
	g = get(t, r, k.ID())
	if diff := cmp.Diff([]any{[]string{"translate English to Chinese"}, "gpt", ""}, []any{g.DeclaredCapabilities, g.Family, g.Owner}); diff != "" {
		t.Errorf("said once (-want +got):\n%s", diff)
	}
}

func TestLocalVacantIsHidden(t *testing.T) {
	r, k := open(memory.New(), newClock()), key(1)
	if got := mustPublish(t, r, k, draft{State: lifecycle.Local}); got.Visibility != lifecycle.Hidden {
		t.Errorf("Publish() of a LOCAL vacant = %s, want NONE", got.Visibility)
	}
	p := publication(t, k, draft{Seq: 2, AfterSign: func(p *registry.Publication) { p.State = lifecycle.Local }})
	if _, err := r.Publish(t.Context(), p); !problem.Is(err, problem.BadSignature) {
		t.Errorf("Publish() of a LOCAL vacant that signed PUBLIC = %v, want a bad signature", err)
	}
}

// refusal is a refused publication in a registry where key(1) has published once.
type refusal struct {
	name string
	p    func(*testing.T) registry.Publication
	kind problem.Kind
	text string // which the detail contains
}

func refusals() []refusal {
	of := func(d draft) func(*testing.T) registry.Publication {
		return func(t *testing.T) registry.Publication { return publication(t, key(1), d) }
	}
	second := func(with func(*registry.Publication)) func(*testing.T) registry.Publication {
		return of(draft{Seq: 2, BeforeSign: with})
	}
	changed := func(after func(*registry.Publication)) func(*testing.T) registry.Publication {
		return of(draft{Seq: 2, AfterSign: after})
	}
	self, other := key(1).ID(), key(2).ID()
	known := func(t *testing.T) identity.Hash {
		p := publication(t, key(1), draft{})
		c, err := card.Parse(p.Card)
		must(t, err)
		return c.Hash()
	}
	return []refusal{
		{"a state that is none", changed(func(p *registry.Publication) { p.State = "AWAKE" }), problem.InvalidMember, `runtime_state: expected LOCAL`},
		{"a visibility that is none", changed(func(p *registry.Publication) { p.Visibility = "LISTED" }), problem.InvalidMember, "visibility: expected NONE"},
		{"count 0", changed(func(p *registry.Publication) { p.ActorSeq = 0 }), problem.InvalidMember, "event_actor_seq: expected 1"},
		{"a count beyond all", changed(func(p *registry.Publication) { p.ActorSeq = 1 << 53 }), problem.InvalidMember, "event_actor_seq"},
		{"a time before 1970", changed(func(p *registry.Publication) { p.Time = -1 }), problem.InvalidMember, "event_ts_ms: expected"},
		{"a long key", changed(func(p *registry.Publication) { p.IdempotencyKey = strings.Repeat("k", event.MaxIdempotencyKeyBytes+1) }), problem.InvalidMember, "event_idempotency_key"},
		{"a key that is not UTF-8", changed(func(p *registry.Publication) { p.IdempotencyKey = "\xff" }), problem.InvalidMember, "event_idempotency_key: expected UTF-8"},
		{"a long owner", second(func(p *registry.Publication) { p.Owner = text(strings.Repeat("o", 129)) }), problem.InvalidMember, "owner_org"},
		{"a long family", second(func(p *registry.Publication) { p.Family = text(strings.Repeat("o", 129)) }), problem.InvalidMember, "base_model_family"},
		{"many capabilities", second(func(p *registry.Publication) { p.DeclaredCapabilities = make([]string, 33) }), problem.InvalidMember, "declared_capabilities: expected at most 32, got 33"},
		{"a long capability", second(func(p *registry.Publication) { p.DeclaredCapabilities = []string{strings.Repeat("c", 1025)} }), problem.InvalidMember, "declared_capabilities[0]"},
		{"capabilities that fill a table", second(func(p *registry.Publication) {
			p.DeclaredCapabilities = slices.Repeat([]string{strings.Repeat("\x01", 1024)}, 2)
		}), problem.InvalidMember, "declared_capabilities: expected at most 8192 bytes in all, got 12292"},
		{"a card that is no JSON", changed(func(p *registry.Publication) { p.Card = []byte("card") }), problem.Malformed, "capability card parse failed: capability card not valid JSON"},
		{"an object that is no card", changed(func(p *registry.Publication) { p.Card = []byte("{}") }), problem.Malformed, "capability card parse failed: invalid capability card: 'vacant_id'"},
		{"a card of another version", changed(func(p *registry.Publication) {
			p.Card = []byte(strings.Replace(string(p.Card), `"halo_version":1`, `"halo_version":2`, 1))
		}), problem.Malformed, "capability card parse failed: halo_version 2 not in [1, 1]"},
		{"a huge card", changed(func(p *registry.Publication) { p.Card = make([]byte, card.MaxBlob+1) }), problem.TooLarge, "capability card"},
		{"a card that somebody changed", changed(func(p *registry.Publication) {
			p.Card = []byte(strings.Replace(string(p.Card), "English", "Klingon", 1))
		}), problem.Malformed, "publish_halo_signed: capability card signature invalid"},
		{"a card with two readings", func(t *testing.T) registry.Publication { return twofold(t) }, problem.Malformed, "expected no U+001F"},
		{"another's event", changed(func(p *registry.Publication) { p.Signature[0] ^= 1 }), problem.BadSignature, "event signature did not verify"},
		{"a visibility that was not signed", changed(func(p *registry.Publication) { p.Visibility = lifecycle.Restricted }), problem.BadSignature, "event signature did not verify"},
		{"a key used for something else", of(draft{Seq: 2, Key: "first", Visibility: lifecycle.Restricted}), problem.IdempotencyConflict, "idempotency_key first reused with different payload"},
		{"a count used for something else under its key", of(draft{Seq: 1, Key: "first", Visibility: lifecycle.Hidden}), problem.IdempotencyConflict, "idempotency_key first reused with different payload"},
		{"the count again", of(draft{Seq: 1, Key: "other"}), problem.OutOfSequence, "actor_seq must equal last_seq + 1 = 2, got 1"},
		{"a count left out", of(draft{Seq: 9}), problem.OutOfSequence, "actor_seq must equal last_seq + 1 = 2, got 9"},
		{"a time to come", of(draft{Seq: 2, SignedAt: start.Add(6 * time.Minute)}), problem.ClockSkew, "event_ts_ms: expected a time from 24 hours before"},
		{"a time long gone", of(draft{Seq: 2, SignedAt: start.Add(-25 * time.Hour)}), problem.ClockSkew, "event_ts_ms: expected a time from 24 hours before"},
		{"a parent that was none", second(func(p *registry.Publication) { p.Parent = &other }), problem.Malformed,
			"publish_halo republish: parent_id is immutable; existing=None new='" + other.String() + "'"},
		{"itself for a parent", func(t *testing.T) registry.Publication {
			return publication(t, key(2), draft{BeforeSign: func(p *registry.Publication) { p.Parent = &other }})
		}, problem.Malformed, "parent_id: expected a vacant other than the child"},
		{"another card of the version", of(draft{Seq: 2, Text: "review code"}), problem.Equivocation, "this halo_version already has the card "},
		{"another card that follows none", func(t *testing.T) registry.Publication {
			return publication(t, key(1), draft{Seq: 2, Text: "review code", Key: event.ReplacesKey(identity.Hash{1})})
		}, problem.Equivocation, "begins with \"" + "replaces:"},
		{"an endpoint in clear", replaced(known, "http://public.example/a2a/message/send"), problem.Malformed, "endpoint: expected an https URL"},
		{"a neighbour in clear", replaced(known, "http://127.0.0.1:8081/a2a/message/send"), problem.Malformed, "endpoint: expected an https URL"},
		{"another vacant's address here", replaced(known, "http://host.example/v/"+other.String()), problem.Malformed, "endpoint: expected an https URL"},
		{"an endpoint that is no URL", replaced(known, "here"), problem.Malformed, "endpoint: "},
		{"an endpoint with a password", replaced(known, "https://me:secret@public.example/"), problem.Malformed, "endpoint: "},
		{"an endpoint with a fragment", replaced(known, "https://public.example/#x"), problem.Malformed, "endpoint: expected no fragment"},
		{"a long endpoint", replaced(known, "https://public.example/"+strings.Repeat("x", 2048)), problem.Malformed, "endpoint: expected at most 2048 bytes"},
		{"an endpoint at an address inside", replaced(known, "https://10.0.0.1/"), problem.Malformed, "endpoint: expected a public address, got \"10.0.0.1\", which is private (RFC 1918)"},
		{"another's listing", second(func(p *registry.Publication) {
			l := listing.New(other, 1)
			p.Listing = &l
		}), problem.Malformed, "listing: expected the listing of "},
		{"a listing that nobody signed", second(func(p *registry.Publication) {
			l := listing.New(self, 1)
			p.Listing = &l
		}), problem.BadSignature, "listing signature did not verify"},
	}
}

// replaced is a second publication whose card replaces the first at an
// endpoint.
func replaced(known func(*testing.T) identity.Hash, endpoint string) func(*testing.T) registry.Publication {
	return func(t *testing.T) registry.Publication {
		return publication(t, key(1), draft{Seq: 2, Endpoint: endpoint, Key: event.ReplacesKey(known(t))})
	}
}

// twofold returns a publication whose card contains the separator of the signed fields, so that its
// signature also verifies for another card.
func twofold(t *testing.T) registry.Publication {
	t.Helper()
	k := key(1)
	c, err := card.New(k.ID(), "x", []string{"mock"}, "https://a.example/")
	must(t, err)
	c.CapabilityText = "a\x1fb"
	c.Signature, err = k.Sign(t.Context(), c.AppendSignedBytes(nil))
	must(t, err)
	return publication(t, k, draft{Seq: 2, AfterSign: func(p *registry.Publication) { p.Card = c.Blob() }})
}

func TestEveryRefusalHasItsKindAndChangesNothing(t *testing.T) {
	for _, tt := range refusals() {
		t.Run(tt.name, func(t *testing.T) {
			inner := memory.New()
			r := open(inner, newClock())
			mustPublish(t, r, key(1), draft{Key: "first"})
			before := everything(t, inner)
			_, err := r.Publish(t.Context(), tt.p(t))
			if !problem.Is(err, tt.kind) || !strings.Contains(problem.AsError(err).Text(), tt.text) {
				t.Errorf("Publish() = %v (%s), want %s with %q", err, problem.AsError(err).Kind, tt.kind, tt.text)
			}
			if diff := cmp.Diff(before, everything(t, inner)); diff != "" {
				t.Errorf("a refusal changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestAnEquivocationNamesBothCards(t *testing.T) {
	r, k := open(memory.New(), newClock()), key(1)
	first := mustPublish(t, r, k, draft{})
	p := publication(t, k, draft{Seq: 2, Text: "another"})
	_, err := r.Publish(t.Context(), p)
	var two *registry.EquivocationError
	if !errors.As(err, &two) {
		t.Fatalf("Publish() = %v, want an equivocation", err)
	}
	c, err := card.Parse(p.Card)
	if err != nil || two.KnownHash != first.CardHash || two.SentHash != c.Hash() {
		t.Errorf("known %s, sent %s, want %s and %s", two.KnownHash, two.SentHash, first.CardHash, c.Hash())
	}
	// Only the actor may declare that one card replaces the other.
	got := mustPublish(t, r, k, draft{Seq: 2, Text: "another", Key: event.ReplacesKey(first.CardHash)})
	if got.CardHash != c.Hash() || got.Seq != 2 {
		t.Errorf("Publish() with a replaces key = %+v, want the new card at 2", got)
	}
	// The actor may return to the first card with a new idempotency key.
	back := mustPublish(t, r, k, draft{Seq: 3, Key: event.ReplacesKeyAt(c.Hash(), 3)})
	if back.CardHash != first.CardHash || back.Replayed {
		t.Errorf("Publish() of the first card again = %+v, want it at 3", back)
	}
	// The same card with another visibility is not an equivocation.
	mustPublish(t, r, k, draft{Seq: 4, Visibility: lifecycle.Restricted})
}

// In the reference, replaying a recorded publication restores the old card, and the sender may
// change the unsigned members.
func TestAPublishSentAgainChangesNothing(t *testing.T) {
	inner, c, k, parent := memory.New(), newClock(), key(1), key(9).ID()
	r := open(inner, c)
	first := mustPublish(t, r, k, draft{Key: "one"})
	mustPublish(t, r, k, draft{Seq: 2, Key: event.ReplacesKey(first.CardHash), Text: "new words", Visibility: lifecycle.Hidden})
	before := everything(t, inner)
	c.Advance(30 * 24 * time.Hour) // long after an event of that day would be accepted
	l := signedListing(t, k, 5, nil)
	for name, again := range map[string]registry.Publication{
		"as it was": publication(t, k, draft{Key: "one"}),
		"with other claims": publication(t, k, draft{Key: "one", AfterSign: func(p *registry.Publication) {
			p.DeclaredCapabilities, p.Family, p.Owner, p.Version = []string{"stolen"}, text("gpt"), text("thief"), text("9")
			p.Parent, p.Listing = &parent, &l
		}}),
		"in another state": publication(t, k, draft{Key: "one", AfterSign: func(p *registry.Publication) { p.State = lifecycle.Sunk }}),
		"at another count": publication(t, k, draft{Key: "one", Seq: 3}),
		"at another time":  publication(t, k, draft{Key: "one", SignedAt: start.Add(time.Second)}),
	} {
		want := first
		want.Replayed = true
		if got, err := r.Publish(t.Context(), again); got != want || err != nil {
			t.Errorf("%s: Publish() = %+v, %v, want %+v", name, got, err, want)
		}
		if got, err := registrytest.PublishHosted(t.Context(), r, again); got != want || err != nil {
			t.Errorf("%s: PublishHosted() = %+v, %v, want %+v", name, got, err, want)
		}
	}
	if diff := cmp.Diff(before, everything(t, inner)); diff != "" {
		t.Errorf("a replay changed (-before +after):\n%s", diff)
	}
}

func TestAReplayIsFoundHoweverLongAgoItWas(t *testing.T) {
	r, k := open(memory.New(), newClock()), key(1)
	visibility := []lifecycle.Visibility{lifecycle.Public, lifecycle.Restricted}
	of := func(n int64) draft {
		return draft{Seq: n, Key: fmt.Sprintf("k%d", n), Visibility: visibility[n%2]}
	}
	for n := int64(1); n <= 103; n++ {
		mustPublish(t, r, k, of(n))
	}
	for _, n := range []int64{1, 3, 4, 103} {
		if got, err := r.Publish(t.Context(), publication(t, k, of(n))); got.Seq != uint64(n) || !got.Replayed || err != nil {
			t.Errorf("Publish() of event %d again = %+v, %v, want its receipt", n, got, err)
		}
	}
	// The latest hundred keys are compared.
	same := of(4)
	same.Seq = 104
	if got, err := r.Publish(t.Context(), publication(t, k, same)); got.Seq != 4 || err != nil {
		t.Errorf("Publish() with the key of event 4 = %+v, %v, want its receipt", got, err)
	}
	other := of(103)
	other.Seq, other.Visibility = 104, lifecycle.Hidden
	if _, err := r.Publish(t.Context(), publication(t, k, other)); !problem.Is(err, problem.IdempotencyConflict) {
		t.Errorf("Publish() with the key of event 103 and other words = %v, want an idempotency conflict", err)
	}
	old := of(3)
	old.Seq, old.Visibility = 104, lifecycle.Hidden
	if got, err := r.Publish(t.Context(), publication(t, k, old)); got.Seq != 104 || err != nil {
		t.Errorf("Publish() with the key of event 3 = %+v, %v, want a new event", got, err)
	}
	old.Seq, old.Visibility = 3, lifecycle.Hidden
	if _, err := r.Publish(t.Context(), publication(t, k, old)); !problem.Is(err, problem.IdempotencyConflict) {
		t.Errorf("Publish() at count 3 with its key and other words = %v, want an idempotency conflict", err)
	}
}

func TestAKeyIsEachActorsOwn(t *testing.T) {
	r := open(memory.New(), newClock())
	for n := range byte(3) {
		if got := mustPublish(t, r, key(n+1), draft{Key: "the same"}); got.Seq != uint64(n+1) || got.Replayed {
			t.Errorf("Publish() of actor %d = %+v, want a new event", n+1, got)
		}
	}
}

func TestWithoutANetworkOnlyVacantsOfThisHostAreListed(t *testing.T) {
	r := open(memory.New(), newClock(), func(c *registry.Config) { c.AllowRemote = false })
	if _, err := r.Publish(t.Context(), publication(t, key(1), draft{})); !problem.Is(err, problem.Malformed) {
		t.Errorf("Publish() of a foreign endpoint = %v, want a refusal", err)
	}
	mustPublish(t, r, key(2), draft{Endpoint: hostURL + key(2).ID().String()})
	r = open(memory.New(), newClock(), func(c *registry.Config) { c.Endpoints = nil })
	mustPublish(t, r, key(2), draft{Endpoint: hostURL + key(2).ID().String()})
}

type failingEndpoints struct{}

func (failingEndpoints) IsEndpoint(context.Context, identity.ID, string) (bool, error) {
	return false, errors.New("no answer")
}

func TestAFaultOfTheHostIsNoRefusal(t *testing.T) {
	r := open(memory.New(), newClock(), func(c *registry.Config) {
		c.Endpoints = failingEndpoints{}
	})
	if _, err := r.Publish(t.Context(), publication(t, key(1), draft{})); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Publish() = %v, want unavailable", err)
	}
}
