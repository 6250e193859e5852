package graduation_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"github.com/vacancy-host/vacancy/shared/host/substrate/resources"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/call/calltest"
	"github.com/vacancy-host/vacancy/shared/host/family/collusionevidence"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation/gatetest"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// fixture is a host with a gate. The gate and the host use the faulty store. The sound store has
// the same data without faults.
type fixture struct {
	clock    *calltest.Clock
	sound    store.Store
	vacants  *vacants.Directory
	registry *registry.Registry
	gate     *graduation.Service
	vault    custody.Vault
	made     atomic.Int64
}

func newFixture(t testing.TB, change ...func(*graduation.Config)) *fixture {
	t.Helper()
	return fixtureOver(t, memory.New(), nil, change...)
}

// fixtureOver returns a server with a store. If before is not nil, it wraps the store.
func fixtureOver(t testing.TB, sound store.Store, before func(store.Store) store.Store, change ...func(*graduation.Config)) *fixture {
	t.Helper()
	vault, err := local.Open(filepath.Join(t.TempDir(), "seal.key"), rand.Reader)
	must(t, err)
	return openFixture(t, &fixture{clock: calltest.NewClock(time.Date(2026, 5, 6, 12, 0, 0, 0, time.UTC)), sound: sound, vault: vault}, before, change...)
}

// beside returns another host with the store of h.
func (h *fixture) beside(t testing.TB) *fixture {
	t.Helper()
	return openFixture(t, &fixture{clock: h.clock, sound: h.sound, vault: h.vault}, nil)
}

func openFixture(t testing.TB, h *fixture, before func(store.Store) store.Store, change ...func(*graduation.Config)) *fixture {
	t.Helper()
	s := h.sound
	if before != nil {
		s = before(s)
	}
	h.vacants = hosttest.NewVacants(t, s, h.clock.NowFunc(0), "http://127.0.0.1:8080", vacants.Config{
		Vault: h.vault,
		Wait:  noWait,
		// No vacant is called, so only the declared substrates matter.
		Resources: &resources.Resources{Substrates: substrate.Kinds{echo.Kind: echo.New, substrate.KindHTTP: func(string) (substrate.Substrate, error) { return echo.New("") }}},
	})
	h.registry = h.vacants.Registry
	seen := &collusionevidence.Collector{Store: s, Vacants: h.vacants, Registry: h.registry, Texts: textkeys.New(s, h.vault, h.clock.NowFunc(0), rand.Reader, textkeys.MinRetention), Now: h.clock.NowFunc(0)}
	c := graduation.Config{Store: s, Vacants: h.vacants, Registry: h.registry, Evidence: seen, Now: h.clock.NowFunc(0), Rand: rand.Reader, Wait: noWait}
	for _, fn := range change {
		fn(&c)
	}
	h.gate = graduation.New(c)
	return h
}

func noWait(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *fixture) vacant(t testing.TB) identity.ID {
	t.Helper()
	r, err := h.vacants.Create(t.Context(), vacants.CreateSpec{Name: fmt.Sprintf("vacant-%d", h.made.Add(1)), Capability: "says what it hears", Substrate: "echo"})
	must(t, err)
	return r.ID
}

// children creates n closed children whose substrate differs from their parent's.
func (h *fixture) children(t testing.TB, parent identity.ID, n int) []identity.ID {
	t.Helper()
	ids := make([]identity.ID, n)
	for i := range ids {
		ids[i] = h.child(t, parent, "http:https://child.example/answer")
	}
	return ids
}

func (h *fixture) child(t testing.TB, parent identity.ID, substrate string) identity.ID {
	t.Helper()
	r, _, err := h.vacants.Spawn(t.Context(), vacants.SpawnSpec{Parent: parent, Path: "D2", Name: fmt.Sprintf("child-%d", h.made.Add(1)), Substrate: substrate})
	must(t, err)
	return r.ID
}

// request returns a graduation request of child that both parties have signed.
func (h *fixture) request(t testing.TB, parent, child identity.ID, text string) graduation.Submission {
	t.Helper()
	r := composite.GraduationRequest{ParentID: parent, ChildID: child, CapabilityText: text}
	h.sign(t, &r)
	return graduation.Submission{Request: r}
}

func (h *fixture) sign(t testing.TB, r *composite.GraduationRequest) {
	t.Helper()
	must(t, h.vacants.WithSigner(t.Context(), r.ParentID, func(s identity.Signer) error { return r.SignParent(t.Context(), s) }))
	must(t, h.vacants.WithSigner(t.Context(), r.ChildID, func(s identity.Signer) error { return r.SignChild(t.Context(), s) }))
}

// family creates a parent, a closed child, and a request that both have signed.
func (h *fixture) family(t testing.TB) graduation.Submission {
	t.Helper()
	parent := h.vacant(t)
	return h.request(t, parent, h.children(t, parent, 1)[0], "drafts contracts")
}

// home returns h in the form that gatetest uses.
func (h *fixture) home() gatetest.Fixture {
	return gatetest.Fixture{
		Store:  h.sound,
		Vacant: func(t *testing.T) identity.ID { return h.vacant(t) },
		Children: func(t *testing.T, parent identity.ID, n int) []identity.ID {
			return h.children(t, parent, n)
		},
		SameSubstratePair: func(t *testing.T) (parent, child identity.ID) {
			parent = h.vacant(t)
			return parent, h.child(t, parent, "echo")
		},
		Sign: func(t *testing.T, r *composite.GraduationRequest) { h.sign(t, r) },
		Revoke: func(t *testing.T, id identity.ID) {
			_, _, err := h.vacants.Revoke(t.Context(), id, "test")
			must(t, err)
		},
		SetPolicy: func(t *testing.T, p gate.Policy) { must(t, h.gate.SetPolicy(t.Context(), "", p)) },
		Submit: func(t *testing.T, sub graduation.Submission) (graduation.View, error) {
			st, err := h.gate.Submit(t.Context(), sub)
			if err != nil {
				return graduation.View{}, err
			}
			return st.View(), nil
		},
	}
}

func wantKind(t testing.TB, what string, err error, want problem.Kind) {
	t.Helper()
	if !problem.Is(err, want) {
		t.Errorf("%s = %v, want %s", what, err, want)
	}
}

func TestTheGateOfOneProcessIsTheGate(t *testing.T) {
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) { gatetest.Run(t, fixtureOver(t, open(t), nil).home()) })
	}
}

// anonymous replaces ids by names.
func anonymous(text string, id identity.ID) string {
	return strings.ReplaceAll(text, id.Short(), "PARENT")
}
