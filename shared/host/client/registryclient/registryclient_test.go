package registryclient

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/readproof"
)

var now = time.Unix(1_700_000_000, 0).UTC()

// script answers requests in turn and records them.
type script struct {
	answers []func(outbound.Request) (outbound.Reply, error)
	asked   []outbound.Request
}

func (s *script) Do(_ context.Context, r outbound.Request) (outbound.Reply, error) {
	s.asked = append(s.asked, r)
	if len(s.answers) == 0 {
		return outbound.Reply{}, problem.New(problem.Unavailable, "nobody is there")
	}
	next := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	return next(r)
}

func says(status int, body string) func(outbound.Request) (outbound.Reply, error) {
	return func(outbound.Request) (outbound.Reply, error) {
		return outbound.Reply{Status: status, Body: []byte(body)}, nil
	}
}

func client(answers ...func(outbound.Request) (outbound.Reply, error)) (*Client, *script) {
	s := &script{answers: answers}
	return &Client{Transport: s, URL: "https://registry.example/base", Now: func() time.Time { return now }}, s
}

func keyOf(t testing.TB, n byte) *identity.Key {
	t.Helper()
	key, err := identity.KeyFromSeed(bytes.Repeat([]byte{n}, identity.Size))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func cardOf(t testing.TB, key *identity.Key, text string) card.Card {
	t.Helper()
	c, err := card.New(key.ID(), text, []string{"mock"}, "https://x.example/a2a/message/send")
	if err == nil {
		err = c.Sign(context.Background(), key)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARefusalOfARegistryHasItsKindAndNoTricks(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		want   problem.Kind
		text   string
	}{
		"ours":                   {409, `{"detail":"no","code":"sequence"}`, problem.OutOfSequence, "registry.example (409): no"},
		"the reference's":        {409, `{"detail":"actor_seq must equal"}`, problem.Conflict, "actor_seq must equal"},
		"a code of another kind": {404, `{"detail":"x","code":"unavailable"}`, problem.NotFound, "(404): x"},
		"a framework's list":     {422, `{"detail":[{"loc":["query","limit"]}]}`, problem.InvalidMember, "gives no reason"},
		"not implemented":        {501, `{"detail":"not in P4"}`, problem.Forbidden, "not in P4"},
		"a gateway":              {502, `<html>Bad Gateway</html>`, problem.Unavailable, "gives no reason"},
		"a redirect":             {302, ``, problem.Untrusted, "(302)"},
		"colours for a terminal": {400, `{"detail":"a\u001b[31mb\u202e\u0000c"}`, problem.Malformed, "a[31mbc"},
		"an endless detail":      {400, `{"detail":"` + strings.Repeat("x", 60000) + `"}`, problem.Malformed, "xxx"},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := client(says(tt.status, tt.body))
			_, err := c.Card(t.Context(), keyOf(t, 1).ID())
			var status *StatusError
			if !problem.Is(err, tt.want) || !errors.As(err, &status) || status.Status != tt.status {
				t.Errorf("Card() = %v, want %v of status %d", err, tt.want, tt.status)
			}
			if text := problem.AsError(err).Text(); !strings.Contains(text, tt.text) || len(text) > 500 {
				t.Errorf("text = %.600q, want %q in it", text, tt.text)
			}
		})
	}
}

func TestARefusalOfARegistryNamesTheField(t *testing.T) {
	c, _ := client(says(400, `{"detail":"rule: expected one","code":"malformed","field":"ru\u001ble"}`))
	if _, err := c.Card(t.Context(), keyOf(t, 1).ID()); problem.AsError(err).Field != "rule" {
		t.Errorf("Card() = %v of field %q, want rule", err, problem.AsError(err).Field)
	}
}

func TestAnAnswerThatCannotBeReadIsNone(t *testing.T) {
	id := keyOf(t, 1).ID()
	for name, body := range map[string]string{
		"nothing":          "",
		"no JSON":          "garbage",
		"a member twice":   `{"vacant_id":"` + id.String() + `","vacant_id":"` + id.String() + `"}`,
		"too deep":         strings.Repeat("[", 100) + strings.Repeat("]", 100),
		"another vacant":   `{"vacant_id":"` + keyOf(t, 2).ID().String() + `"}`,
		"an id of hex":     `{"vacant_id":"zz"}`,
		"a list":           `[]`,
		"more behind it":   `{} {}`,
		"a lone surrogate": `{"status":"\ud800"}`,
	} {
		c, _ := client(says(200, body))
		if m, err := c.Card(t.Context(), id); !problem.Is(err, problem.Untrusted) || !cmp.Equal(m, Match{}) {
			t.Errorf("%s: Card() = %+v, %v, want untrusted", name, m, err)
		}
	}
	c, _ := client(func(r outbound.Request) (outbound.Reply, error) {
		if r.MaxReply != MaxAnswerBytes {
			t.Errorf("MaxReply = %d, want %d", r.MaxReply, MaxAnswerBytes)
		}
		return outbound.Reply{}, problem.New(problem.TooLarge, "more")
	})
	if _, err := c.Search(t.Context(), Query{}); !problem.Is(err, problem.TooLarge) {
		t.Errorf("Search() = %v, want too large", err)
	}
}

func TestInvalidMatchIsOmittedAndReported(t *testing.T) {
	a, b := keyOf(t, 1).ID().String(), keyOf(t, 2).ID().String()
	list := fmt.Sprintf(`[{"vacant_id":%q},{"vacant_id":5},null,"x",{"score":"high","vacant_id":%q},{"vacant_id":%q,"score":0.5,"unheard":[1]}]`, a, a, b)
	c, s := client(says(200, `{"matches":`+list+`,"next":"n"}`), says(200, list), says(200, `{"matches":`+list+`,"not_implemented_in_p4":[]}`))
	pages := map[string]func() (Page, error){
		"/base/v1/search?limit=3&q=a+b":                              func() (Page, error) { return c.Search(t.Context(), Query{Words: "a b", Limit: 3}) },
		"/base/v1/search_capability?include_local=false&limit=3&q=a": func() (Page, error) { return c.SearchCapability(t.Context(), "a", 3) },
		"/base/v1/query_capability?capability=a&family=f":            func() (Page, error) { return c.QueryCapability(t.Context(), "a", "f", 0) },
	}
	for _, target := range []string{"/base/v1/search?limit=3&q=a+b", "/base/v1/search_capability?include_local=false&limit=3&q=a", "/base/v1/query_capability?capability=a&family=f"} {
		p, err := pages[target]()
		if err != nil || len(p.Matches) != 2 || len(p.MatchErrors) != 4 || p.Matches[1].Score != 0.5 {
			t.Errorf("%s = %+v, %v, want 2 matches and 4 dropped", target, p, err)
		}
		if got := strings.TrimPrefix(s.asked[len(s.asked)-1].URL, "https://registry.example"); got != target {
			t.Errorf("asked %s, want %s", got, target)
		}
	}
}

func TestACardIsHandedOutOnlyIfItsVacantSignedIt(t *testing.T) {
	key, other := keyOf(t, 1), keyOf(t, 2)
	good := cardOf(t, key, "translate")
	forged := good
	forged.CapabilityText = "rob"
	blob := func(c *card.Card) string { return hex.EncodeToString(c.Blob()) }
	for name, tt := range map[string]struct {
		m  Match
		ok bool
	}{
		"its own":             {Match{ID: key.ID(), CardBlob: blob(&good)}, true},
		"in the SDK's member": {Match{ID: key.ID(), CapabilityCard: blob(&good)}, true},
		"another's":           {Match{ID: other.ID(), CardBlob: blob(&good)}, false},
		"altered":             {Match{ID: key.ID(), CardBlob: blob(&forged)}, false},
		"none":                {Match{ID: key.ID()}, false},
		"no hex":              {Match{ID: key.ID(), CardBlob: "zz"}, false},
		"no card":             {Match{ID: key.ID(), CardBlob: "7b7d"}, false},
	} {
		if c, err := tt.m.VerifiedCard(); (err == nil) != tt.ok || err != nil && !problem.Is(err, problem.Untrusted) {
			t.Errorf("%s: VerifiedCard() = %v, %v, want ok %t", name, c.VacantID, err, tt.ok)
		}
	}
}

func TestAReaderProvesItselfWhereItReadsAndNowhereElse(t *testing.T) {
	key := keyOf(t, 1)
	c, s := client(says(200, `[]`), says(200, `{"matches":[]}`))
	c.Reader = key
	if _, err := c.EventLog(t.Context(), key.ID(), 0, 5); err != nil {
		t.Fatal(err)
	}
	if _, err := c.QueryCapability(t.Context(), "x", "", 0); err != nil {
		t.Fatal(err)
	}
	p, err := readproof.Parse(s.asked[0].Header.Get(readproof.Header))
	if err == nil {
		err = p.Verify(readproof.Request{Authority: "registry.example", Method: http.MethodGet, Target: "/base/v1/event_log/" + key.ID().String() + "?from_seq=0&limit=5"}, now)
	}
	if err != nil || p.ID != key.ID() {
		t.Errorf("the proof of a GET: %v", err)
	}
	if got := s.asked[1].Header.Get(readproof.Header); got != "" {
		t.Errorf("a POST carries the proof %s, want none", got)
	}
}

func logOf(actor identity.ID, events ...Event) string {
	for i := range events {
		if events[i].Actor.IsZero() {
			events[i].Actor = actor
		}
	}
	b, _ := json.Marshal(events)
	return string(b)
}

func TestTheNextCountIsReadOffOnesOwnEvents(t *testing.T) {
	me, other := keyOf(t, 1).ID(), keyOf(t, 2).ID()
	hash := identity.Sum([]byte("card"))
	payload := string(event.RegisterPayload(hash, 1, me, lifecycle.Public))
	for name, tt := range map[string]struct {
		log  string
		want KeyState
		bad  bool
	}{
		"never there":        {`[]`, KeyState{NextSeq: 1}, false},
		"a card":             {logOf(me, Event{Seq: 7, ActorSeq: 1, Type: "register", Payload: payload}), KeyState{NextSeq: 2, CardHash: hash}, false},
		"others about it":    {logOf(me, Event{Seq: 7, ActorSeq: 1, Type: "register", Payload: payload}, Event{Seq: 9, ActorSeq: 500, Type: "review", Actor: other}), KeyState{NextSeq: 2, CardHash: hash}, false},
		"revoked":            {logOf(me, Event{Seq: 7, ActorSeq: 3, Type: "revoke"}), KeyState{NextSeq: 4, Revoked: true}, false},
		"of another's card":  {logOf(me, Event{Seq: 7, ActorSeq: 1, Type: "register", Payload: string(event.RegisterPayload(hash, 1, other, lifecycle.Public))}), KeyState{NextSeq: 2}, false},
		"a count of nothing": {logOf(me, Event{Seq: 7, ActorSeq: -1}), KeyState{}, true},
		"a count beyond all": {logOf(me, Event{Seq: 7, ActorSeq: event.MaxActorSeq}), KeyState{}, true},
		"not in order":       {logOf(me, Event{Seq: 7, ActorSeq: 1}, Event{Seq: 7, ActorSeq: 2}), KeyState{}, true},
	} {
		c, _ := client(says(200, tt.log))
		got, err := c.KeyState(t.Context(), me)
		if tt.bad && problem.Is(err, problem.Untrusted) {
			continue
		}
		if err != nil || got != tt.want {
			t.Errorf("%s: Standing() = %+v, %v, want %+v", name, got, err, tt.want)
		}
	}
}

func TestALogWithoutAnEndIsLeft(t *testing.T) {
	me := keyOf(t, 1).ID()
	seq := uint64(0)
	c, s := client(func(outbound.Request) (outbound.Reply, error) {
		events := make([]Event, maxLogPage)
		for i := range events {
			seq++
			events[i] = Event{Seq: seq, ActorSeq: int64(seq)}
		}
		return outbound.Reply{Status: 200, Body: []byte(logOf(me, events...))}, nil
	})
	if _, err := c.KeyState(t.Context(), me); !problem.Is(err, problem.Untrusted) || len(s.asked) != maxPages {
		t.Errorf("Standing() = %v after %d pages, want untrusted after %d", err, len(s.asked), maxPages)
	}
}

// registered is the log of a vacant that has published one card.
func registered(t *testing.T, key *identity.Key, c *card.Card) string {
	t.Helper()
	return logOf(key.ID(), Event{Seq: 1, ActorSeq: 1, Type: "register", Payload: string(event.RegisterPayload(c.Hash(), 1, key.ID(), lifecycle.Public))})
}

func TestAPublishWhoseOutcomeIsUnknownIsSentAgainAsItWas(t *testing.T) {
	key := keyOf(t, 1)
	old, next := cardOf(t, key, "before"), cardOf(t, key, "after")
	receipt := fmt.Sprintf(`{"vacant_id":%q,"visibility":"PUBLIC","event_seq":2,"capability_card_hash_hex":%q}`, key.ID(), next.Hash())
	away := func(outbound.Request) (outbound.Reply, error) {
		return outbound.Reply{}, problem.New(problem.DeadlineExceeded, "no answer")
	}
	c, s := client(says(200, registered(t, key, &old)), away, says(503, `{"detail":"busy","code":"unavailable"}`), says(200, receipt))
	d := Draft{Card: next, State: lifecycle.Active, Visibility: lifecycle.Public}
	r, err := c.PublishAs(t.Context(), key, d, bytes.NewReader(make([]byte, 64)))
	if err != nil || r.Seq != 2 || r.CardHash != next.Hash() {
		t.Fatalf("PublishAs() = %+v, %v", r, err)
	}
	if len(s.asked) != 4 || !bytes.Equal(s.asked[1].Body, s.asked[2].Body) || !bytes.Equal(s.asked[2].Body, s.asked[3].Body) {
		t.Errorf("asked %d times, want the same bytes three times after the log", len(s.asked))
	}
	var sent Publication
	if err := json.Unmarshal(s.asked[1].Body, &sent); err != nil {
		t.Fatal(err)
	}
	sig, _ := hex.DecodeString(sent.Signature)
	e := event.Event{Type: event.Register, Actor: key.ID(), IdempotencyKey: sent.IdempotencyKey, Time: sent.Time, ActorSeq: 2, Signature: sig,
		Payload: event.RegisterPayload(next.Hash(), 1, key.ID(), lifecycle.Public)}
	if follows, ok := event.ParseReplacesKey(sent.IdempotencyKey); !ok || follows != old.Hash() || !e.Verify() || sent.ActorSeq != 2 {
		t.Errorf("sent %+v, want event 2, which says that the card follows %s", sent, old.Hash())
	}
}

func TestACountThatSomebodyElseTookIsReadAgain(t *testing.T) {
	key := keyOf(t, 1)
	same := cardOf(t, key, "same")
	c, s := client(says(200, `[]`), says(409, `{"detail":"x","code":"sequence"}`), says(200, registered(t, key, &same)), says(200, `{"event_seq":2}`))
	d := Draft{Card: same, State: lifecycle.Active, Visibility: lifecycle.Public}
	if _, err := c.PublishAs(t.Context(), key, d, bytes.NewReader(make([]byte, 64))); err != nil || len(s.asked) != 4 {
		t.Errorf("PublishAs() = %v after %d requests, want it published", err, len(s.asked))
	}
	c, s = client(says(200, `[]`), says(403, `{"detail":"x","code":"revoked"}`))
	if _, err := c.PublishAs(t.Context(), key, d, bytes.NewReader(make([]byte, 64))); !problem.Is(err, problem.Revoked) || len(s.asked) != 2 {
		t.Errorf("PublishAs() = %v after %d requests, want revoked, once", err, len(s.asked))
	}
	c, s = client(says(200, `[]`), says(501, `{"detail":"not_implemented_in_p4"}`))
	if _, err := c.RevokeAs(t.Context(), key, "over", bytes.NewReader(make([]byte, 64))); !problem.Is(err, problem.Forbidden) || len(s.asked) != 2 {
		t.Errorf("RevokeAs(at a registry of the reference) = %v after %d requests, want a refusal, once", err, len(s.asked))
	}
}

func TestTheURLOfARegistry(t *testing.T) {
	for given, want := range map[string]string{
		"https://a.example":        "https://a.example",
		"http://127.0.0.1:8080/":   "http://127.0.0.1:8080",
		"https://a.example/base//": "https://a.example/base",
	} {
		if got, err := NormalizeURL(given); err != nil || got != want {
			t.Errorf("NormalizeURL(%q) = %q, %v, want %q", given, got, err, want)
		}
	}
	for _, given := range []string{"", "a.example", "ftp://a.example", "https://u:p@a.example", "https://a.example?q=1", "https://a.example#x", "https://"} {
		if got, err := NormalizeURL(given); !problem.Is(err, problem.Usage) {
			t.Errorf("NormalizeURL(%q) = %q, %v, want usage", given, got, err)
		}
	}
}

// Every answer of a registry becomes a page or a problem.
func FuzzSearch(f *testing.F) {
	f.Add([]byte(`{"matches":[{"vacant_id":"29acbae141bccaf0b22e1a94d34d0bc7361e526d0bfe12c89794bc9322966dd7","capability_card_blob_hex":"7b7d"}],"next":"x"}`))
	f.Add([]byte(`{"matches":[null,[],{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		c, _ := client(says(200, string(body)))
		p, err := c.Search(t.Context(), Query{})
		if err != nil && problem.AsError(err).Kind == problem.Internal {
			t.Fatalf("Search() = %v, an error of no kind", err)
		}
		for i := range p.Matches {
			m := &p.Matches[i]
			if c, err := m.VerifiedCard(); err == nil && c.VacantID != m.ID {
				t.Fatalf("VerifiedCard() is the card of %v, want %v", c.VacantID, m.ID)
			}
			_ = m.ParseDeclaredCapabilities()
		}
	})
}
