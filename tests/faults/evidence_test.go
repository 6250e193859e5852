package faults

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/family/collusionevidence"
	"github.com/vacancy-host/vacancy/shared/host/registry/callstats"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/tests/awshost"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// maxEvidenceReads are the read units that the evidence of a child and its
// parent may take, each with 50 short answers; maxSiblingReads those that each
// sibling adds, of which there are at most 8.
const (
	maxEvidenceReads = 25
	maxSiblingReads  = 12
)

// maxDocumentReads are the read units of ten vacants' documents, which evidence
// reads beside rows and plans.
const maxDocumentReads = 60

const sentence = "an answer of a sentence or two, as most of them are; nothing more"

// delegate makes one hosted vacant call another n times, from the first call of
// the pair on.
func delegate(t *testing.T, server *serve.Server, from, to identity.ID, n int) {
	t.Helper()
	says := make([]string, n)
	for i := range says {
		says[i] = sentence
	}
	delegateAll(t, server, from, to, says)
}

// delegateAll is delegate of one text after the other.
func delegateAll(t *testing.T, server *serve.Server, from, to identity.ID, says []string) {
	t.Helper()
	e := envelope.Envelope{From: from, To: to}
	for _, text := range says {
		e.Payload = envelope.Message{Role: envelope.RoleUser, Parts: []string{text}}
		e.Seq, e.Time = e.Seq+1, time.Now().UTC().Truncate(time.Microsecond)
		must(t, server.Vacants.WithSigner(t.Context(), from, func(s identity.Signer) error { _, err := e.Sign(t.Context(), s); return err }))
		if out := server.Calls.Send(t.Context(), identity.ID{}, &e); out.Problem != nil {
			t.Fatal(out.Problem)
		}
		e.Prev = e.Hash()
	}
}

func TestEvidenceCapacity(t *testing.T) {
	h := awshost.New(t)
	server := h.Open(t, h.Store(h.Endpoint), time.Now, nil)
	f := &family{server: server}
	parent := f.vacant(t)
	spawn := func(name string) identity.ID {
		r, _, err := server.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: parent, Path: "D2", Name: name, Substrate: "echo"})
		must(t, err)
		return r.ID
	}
	child := spawn("child")
	delegate(t, server, parent, child, collusionevidence.MaxResponses)
	visitor := caller.New(t, parent)
	for range collusionevidence.MaxResponses {
		e := visitor.Call("a question of a sentence or two, as most of them are", time.Now())
		if out := server.Calls.Send(t.Context(), identity.ID{}, e); out.Problem != nil {
			t.Fatal(out.Problem)
		}
		visitor.Accepted(e)
	}
	counter := &roundtrips.Counter{}
	s := h.Store(h.Endpoint, counter.Option)
	collect := func() (float64, int) {
		fresh := h.Open(t, s, time.Now, nil)
		counter.Reset()
		e, err := (&collusionevidence.Collector{Store: s, Vacants: fresh.Vacants, Registry: fresh.Registry, Texts: fresh.Texts, Now: time.Now}).Collect(t.Context(), child, parent)
		must(t, err)
		for _, p := range e.Pairs {
			if p.Child.Responses != collusionevidence.MaxResponses {
				t.Fatalf("the child has %d responses, want %d", p.Child.Responses, collusionevidence.MaxResponses)
			}
		}
		return counter.ReadUnits(), len(counter.Operations())
	}
	two, requests := collect()
	sibling := spawn("sibling")
	delegate(t, server, parent, sibling, collusionevidence.MaxResponses)
	three, more := collect()
	t.Logf("evidence of two: %v read units in %d requests; a sibling adds %v in %d", two, requests, three-two, more-requests)
	if two > maxEvidenceReads || three-two > maxSiblingReads {
		t.Errorf("evidence takes %v read units and %v more for a sibling, want at most %d and %d", two, three-two, maxEvidenceReads, maxSiblingReads)
	}
}

// The siblings' last answers nearly exhaust their read budgets, and earlier
// ones are as large as a row may be. The bound holds whatever the rows contain.
func TestEvidenceCapacityIsBounded(t *testing.T) {
	h := awshost.New(t)
	server := h.Open(t, h.Store(h.Endpoint), time.Now, nil)
	parent := (&family{server: server}).vacant(t)
	spawn := func(name string) identity.ID {
		r, _, err := server.Vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: parent, Path: "D2", Name: name, Substrate: "echo"})
		must(t, err)
		return r.ID
	}
	child := spawn("child")
	delegate(t, server, parent, child, collusionevidence.MaxResponses)
	var says []string
	for i := range 27 { // 3 pages of 8 that take 62 units, and one that is cut
		size := 10 << 10
		if i < 3 {
			size = 300<<10 - 100 // the echo adds some
		}
		says = append(says, strings.Repeat("x", size))
	}
	for i := range collusionevidence.MaxSiblings {
		delegateAll(t, server, parent, spawn(fmt.Sprint("sibling-", i)), says)
	}
	counter := &roundtrips.Counter{}
	s := h.Store(h.Endpoint, counter.Option)
	fresh := h.Open(t, s, time.Now, nil)
	counter.Reset()
	e, err := (&collusionevidence.Collector{Store: s, Vacants: fresh.Vacants, Registry: fresh.Registry, Texts: fresh.Texts, Now: time.Now}).Collect(t.Context(), child, parent)
	must(t, err)
	units := counter.ReadUnits()
	t.Logf("evidence of ten with the largest rows: %v read units in %d requests", units, len(counter.Operations()))
	if most := float64(collusionevidence.MaxUnits + maxDocumentReads); units > most {
		t.Errorf("evidence takes %v read units, want at most %v", units, most)
	}
	if why := e.Pairs[1].Other.MissingReasons[gate.Style]; !strings.Contains(why, "too large to read") {
		t.Errorf("the style of a sibling is missing since %q, want it too large", why)
	}
}

// maxObservedUnits are the write units of observing a vacant, at most every ten
// seconds in each process that answers for it.
const maxObservedUnits = 3

func TestObservationCapacity(t *testing.T) {
	h := awshost.New(t)
	counter := &roundtrips.Counter{}
	now := time.Now().Add(-time.Hour)
	o := callstats.New(callstats.Config{
		Store: h.Store(h.Endpoint, counter.Option), Manifests: h.Open(t, h.Store(h.Endpoint), time.Now, nil).Registry,
		Now: func() time.Time { return now }, Rand: rand.Reader,
	})
	for i := range 60 { // of as many callers
		now = now.Add(callstats.WriteInterval)
		o.Observe(t.Context(), call.Observation{Pair: call.Pair{Caller: identity.ID{byte(i)}, Vacant: identity.ID{1}}, Position: 1 << 20, Time: now})
	}
	calls := counter.Calls()
	if last := calls[len(calls)-1]; last.Operation != "PutItem" || last.WriteUnits > maxObservedUnits {
		t.Errorf("the last write: %v units by %s, want at most %d", last.WriteUnits, last.Operation, maxObservedUnits)
	}
	if reads := counter.ReadUnits(); reads > 1 {
		t.Errorf("it read %v units to write 60 times, want one look", reads)
	}
}
