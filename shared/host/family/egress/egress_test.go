package egress_test

import (
	"context"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/family/egress"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const tool = "https://model.example/answer"

func key(t testing.TB, n byte) *identity.Key {
	t.Helper()
	k, err := identity.KeyFromSeed([]byte(strings.Repeat(string(rune('a'+n)), 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The family of these tests.
const (
	parent = iota
	child  // each test makes its manifest
	sibling
	stranger
	cousin // a child of the stranger
	alone  // hosted here, without a parent
	absent // not hosted here
)

// fixture provides the Vacants and the Manifests of a Guard.
type fixture struct {
	*testing.T
	records   map[identity.ID]vacants.Record
	manifests map[identity.ID]composite.Manifest
	reads     int
	failing   error
}

func (w *fixture) FindCached(_ context.Context, id identity.ID) (vacants.Record, bool, error) {
	r, ok := w.records[id]
	return r, ok, nil
}

func (w *fixture) Manifest(_ context.Context, id identity.ID) (registry.ManifestDocument, bool, error) {
	w.reads++
	m, ok := w.manifests[id]
	return registry.ManifestDocument{Manifest: m}, ok && w.failing == nil, w.failing
}

// bind creates a manifest of a child, which both parties sign.
func (w *fixture) bind(of, kid byte, change func(*composite.Manifest)) {
	m := composite.Manifest{
		ParentID: key(w, of).ID(), ChildID: key(w, kid).ID(), BirthPath: "D2", ClosedByDefault: true,
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal, SchemaVersion: composite.SchemaV2,
	}
	change(&m)
	if err := m.SignParent(w.Context(), key(w, of)); err != nil {
		w.Fatal(err)
	}
	if err := m.SignChild(w.Context(), key(w, kid)); err != nil {
		w.Fatal(err)
	}
	w.manifests[m.ChildID] = m
	w.records[m.ChildID] = vacants.Record{ID: m.ChildID, Parent: &m.ParentID, Closed: m.ClosedByDefault, HasKin: true}
}

func newWorld(t *testing.T, change func(*composite.Manifest)) (*fixture, egress.Guard) {
	t.Helper()
	w := &fixture{T: t, records: map[identity.ID]vacants.Record{}, manifests: map[identity.ID]composite.Manifest{}}
	for _, n := range []byte{parent, stranger, alone} {
		id := key(t, n).ID()
		w.records[id] = vacants.Record{ID: id}
	}
	same := func(*composite.Manifest) {}
	w.bind(parent, child, change)
	w.bind(parent, sibling, same)
	w.bind(stranger, cousin, same)
	return w, egress.Guard{Vacants: w, Manifests: w}
}

// cardOf returns n's card. By default its endpoint is at n's own host.
func cardOf(t testing.TB, n byte, endpoint ...string) *card.Card {
	t.Helper()
	at := "https://" + string(rune('a'+n)) + ".example/v/" + key(t, n).ID().String()
	if len(endpoint) > 0 {
		at = endpoint[0]
	}
	c, err := card.New(key(t, n).ID(), "says what it hears", []string{"echo"}, at)
	if err == nil {
		err = c.Sign(t.Context(), key(t, n))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &c
}

func TestOutboundCallsOfAChild(t *testing.T) {
	const no, tree, named = "no-external", "cannot call", "parent-permitted"
	for name, tt := range map[string]struct {
		manifest func(*composite.Manifest)
		refused  map[byte]string // by whom; all others may be called
	}{
		"closed":              {func(*composite.Manifest) {}, map[byte]string{stranger: tree, cousin: tree, alone: tree, absent: tree, child: tree}},
		"closed by version 1": {func(m *composite.Manifest) { m.SchemaVersion = composite.SchemaV1 }, map[byte]string{stranger: tree, cousin: tree, alone: tree, absent: tree, child: tree}},
		"closed and unrestricted": {func(m *composite.Manifest) { m.OutboundPolicy = composite.Unrestricted },
			map[byte]string{stranger: tree, cousin: tree, alone: tree, absent: tree, child: tree}},
		"closed, a stranger among its tools": {func(m *composite.Manifest) {
			m.OutboundPolicy, m.AddedTools = composite.ParentPermitted, []string{key(t, stranger).ID().String()}
		}, map[byte]string{stranger: tree, cousin: tree, alone: tree, absent: tree, child: tree}},
		"open": {func(m *composite.Manifest) { m.ClosedByDefault = false }, map[byte]string{stranger: no, cousin: no, alone: no, absent: no, child: no}},
		"open by version 1": {func(m *composite.Manifest) { m.ClosedByDefault, m.SchemaVersion = false, composite.SchemaV1 },
			map[byte]string{}},
		"open and unrestricted": {func(m *composite.Manifest) { m.ClosedByDefault, m.OutboundPolicy = false, composite.Unrestricted },
			map[byte]string{}},
		"open, a stranger among its tools": {func(m *composite.Manifest) {
			m.ClosedByDefault, m.OutboundPolicy, m.AddedTools = false, composite.ParentPermitted, []string{key(t, stranger).ID().String()}
		}, map[byte]string{cousin: named, alone: named, absent: named, child: named}},
	} {
		t.Run(name, func(t *testing.T) {
			_, g := newWorld(t, tt.manifest)
			for n := byte(parent); n <= absent; n++ {
				c := cardOf(t, n)
				err := g.CheckPermission(t.Context(), outbound.VacantActor(key(t, child).ID(), outbound.Stranger).WithCallee(c), c.Endpoint+"/a2a/message/send")
				want := tt.refused[n]
				if (err == nil) != (want == "") || err != nil && (!problem.Is(err, problem.TreeOnly) || !strings.Contains(problem.AsError(err).Text(), want)) {
					t.Errorf("CheckPermission() of a call to %d = %v, want %q", n, err, want)
				}
			}
		})
	}
}

func TestOutboundURLsOfAChild(t *testing.T) {
	const closed, named = "outbound_policy no-external", "not among its tools"
	urls := []string{tool, "https://model.example/answer/", "https://MODEL.example/answer", "https://model.example:443/answer",
		"https://model.example/answer?x", "https://model.example/answer#", "https://model.example/a/../answer", "http://model.example/answer",
		"https://model.example/%61nswer", "https://model.example.evil.example/answer", "https://model.example@evil.example/answer"}
	for name, tt := range map[string]struct {
		manifest       func(*composite.Manifest)
		itself, others string // why the tool is refused, and all other spellings
	}{
		"no-external":                {func(*composite.Manifest) {}, closed, closed},
		"no-external, yet with tool": {func(m *composite.Manifest) { m.AddedTools = []string{tool} }, closed, closed},
		"parent-permitted":           {func(m *composite.Manifest) { m.OutboundPolicy = composite.ParentPermitted }, named, named},
		"parent-permitted with tool": {func(m *composite.Manifest) {
			m.OutboundPolicy, m.AddedTools = composite.ParentPermitted, []string{tool}
		}, "", named},
		"inherited": {func(m *composite.Manifest) {
			m.OutboundPolicy, m.InheritedTools = composite.ParentPermitted, []string{tool}
		}, "", named},
		"taken away": {func(m *composite.Manifest) {
			m.OutboundPolicy, m.InheritedTools, m.RemovedTools = composite.ParentPermitted, []string{tool}, []string{tool}
		}, named, named},
		"unrestricted": {func(m *composite.Manifest) { m.OutboundPolicy = composite.Unrestricted }, "", ""},
		"version 1 signs no policy": {func(m *composite.Manifest) {
			m.SchemaVersion, m.OutboundPolicy = composite.SchemaV1, composite.Unrestricted
		}, closed, closed},
		"graduated, still no-external": {func(m *composite.Manifest) { m.ClosedByDefault, m.Reachability = false, composite.PublicA2A }, closed, closed},
	} {
		t.Run(name, func(t *testing.T) {
			_, g := newWorld(t, tt.manifest)
			for i, url := range urls {
				err := g.CheckPermission(t.Context(), outbound.VacantActor(key(t, child).ID(), outbound.Stranger), url)
				want := tt.others
				if i == 0 {
					want = tt.itself
				}
				if (err == nil) != (want == "") || err != nil && (!problem.Is(err, problem.TreeOnly) || !strings.Contains(problem.AsError(err).Text(), want)) {
					t.Errorf("CheckPermission(%s) = %v, want %q", url, err, want)
				}
			}
		})
	}
}

func TestAVacantIsCalledAtTheEndpointOfItsOwnCardAlone(t *testing.T) {
	_, g := newWorld(t, func(*composite.Manifest) {})
	own := cardOf(t, parent)
	forged := *own
	forged.Endpoint = "https://evil.example/a2a/message/send"
	whole := cardOf(t, parent, "https://a.example/a2a/message/send")
	odd := cardOf(t, parent, "https://a.example/agents/7?key=x")
	runtime := cardOf(t, parent, "https://a.example/arn%3Aa%2Fb/run/")
	for name, tt := range map[string]struct {
		callee *card.Card
		url    string
		ok     bool
	}{
		"the endpoint itself":                  {own, own.Endpoint, true},
		"its handler":                          {own, own.Endpoint + "/a2a/message/send", true},
		"where it is asked":                    {own, own.Endpoint + "/a2a/message/ask", true},
		"where it is reset":                    {own, own.Endpoint + "/a2a/chain/reset", true},
		"an endpoint that is the handler":      {whole, "https://a.example/a2a/message/send", true},
		"another handler of that":              {whole, "https://a.example/a2a/chain/reset", true},
		"an endpoint of its own form":          {odd, odd.Endpoint, true},
		"a handler of that":                    {odd, "https://a.example/agents/7/a2a/message/send?key=x", true},
		"that without its query":               {odd, "https://a.example/agents/7/a2a/message/send", false},
		"another host":                         {own, "https://evil.example/v/" + own.VacantID.String(), false},
		"another vacant of its host":           {own, "https://a.example/v/" + key(t, stranger).ID().String() + "/a2a/message/send", false},
		"the host itself":                      {own, "https://a.example/", false},
		"another port":                         {own, strings.Replace(own.Endpoint, "a.example", "a.example:8443", 1), false},
		"in clear":                             {own, strings.Replace(own.Endpoint, "https", "http", 1), false},
		"another handler":                      {own, own.Endpoint + "/card", false},
		"up and out":                           {own, own.Endpoint + "/../../secret/a2a/message/send", false},
		"an encoded way out":                   {own, own.Endpoint + "/%2e%2e/x", false},
		"encoded slashes":                      {own, own.Endpoint + "%2Fa2a%2Fmessage%2Fsend", false},
		"an endpoint with encoded slashes":     {runtime, runtime.Endpoint + "a2a/message/send", true},
		"that with plain slashes":              {runtime, "https://a.example/arn:a/b/run/a2a/message/send", false},
		"with a query":                         {own, own.Endpoint + "?to=evil.example", false},
		"another spelling of the host":         {own, strings.Replace(own.Endpoint, "a.example", "A.EXAMPLE", 1), false},
		"under a name and a password":          {own, strings.Replace(own.Endpoint, "a.example", "a.example@evil.example", 1), false},
		"a stranger's address in a forged one": {&forged, forged.Endpoint, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, caller := range []byte{child, alone} {
				err := g.CheckPermission(t.Context(), outbound.VacantActor(key(t, caller).ID(), outbound.Stranger).WithCallee(tt.callee), tt.url)
				if tt.ok && err != nil || !tt.ok && !problem.Is(err, problem.Untrusted) {
					t.Errorf("CheckPermission(%s) = %v, want it let: %t", tt.url, err, tt.ok)
				}
			}
		})
	}
}

func TestVacantWithoutAParentIsUnrestrictedWithoutARead(t *testing.T) {
	w, g := newWorld(t, func(*composite.Manifest) {})
	c := cardOf(t, stranger)
	for _, as := range []outbound.Actor{outbound.VacantActor(key(t, alone).ID(), outbound.Stranger), outbound.VacantActor(key(t, alone).ID(), outbound.Stranger).WithCallee(c)} {
		if err := g.CheckPermission(t.Context(), as, c.Endpoint); err != nil {
			t.Errorf("CheckPermission() = %v, want nil", err)
		}
	}
	if w.reads > 0 {
		t.Errorf("%d manifests were read, want none", w.reads)
	}
	up, side := cardOf(t, parent), cardOf(t, sibling)
	for _, tt := range []struct {
		callee *card.Card
		reads  int
	}{{up, 1}, {side, 2}} {
		w.reads = 0
		if err := g.CheckPermission(t.Context(), outbound.VacantActor(key(t, child).ID(), outbound.Stranger).WithCallee(tt.callee), tt.callee.Endpoint); err != nil || w.reads != tt.reads {
			t.Errorf("CheckPermission() of a call to %s = %v with %d manifests read, want nil with %d", tt.callee.VacantID.Short(), err, w.reads, tt.reads)
		}
	}
}

func TestOutboundRefusesWhenLookupFails(t *testing.T) {
	w, g := newWorld(t, func(m *composite.Manifest) { m.OutboundPolicy = composite.Unrestricted })
	kid := outbound.VacantActor(key(t, child).ID(), outbound.Stranger)
	for name, tt := range map[string]struct {
		as   outbound.Actor
		with func()
		want problem.Kind
	}{
		"who is not hosted here":       {outbound.VacantActor(key(t, absent).ID(), outbound.Stranger), func() {}, problem.Forbidden},
		"the host, which is no vacant": {outbound.HostActor(outbound.Stranger), func() {}, problem.Forbidden},
		"storage is out of reach":      {kid, func() { w.failing = problem.New(problem.Unavailable, "away") }, problem.Unavailable},
		"a manifest that is damaged":   {kid, func() { w.failing = problem.New(problem.Damaged, "torn") }, problem.Damaged},
		"a manifest that is not there": {kid, func() { clear(w.manifests) }, problem.Damaged},
	} {
		w.failing = nil
		tt.with()
		if err := g.CheckPermission(t.Context(), tt.as, tool); !problem.Is(err, tt.want) {
			t.Errorf("%s: CheckPermission() = %v, want %v", name, err, tt.want)
		}
		if name == "a manifest that is not there" {
			w.bind(parent, child, func(m *composite.Manifest) { m.OutboundPolicy = composite.Unrestricted })
		}
	}
}
