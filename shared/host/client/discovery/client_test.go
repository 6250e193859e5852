package discovery_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/dispatchtest"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch/filebook"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

func words(q string) discovery.Query { return discovery.Query{Words: q} }

func TestTheBestOfWhatIsFoundIsCalled(t *testing.T) {
	m := newMarket(t)
	m.add(t, 10, "mediocre", "translate text")
	m.add(t, 11, "best", "translate text")
	m.add(t, 12, "bad", "translate text")
	judged(t, &m.reg.rows[0], 100, 0.6)
	judged(t, &m.reg.rows[1], 100, 0.95)
	judged(t, &m.reg.rows[2], 100, 0.1)
	out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("bonjour"))
	dispatchtest.WantAnswer(t, out.Result, err, "echo: bonjour")
	if got := m.called(); !slices.Equal(got, []string{"best"}) || out.Chosen.ID != dispatchtest.NewKey(t, 11).ID() || len(out.Choices) != 3 {
		t.Errorf("called %v, chosen %s, want best", got, out.Chosen.ID.Short())
	}
	// The chain continues: a second question is number 2 (PROTOCOL §23 C1).
	out, err = m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("bonsoir"))
	dispatchtest.WantAnswer(t, out.Result, err, "echo: bonsoir")
	if out.Request.Seq != 2 {
		t.Errorf("second call is number %d, want 2", out.Request.Seq)
	}
}

func TestTheReferencesPolicyKeepsTheOrderOfTheSearch(t *testing.T) {
	m := newMarket(t)
	m.Policy = discovery.ByScore
	m.add(t, 10, "first", "translate")
	m.add(t, 11, "second", "translate")
	out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
	dispatchtest.WantAnswer(t, out.Result, err, "echo: hi")
	if got := m.called(); !slices.Equal(got, []string{"first"}) {
		t.Errorf("called %v, want the first of equals", got)
	}
}

func TestEachSearchRouteIsUsedWhereItIs(t *testing.T) {
	for name, c := range map[string]struct{ has, asked []string }{
		"a host of ours":               {[]string{ours, sdk, reference}, []string{ours, ours}},
		"the route of the SDK":         {[]string{sdk}, []string{ours, sdk, sdk}},
		"a registry of the reference":  {[]string{reference}, []string{ours, sdk, reference, reference}},
		"no registry":                  {nil, []string{ours, sdk, reference, ours, sdk, reference}},
		"one that changes what it has": {[]string{"changes"}, []string{ours, sdk, reference, reference, ours}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarket(t)
			m.add(t, 10, "x", "translate text")
			m.reg.routes = c.has
			changes := slices.Equal(c.has, []string{"changes"})
			if changes {
				m.reg.routes = []string{reference}
			}
			for range 2 {
				found, err := m.Search(t.Context(), words("translate"))
				if c.has == nil {
					dispatchtest.WantKind(t, err, problem.NotFound, "is it a registry?")
				} else if err != nil || len(found.Matches) != 1 {
					t.Fatalf("Search() = %+v, %v, want one match", found, err)
				}
				if changes {
					m.reg.routes = []string{ours}
				}
			}
			if diff := cmp.Diff(c.asked, m.reg.paths()); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

func TestARegistryOfTheReferenceIsAskedForWhatItCanFind(t *testing.T) {
	for name, c := range map[string]struct {
		q     discovery.Query
		asked string // in the query string
		found []string
	}{
		"one word":                   {words("translate"), "capability=translate", []string{"a", "b"}},
		"the longest of several":     {words("to legal french"), "capability=french", []string{"b"}},
		"escaped, as its JSON is":    {words("法律"), `capability=%5Cu6cd5%5Cu5f8b`, []string{"c"}},
		"nothing":                    {words(""), "", []string{"a", "b", "c"}},
		"wildcards, which are inert": {words("%_"), "", []string{"a", "b", "c"}},
		"a family":                   {discovery.Query{Family: "gpt"}, "family=gpt", []string{"b"}},
		"a tag, which nobody has":    {discovery.Query{Tag: "legal"}, "limit=100", nil},
		"a reputation":               {discovery.Query{MinReputation: 0.5}, "limit=100", []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarket(t)
			m.reg.routes = []string{reference}
			m.add(t, 10, "a", "translate text to German")
			m.add(t, 11, "b", "translate legal letters to French")
			m.add(t, 12, "c", "法律 review")
			m.reg.rows[0].Score, m.reg.rows[1].Family = 0.8, "gpt"
			found, err := m.Search(t.Context(), c.q)
			must(t, err)
			var got []string
			for _, x := range found.Matches {
				got = append(got, strings.TrimSuffix(strings.TrimPrefix(x.URL, "https://"), ".test/a2a/message/send"))
			}
			if diff := cmp.Diff(c.found, got); diff != "" {
				t.Errorf("Search() (-want +got):\n%s", diff)
			}
			if last := m.reg.saw[len(m.reg.saw)-1]; !strings.Contains(last, c.asked) {
				t.Errorf("asked %s, want %s", last, c.asked)
			}
		})
	}
}

func TestABadMatchIsDroppedAloneWithItsReason(t *testing.T) {
	cases := []struct {
		reason string
		spoil  func(t *testing.T, r *registryclient.Match)
	}{
		{"no card", func(_ *testing.T, r *registryclient.Match) { r.CardBlob = "" }},
		{"not hexadecimal", func(_ *testing.T, r *registryclient.Match) { r.CardBlob = "zz" }},
		{"cannot be read", func(_ *testing.T, r *registryclient.Match) { r.CardBlob = "7b7d" }},
		{"does not verify", func(_ *testing.T, r *registryclient.Match) {
			r.CardBlob = strings.Replace(r.CardBlob, fmt.Sprintf("%x", "translate"), fmt.Sprintf("%x", "translbte"), 1)
		}},
		{"belongs to", func(t *testing.T, r *registryclient.Match) {
			r.CardBlob = row(t, 99, "translate", "https://x.test").CardBlob
		}},
		{"has no endpoint", func(t *testing.T, r *registryclient.Match) { *r = row(t, 42, "translate", "") }},
		{"an http or https URL", func(t *testing.T, r *registryclient.Match) { *r = row(t, 42, "translate", "ftp://x.test/") }},
		{"without user and password", func(t *testing.T, r *registryclient.Match) { *r = row(t, 42, "translate", "https://u:p@x.test/") }},
		{"is the caller itself", func(t *testing.T, r *registryclient.Match) { *r = row(t, 1, "translate", "https://x.test/") }},
		{"revoked", func(_ *testing.T, r *registryclient.Match) { r.Status = "revoked" }},
		{"HIBERNATING", func(_ *testing.T, r *registryclient.Match) { r.State = "HIBERNATING" }},
		{"??", func(_ *testing.T, r *registryclient.Match) { r.Status = "\x1b\u202e" }},
		{"its listing cannot be read", func(_ *testing.T, r *registryclient.Match) { r.Listing, r.ListingSource = []byte(`{}`), "signed" }},
		{"its listing does not verify", func(t *testing.T, r *registryclient.Match) {
			l := listing.New(r.ID, 1)
			l.Price = 7
			r.Listing, r.ListingSource = l.Blob(), "signed"
		}},
		{"its listing belongs to", func(t *testing.T, r *registryclient.Match) {
			l := listing.New(dispatchtest.NewKey(t, 99).ID(), 1)
			must(t, l.Sign(t.Context(), dispatchtest.NewKey(t, 99)))
			r.Listing, r.ListingSource = l.Blob(), "signed"
		}},
		{"the registry returned it twice", func(t *testing.T, r *registryclient.Match) {
			*r = row(t, 10, "translate", "https://good.test/a2a/message/send")
		}},
	}
	for _, c := range cases {
		t.Run(c.reason, func(t *testing.T) {
			m := newMarket(t)
			m.add(t, 10, "good", "translate")
			bad := m.add(t, 42, "bad", "translate")
			c.spoil(t, bad)
			found, err := m.Search(t.Context(), words("translate"))
			if err != nil || len(found.Matches) != 1 || found.Matches[0].ID != dispatchtest.NewKey(t, 10).ID() {
				t.Fatalf("Search() = %+v, %v, want the good one", found.Matches, err)
			}
			if len(found.DroppedMatches) != 1 || !strings.Contains(found.DroppedMatches[0].Reason, c.reason) {
				t.Errorf("dropped %+v, want a reason with %q", found.DroppedMatches, c.reason)
			}
		})
	}
}

func TestAPoisonedRowAmongTwentyTakesNoOtherWithIt(t *testing.T) {
	m := newMarket(t)
	var rows []string
	for n := range byte(20) {
		m.add(t, 10+n, fmt.Sprint("v", n), "translate")
		rows = append(rows, string(dispatchtest.Marshal(m.reg.rows[n])))
	}
	rows = slices.Insert(rows, 7, `{"vacant_id": 5, "capability_card_blob_hex": []}`)
	m.reg.answer = func(outbound.Request) (outbound.Reply, error, bool) {
		return outbound.Reply{Status: 200, Body: []byte(`{"matches":[` + strings.Join(rows, ",") + `]}`)}, nil, true
	}
	found, err := m.Search(t.Context(), words("translate"))
	if err != nil || len(found.Matches) != 20 || len(found.DroppedMatches) != 1 {
		t.Errorf("Search() = %d matches, %d dropped, %v, want 20 and 1", len(found.Matches), len(found.DroppedMatches), err)
	}
}

func TestTheNextOneIsCalledWhereTheFirstIsUnavailable(t *testing.T) {
	refuse := func(k problem.Kind) func(*market) {
		return func(m *market) {
			m.wire("first").Host.Refuse = func(*envelope.Envelope) *problem.Error { return problem.New(k, "no") }
		}
	}
	fault := func(f string) func(*market) {
		return func(m *market) {
			m.wire("first").Fault = func(path string, _ *envelope.Envelope) string { return f }
		}
	}
	sendFault := func(f string) func(*market) {
		return func(m *market) {
			m.wire("first").Fault = func(path string, _ *envelope.Envelope) string {
				if strings.HasSuffix(path, "/ask") {
					return ""
				}
				return f
			}
		}
	}
	for name, c := range map[string]struct {
		first func(*market)
		next  bool
		kind  problem.Kind // of the error, or of the first try
	}{
		"asleep":             {refuse(problem.NotAccepting), true, problem.NotAccepting},
		"closed":             {refuse(problem.Gone), true, problem.Gone},
		"not hosted there":   {refuse(problem.Misdirected), true, problem.Misdirected},
		"too busy":           {refuse(problem.TooManyRequests), true, problem.TooManyRequests},
		"to be paid":         {refuse(problem.PaymentRequired), true, problem.PaymentRequired},
		"not reachable":      {fault("unreachable"), true, problem.Unavailable},
		"its store was down": {sendFault("503"), true, problem.Unavailable},
		"its store is down":  {fault("503"), false, problem.Pending},
		"it failed, for good": {func(m *market) {
			m.wire("first").Host.Behaviour = func(*envelope.Envelope) string { return "fail" }
		}, true, problem.BehaviourFailed},
		"no such route":                  {func(m *market) { m.wire("first").Host.Key = nil; noEndpoint(m, "first") }, true, problem.NotFound},
		"the answer is lost":             {fault("reply lost"), false, problem.Pending},
		"the request is lost":            {fault("request lost"), false, problem.Pending},
		"a gateway's page":               {fault("garbled"), false, problem.Untrusted},
		"not allowed":                    {refuse(problem.Forbidden), false, problem.Forbidden},
		"not signed well":                {refuse(problem.BadSignature), false, problem.BadSignature},
		"too large":                      {refuse(problem.TooLarge), false, problem.TooLarge},
		"another holder moved the chain": {refuse(problem.Gap), false, problem.Gap},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMarket(t)
			m.Policy = discovery.ByScore
			m.add(t, 10, "first", "translate")
			m.add(t, 11, "second", "translate")
			c.first(m)
			out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
			if !c.next {
				dispatchtest.WantKind(t, err, c.kind)
				if got := m.wire("second").Posts; len(got) > 0 {
					t.Errorf("the second was called %d times, want none", len(got))
				}
				return
			}
			dispatchtest.WantAnswer(t, out.Result, err, "echo: hi")
			if len(out.FailedCalls) != 1 || !problem.Is(out.FailedCalls[0].Err, c.kind) || out.FailedCalls[0].ID != dispatchtest.NewKey(t, 10).ID() {
				t.Errorf("Tried = %+v, want the first, with %v", out.FailedCalls, c.kind)
			}
		})
	}
}

// noEndpoint gives the host at a name no route for calls.
func noEndpoint(m *market, name string) {
	route := m.Route
	m.Route = func(registry string, callee *card.Card) (dispatch.Transport, error) {
		if strings.Contains(callee.Endpoint, name) {
			return dispatchtest.PostFunc(func(string, []byte) (int, []byte, error) { return 404, []byte(`{"detail":"Not Found"}`), nil }), nil
		}
		return route(registry, callee)
	}
}

func TestAQuestionWhoseOutcomeIsUnknownGoesToNobodyElse(t *testing.T) {
	for _, kept := range []string{"in memory", "in files"} {
		t.Run(kept, func(t *testing.T) {
			m := newMarket(t)
			if kept == "in files" {
				m.Caller.Book = &filebook.Book{Dir: t.TempDir(), Wait: m.clock.Wait}
			}
			m.Policy = discovery.ByScore
			m.add(t, 10, "first", "translate")
			m.add(t, 11, "second", "translate")
			m.wire("first").Fault = func(string, *envelope.Envelope) string { return "reply lost" }
			out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("pay the bill"))
			dispatchtest.WantKind(t, err, problem.Pending)
			if !out.MayBeAccepted {
				t.Error("Doubt = false, want true: it did run")
			}
			// Now the other would be chosen, and a new process asks.
			m.wire("first").Fault = nil
			m.reg.rows = m.reg.rows[1:]
			again := &discovery.Client{Caller: m.Caller, Registries: m.Registries, Policy: m.Policy, Route: m.Route}
			out, err = again.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("pay the bill"))
			dispatchtest.WantAnswer(t, out.Result, err, "echo: pay the bill")
			if out.Chosen.ID != dispatchtest.NewKey(t, 10).ID() || !out.Resumed || len(m.wire("second").Posts) > 0 || m.wire("first").Host.CountExecuted(out.Request.IdempotencyKey) != 1 {
				t.Errorf("chosen %s, resumed %t, want the first to answer what it ran once", out.Chosen.ID.Short(), out.Resumed)
			}
			// The question is decided: the same words are a new question with a
			// free choice.
			out, err = again.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("pay the bill"))
			dispatchtest.WantAnswer(t, out.Result, err, "echo: pay the bill")
			if out.Chosen.ID != dispatchtest.NewKey(t, 11).ID() {
				t.Errorf("chosen %s, want the second", out.Chosen.ID.Short())
			}
		})
	}
}

func TestAStoreThatFailedAfterTheCallRanIsAsked(t *testing.T) {
	m := newMarket(t)
	m.Policy = discovery.ByScore
	m.add(t, 10, "first", "translate")
	m.add(t, 11, "second", "translate")
	m.wire("first").Fault = func(path string, _ *envelope.Envelope) string {
		if strings.HasSuffix(path, "/ask") {
			return ""
		}
		return "503 after"
	}
	out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
	dispatchtest.WantAnswer(t, out.Result, err, "echo: hi")
	if out.Chosen.ID != dispatchtest.NewKey(t, 10).ID() || len(m.wire("second").Posts) > 0 {
		t.Errorf("chosen %s, want the first, which had run it", out.Chosen.ID.Short())
	}
}

// Whatever fails, and however often the question is repeated, an answered question ran on one
// vacant, and was sent to others only if they refused it permanently.
func TestAQuestionIsNeverAnsweredTwice(t *testing.T) {
	faults := []string{"", "", "unreachable", "request lost", "reply lost", "503", "503 after", "garbled", "asleep", "closed", "fails"}
	for seed := range uint64(300) {
		m := newMarket(t)
		m.Policy = discovery.ByScore
		dice := &dispatchtest.Random{Seed: seed}
		roll := func(n int) int {
			var b [2]byte
			_, _ = dice.Read(b[:])
			return (int(b[0])<<8 | int(b[1])) % n
		}
		for n := range byte(4) {
			name := fmt.Sprint("v", n)
			m.add(t, 10+n, name, "translate")
			w := m.wire(name)
			w.Fault = func(string, *envelope.Envelope) string { return faults[roll(8)] }
			w.Host.Refuse = func(*envelope.Envelope) *problem.Error {
				switch faults[roll(len(faults))] {
				case "asleep":
					return problem.New(problem.NotAccepting, "asleep")
				case "closed":
					return problem.New(problem.Gone, "closed")
				}
				return nil
			}
			w.Host.Behaviour = func(*envelope.Envelope) string {
				if faults[roll(len(faults))] == "fails" {
					return "fail"
				}
				return "answer"
			}
		}
		for range 12 {
			if _, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("once")); err == nil {
				break
			}
		}
		answered := 0
		for _, w := range m.hosts {
			for _, p := range w.Host.Pairs {
				for _, r := range p.Rows {
					if r.Decision == "answer" {
						answered++
					}
				}
			}
		}
		if answered > 1 {
			t.Fatalf("seed %d: answered %d times, want once at most", seed, answered)
		}
	}
}

func TestAQuestionIsOpenForADay(t *testing.T) {
	m := newMarket(t)
	m.Policy = discovery.ByScore
	m.add(t, 10, "first", "translate")
	m.add(t, 11, "second", "translate")
	m.wire("first").Fault = func(string, *envelope.Envelope) string { return "reply lost" }
	_, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
	dispatchtest.WantKind(t, err, problem.Pending)
	m.reg.rows = m.reg.rows[1:]
	m.clock.Add(25 * time.Hour)
	out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
	dispatchtest.WantAnswer(t, out.Result, err, "echo: hi")
	if out.Chosen.ID != dispatchtest.NewKey(t, 11).ID() {
		t.Errorf("chosen %s, want the second: after a day it is a new question", out.Chosen.ID.Short())
	}
}

func TestARefusedCallIsNotResumedLater(t *testing.T) {
	m := newMarket(t)
	m.Policy = discovery.ByScore
	m.add(t, 10, "first", "translate")
	m.add(t, 11, "second", "translate")
	m.wire("first").Fault = func(string, *envelope.Envelope) string { return "unreachable" }
	out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
	dispatchtest.WantAnswer(t, out.Result, err, "echo: hi")
	m.wire("first").Fault = nil
	out, err = m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
	dispatchtest.WantAnswer(t, out.Result, err, "echo: hi")
	if out.Resumed || out.Chosen.ID != dispatchtest.NewKey(t, 10).ID() {
		t.Errorf("resumed %t by %s, want a new call of the first", out.Resumed, out.Chosen.ID.Short())
	}
}

func TestEmptySearchSaysWhy(t *testing.T) {
	m := newMarket(t)
	_, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
	dispatchtest.WantKind(t, err, problem.NotFound, `no vacant was found for "translate"`)
	m.add(t, 10, "x", "translate").CardBlob = ""
	_, err = m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
	dispatchtest.WantKind(t, err, problem.NotFound, "1 results were dropped, the first because: the registry sent no card")
}

func TestAllUnavailableSaysHowManyWereTried(t *testing.T) {
	m := newMarket(t)
	m.MaxTried = 3
	for n := range byte(6) {
		m.add(t, 10+n, fmt.Sprint("v", n), "translate")
		m.wire(fmt.Sprint("v", n)).Host.Refuse = func(*envelope.Envelope) *problem.Error { return problem.New(problem.NotAccepting, "asleep") }
	}
	out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
	dispatchtest.WantKind(t, err, problem.NotAccepting, "3 vacants were tried")
	if len(out.FailedCalls) != 2 || len(m.called()) != 3 {
		t.Errorf("tried %d before the last, called %v, want 3 in all", len(out.FailedCalls), m.called())
	}
}

func TestTheRegistrySeesSearchesAndNothingElse(t *testing.T) {
	for _, has := range []string{ours, sdk, reference} {
		t.Run(has, func(t *testing.T) {
			m := newMarket(t)
			m.reg.routes = []string{has}
			m.add(t, 10, "x", "translate")
			out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("my secret is plum"))
			dispatchtest.WantAnswer(t, out.Result, err, "echo: my secret is plum")
			self := m.Caller.Signer.ID().String()
			for _, s := range m.reg.saw {
				for _, secret := range []string{"plum", "secret", self, self[:12], out.Request.IdempotencyKey} {
					if strings.Contains(s, secret) {
						t.Errorf("the registry saw %q in %s", secret, s)
					}
				}
			}
		})
	}
}

func TestACardThatChangedIsNoticed(t *testing.T) {
	m := newMarket(t)
	m.Policy = discovery.ByScore
	old := *m.add(t, 10, "x", "translate")
	m.hosts["moved.test"] = m.hosts["x.test"]
	fresh := row(t, 10, "translate better", "https://moved.test/a2a/message/send")
	call := func(r registryclient.Match, want discovery.Freshness) {
		t.Helper()
		m.reg.rows[0] = r
		out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
		if err != nil || out.Chosen.Freshness != want {
			t.Fatalf("CallCapability() = %q, %v, want %q", out.Chosen.Freshness, err, want)
		}
	}
	call(old, discovery.FirstSeen)
	call(old, discovery.Same)
	call(fresh, discovery.Changed)
	call(fresh, discovery.Same)
	call(old, discovery.Outdated)
	call(old, discovery.Same)   // reported once
	call(fresh, discovery.Same) // an outdated card does not replace the newest one
	call(old, discovery.Outdated)
	call(fresh, discovery.Same)

	// The vacant with the outdated card comes last.
	m.reg.rows[0] = old
	judged(t, &m.reg.rows[0], 100, 1)
	m.add(t, 11, "other", "translate")
	out, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi"))
	if err != nil || out.Chosen.ID != dispatchtest.NewKey(t, 11).ID() {
		t.Errorf("chosen %s, %v, want the one whose card is not outdated", out.Chosen.ID.Short(), err)
	}

	m.Caller.Transport = m.hosts["other.test"]
	res, freshness, err := m.Call(t.Context(), dispatch.TargetOfCard(&out.Chosen.Card), dispatchtest.UserMessage("again"))
	dispatchtest.WantAnswer(t, res, err, "echo: again")
	if freshness != discovery.Same {
		t.Errorf("Call() says that the card is %q, want %q", freshness, discovery.Same)
	}
}

func TestOfTwoRegistriesTheNewerCardCounts(t *testing.T) {
	m := newMarket(t)
	old := *m.add(t, 10, "x", "translate")
	m.hosts["moved.test"] = m.hosts["x.test"]
	if _, err := m.CallCapability(t.Context(), words("translate"), dispatchtest.UserMessage("hi")); err != nil {
		t.Fatal(err)
	}
	other := &registry{routes: []string{reference}, rows: []registryclient.Match{row(t, 10, "translate better", "https://moved.test/")}}
	m.Registries = append(m.Registries, &registryclient.Client{Transport: other, URL: "https://other.test"})
	found, err := m.Search(t.Context(), words("translate"))
	if err != nil || len(found.Matches) != 1 || found.Matches[0].Freshness != discovery.Changed || found.Matches[0].Registry != "https://other.test" {
		t.Fatalf("Search() = %+v, %v, want the new card alone", found.Matches, err)
	}
	if len(found.DroppedMatches) != 1 || found.DroppedMatches[0].ID != old.ID || !strings.Contains(found.DroppedMatches[0].Reason, "newer card") {
		t.Errorf("dropped %+v, want the old one", found.DroppedMatches)
	}
	_, err = m.Search(t.Context(), discovery.Query{Cursor: "x"})
	dispatchtest.WantKind(t, err, problem.Usage, "belongs to one registry")
}

func TestOneRegistryOfTwoIsEnough(t *testing.T) {
	m := newMarket(t)
	m.add(t, 10, "x", "translate")
	dead := &registry{answer: func(outbound.Request) (outbound.Reply, error, bool) {
		return outbound.Reply{}, problem.New(problem.Unavailable, "nobody there"), true
	}}
	m.Registries = append(m.Registries, &registryclient.Client{Transport: dead, URL: "https://dead.test"})
	found, err := m.Search(t.Context(), words("translate"))
	if err != nil || len(found.Matches) != 1 || len(found.RegistryErrors) != 1 || !strings.Contains(found.RegistryErrors[0].Error(), "dead.test") {
		t.Errorf("Search() = %+v, %v, want what the other found, and a failure", found, err)
	}
	m.Registries = m.Registries[1:]
	_, err = m.Search(t.Context(), words("translate"))
	dispatchtest.WantKind(t, err, problem.Unavailable, "nobody there")
	m.Registries = nil
	_, err = m.Search(t.Context(), words("translate"))
	dispatchtest.WantKind(t, err, problem.Usage, "no registry")
}

func TestARegistryThatSendsTooManyIsReadSoFar(t *testing.T) {
	m := newMarket(t)
	m.add(t, 10, "x", "translate")
	for range 5000 {
		r := m.reg.rows[0]
		r.CardBlob = ""
		m.reg.rows = append(m.reg.rows, r)
	}
	found, err := m.Search(t.Context(), words("translate"))
	if err != nil || len(found.Matches) != 1 || len(found.DroppedMatches) != 100 {
		t.Errorf("Search() = %d matches, %d dropped, %v, want 1 and no more than were asked for", len(found.Matches), len(found.DroppedMatches), err)
	}
}

func TestAQueryIsRefusedBeforeAnyRegistrySeesIt(t *testing.T) {
	m := newMarket(t)
	for name, q := range map[string]discovery.Query{
		"too long":       words(strings.Repeat("x", 1_000_000)),
		"too many words": words(strings.Repeat("x ", 100)),
		"no UTF-8":       words("\xff"),
		"too many":       {Limit: 101},
		"less than none": {Limit: -1},
	} {
		_, err := m.Search(t.Context(), q)
		if !problem.Is(err, problem.Usage) {
			t.Errorf("%s: Search() = %v, want %v", name, err, problem.Usage)
		}
	}
	if len(m.reg.saw) > 0 {
		t.Errorf("the registry saw %q", m.reg.saw)
	}
	_, err := m.CallCapability(t.Context(), words("x"), envelope.Message{Role: envelope.RoleUser, Parts: []string{"\xff"}})
	if err == nil || len(m.reg.saw) > 0 {
		t.Errorf("CallCapability() of bytes = %v, want a refusal before the search", err)
	}
}

func TestASlowRegistryIsGivenUpInItsTime(t *testing.T) {
	m := newMarket(t)
	m.SearchTimeout = time.Millisecond
	m.Registries[0].Transport = slow{}
	_, err := m.Search(t.Context(), words("translate"))
	dispatchtest.WantKind(t, err, problem.DeadlineExceeded)
}

func TestClientStateIsBounded(t *testing.T) {
	book := &filebook.Book{Dir: t.TempDir()}
	var m discovery.SavedData
	m.Cards = map[identity.ID]discovery.SeenCard{{1}: {Hash: identity.Hash{2}, SeenAt: dispatchtest.Start, OlderHashes: []identity.Hash{{3}}}}
	m.OpenQuestions = map[identity.Hash]discovery.OpenQuestion{{4}: {Registry: "https://r.test", Card: []byte("{}"), AskedAt: dispatchtest.Start}}
	must(t, book.Change(t.Context(), identity.ID{}, func(kept *discovery.SavedData) bool { *kept = m; return true }))
	err := book.Change(t.Context(), identity.ID{}, func(kept *discovery.SavedData) bool {
		if diff := cmp.Diff(m, *kept); diff != "" {
			t.Errorf("Change() (-want +got):\n%s", diff)
		}
		kept.OpenQuestions = nil
		return false
	})
	must(t, err)
	if err := book.Change(t.Context(), identity.ID{}, func(kept *discovery.SavedData) bool {
		if len(kept.OpenQuestions) != 1 {
			t.Error("what f did not want kept was")
		}
		return false
	}); err != nil {
		t.Fatal(err)
	}
}

func FuzzDecodeRemembered(f *testing.F) {
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"cards":{"` + strings.Repeat("01", 32) + `":{"hash":"` + strings.Repeat("02", 32) + `","at":"2026-05-06T12:00:00Z"}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := discovery.DecodeSavedData(b)
		if err != nil {
			return
		}
		out, err := m.Encode()
		must(t, err)
		if _, err := discovery.DecodeSavedData(out); err != nil {
			t.Errorf("DecodeSavedData() of what Encode wrote = %v", err)
		}
	})
}
