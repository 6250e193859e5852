package collusionevidence_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"github.com/vacancy-host/vacancy/shared/host/answer"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/family/collusionevidence"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/callstats"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// fixture is a host whose answers are observed, with a clock that tests set.
type fixture struct {
	testing.TB
	store.Store
	time     time.Time
	vacants  *vacants.Directory
	registry *registry.Registry
	calls    *call.Host
	texts    *textkeys.Keys
	keys     map[string]*identity.Key // of callers from outside, by name
	reads    atomic.Int64
	says     string // text that callers send, which echo answers; "" means one word
}

// collector returns the host's collector over a store that counts.
func (h *fixture) collector() *collusionevidence.Collector {
	return &collusionevidence.Collector{Store: h, Vacants: h.vacants, Registry: h.registry, Texts: h.texts, Now: h.now}
}

func (h *fixture) now() time.Time { return h.time }

func (h *fixture) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	h.reads.Add(1)
	return h.Store.Rows(ctx, s, from, n, d)
}

// speaker answers in a style: "terse" with one word, or "florid" with long sentences, questions and
// lists. n makes each answer different.
type speaker struct {
	manner string
	n      int
}

func (s *speaker) answer(context.Context, substrate.Request) (string, error) {
	s.n++
	if strings.HasPrefix(s.manner, "https://terse") {
		return fmt.Sprintf("Yes %d.", s.n), nil
	}
	return fmt.Sprintf("Perhaps one might wonder, might one not, whether item %d of the long and winding list is indeed worth the trouble?\n- first, it could be argued\n- second, it may be doubted; and so on, and so forth, %s!", s.n, strings.Repeat("again, ", s.n%7)), nil
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	vault, err := local.FromHex(strings.Repeat("5a", 32), rand.Reader)
	must(t, err)
	h := &fixture{TB: t, Store: memory.New(), time: time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC), keys: map[string]*identity.Key{}}
	speakers := func(at string) (substrate.Substrate, error) {
		return substrate.Func((&speaker{manner: at}).answer), nil
	}
	h.vacants = hosttest.NewVacants(h, h.Store, h.now, "https://host.example", vacants.Config{
		Vault:     vault,
		Resources: &resources.Resources{Substrates: substrate.Kinds{echo.Kind: echo.New, "http": speakers, "ollama": speakers, "openai": speakers}},
	})
	h.registry = h.vacants.Registry
	h.texts = textkeys.New(h.Store, vault, h.now, rand.Reader, 30*24*time.Hour)
	watch := callstats.New(callstats.Config{Store: h.Store, Manifests: h.registry, Now: h.now, Rand: rand.Reader})
	h.calls = call.New(call.Config{
		Store: h.Store, Directory: answer.New(answer.Config{Vacants: h.vacants}), Texts: h.texts, Now: h.now, Rand: rand.Reader, Self: h.vacants.HostID,
		IsSibling: h.registry.IsChild, Observe: watch.Observe,
	})
	return h
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create creates a vacant without a parent.
func (h *fixture) create(name, spec, tenant string) vacants.Record {
	h.Helper()
	r, err := h.vacants.Create(h.Context(), vacants.CreateSpec{Name: name, Capability: "leads", Substrate: spec, Tenant: tenant})
	must(h, err)
	return r
}

// models are the substrates that children of composites may use.
func models() []string {
	var all []string
	for _, at := range []string{"model.example/a", "model.example/b", "model.example:443/b", "other.example/a", "third.example/a"} {
		all = append(all, "https://"+at)
	}
	return all
}

// spawn creates a child.
func (h *fixture) spawn(parent identity.ID, path composite.BirthPath, name, spec string) identity.ID {
	h.Helper()
	s := vacants.SpawnSpec{Parent: parent, Path: path, Name: name, Substrate: spec}
	if spec == "composite" {
		s.OutboundPolicy, s.Tools = composite.ParentPermitted, models() // as far as its own children may go
	}
	if path == "D3" {
		s.Capability = "does more than its parent"
	}
	r, _, err := h.vacants.Spawn(h.Context(), s)
	must(h, err)
	h.time = h.time.Add(time.Second)
	return r.ID
}

// delegate makes a hosted vacant call another n times.
func (h *fixture) delegate(from, to identity.ID, n int) {
	h.Helper()
	must(h, h.vacants.WithSigner(h.Context(), from, func(s identity.Signer) error { return h.call(s, to, n) }))
}

// visit makes a caller outside the tree call n times.
func (h *fixture) visit(name string, to identity.ID, n int) {
	h.Helper()
	if h.keys[name] == nil {
		k, err := identity.NewKey(rand.Reader)
		must(h, err)
		h.keys[name] = k
	}
	must(h, h.call(h.keys[name], to, n))
}

func (h *fixture) call(s identity.Signer, to identity.ID, n int) error {
	pair := call.Pair{Caller: s.ID(), Vacant: to}
	tip, err := h.Tip(h.Context(), pair.Requests())
	must(h, err)
	e := envelope.Envelope{From: pair.Caller, To: to, Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{cmp.Or(h.says, "speak")}}}
	if tip.Position > 0 {
		last, err := call.DecodeRequest(tip)
		must(h, err)
		e.Seq, e.Prev = last.Seq, last.Hash
	}
	for range n {
		h.time = h.time.Add(11 * time.Second) // beyond callstats.WriteInterval
		e.Seq, e.Time = e.Seq+1, h.time
		if _, err := e.Sign(h.Context(), s); err != nil {
			return err
		}
		if out := h.calls.Send(h.Context(), identity.ID{}, &e); out.Problem != nil {
			return out.Problem
		}
		e.Prev = e.Hash()
	}
	return nil
}

// graduate opens a child as the gate's last step does.
func (h *fixture) graduate(parent, child identity.ID) {
	h.Helper()
	r := composite.GraduationRequest{ParentID: parent, ChildID: child, CapabilityText: "stands alone"}
	must(h, h.vacants.WithSigner(h.Context(), parent, func(s identity.Signer) error { return r.SignParent(h.Context(), s) }))
	must(h, h.vacants.WithSigner(h.Context(), child, func(s identity.Signer) error { return r.SignChild(h.Context(), s) }))
	done, err := h.vacants.LockGraduation(h.Context(), parent, child)
	must(h, err)
	defer done()
	must(h, store.Updater{Store: h.Store, Rand: rand.Reader}.Update(h.Context(), func(ctx context.Context, tx *store.Tx) error {
		_, err := h.vacants.AddGraduation(ctx, tx, vacants.Graduation{Request: r, EventTime: h.time})
		return err
	}))
}
