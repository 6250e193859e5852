package registry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/registrytest"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// prober is a Probe that records the probed endpoints. Endpoints in silent do not answer.
type prober struct {
	mu     sync.Mutex
	probed []string
	silent map[string]bool
}

func (p *prober) probe(_ context.Context, endpoint string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.probed = append(p.probed, endpoint)
	if p.silent[endpoint] {
		return problem.New(problem.Unavailable, "status 502")
	}
	return nil
}

func isListed(t *testing.T, r *registry.Registry, id identity.ID, at time.Time) bool {
	t.Helper()
	g := get(t, r, id)
	return g.IsListed()
}

// waiting returns the entries of the queue.
func waiting(t *testing.T, s store.Store) int {
	t.Helper()
	docs, _, err := s.Docs(t.Context(), registry.PendingProbeDocs.Range(), store.MaxPage, "")
	must(t, err)
	return len(docs)
}

func TestAnEndpointIsProbedBeforeItIsFirstListed(t *testing.T) {
	inner, p := memory.New(), prober{}
	r, k := open(inner, newClock()), key(1)
	const one, two = "https://one.example/", "https://two.example/"
	steps := []struct {
		fact string
		d    draft
		want []string
	}{
		{"a hidden one is not called", draft{Endpoint: one, Visibility: lifecycle.Hidden}, nil},
		{"nor is a restricted one", draft{Endpoint: one, Visibility: lifecycle.Restricted}, nil},
		{"listed, it is", draft{Endpoint: one}, []string{one}},
		{"listed already, it is not again", draft{Endpoint: one, State: lifecycle.Hibernating}, nil},
		{"nor after it was hidden", draft{Endpoint: one, Visibility: lifecycle.Hidden}, nil},
		{"and listed again", draft{Endpoint: one}, nil},
		{"but another is", draft{Endpoint: two}, []string{two}},
		{"and the first, which is another by now", draft{Endpoint: one}, []string{one}},
		{"one of this host never is", draft{Endpoint: hostURL + k.ID().String() + "/a2a/message/send"}, nil},
	}
	var last identity.Hash
	for i, step := range steps {
		p.probed = nil
		step.d.Seq = int64(i + 1)
		step.d.Key = event.ReplacesKeyAt(last, step.d.Seq)
		receipt, err := r.Publish(t.Context(), publication(t, k, step.d))
		if err != nil {
			t.Fatalf("%s: Publish() = %v", step.fact, err)
		}
		last = receipt.CardHash
		if g := get(t, r, k.ID()); receipt.AwaitsProbe != (step.want != nil) || receipt.AwaitsProbe && g.IsListed() || g.AwaitsProbe != receipt.AwaitsProbe {
			t.Errorf("%s: accepted as unreached %t, listed %t", step.fact, receipt.AwaitsProbe, g.IsListed())
		}
		if _, err := r.ProbeEndpoints(t.Context(), p.probe); err != nil {
			t.Errorf("%s: ProbeEndpoints() = %v", step.fact, err)
		}
		if diff := cmp.Diff(step.want, p.probed); diff != "" {
			t.Errorf("%s: probed (-want +got):\n%s", step.fact, diff)
		}
		if g := get(t, r, k.ID()); step.want != nil && (!g.IsListed() || g.AwaitsProbe) {
			t.Errorf("%s: it answers and is not listed", step.fact)
		}
		if n := waiting(t, inner); n != 0 {
			t.Errorf("%s: %d entries wait still", step.fact, n)
		}
	}
	if !get(t, r, k.ID()).Hosted {
		t.Error("the last is at this host, and is not marked as such")
	}
}

// A silent endpoint is probed five times in seven hours, and again after its vacant has published
// again.
func TestASilentEndpointIsProbedAgainLater(t *testing.T) {
	inner, c := memory.New(), newClock()
	r, k := open(inner, c), key(1)
	const endpoint = "https://silent.example/"
	p := prober{silent: map[string]bool{endpoint: true}}
	publish := func(seq int64) {
		t.Helper()
		must(t, errorOf(r.Publish(t.Context(), publication(t, k, draft{Endpoint: endpoint, Seq: seq, SignedAt: c.Now()}))))
	}
	reach := func(want registry.ProbeResult) {
		t.Helper()
		if got, err := r.ProbeEndpoints(t.Context(), p.probe); got != want || err != nil {
			t.Errorf("ProbeEndpoints() at %v = %+v, %v; want %+v", c.Now(), got, err, want)
		}
	}
	publish(1)
	silent := registry.ProbeResult{Unanswered: 1}
	reach(silent)
	for _, wait := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour} {
		c.Advance(wait - time.Second)
		reach(registry.ProbeResult{})
		c.Advance(time.Second)
		reach(silent)
	}
	if n := waiting(t, inner); n != 0 || isListed(t, r, k.ID(), c.Now()) {
		t.Errorf("%d entries wait, listed %t; want neither", n, isListed(t, r, k.ID(), c.Now()))
	}
	publish(2)
	p.silent = nil
	reach(registry.ProbeResult{Listed: 1})
	if !isListed(t, r, k.ID(), c.Now()) {
		t.Error("it answers and is not listed")
	}
}

// A key that is revoked while its endpoint waits is neither probed nor listed, and its registration
// does not change after the revocation.
func TestARevokedVacantIsNotReached(t *testing.T) {
	inner, p := memory.New(), prober{}
	r, k := open(inner, newClock()), key(1)
	if receipt, err := r.Publish(t.Context(), publication(t, k, draft{Endpoint: "https://one.example/"})); err != nil || !receipt.AwaitsProbe {
		t.Fatalf("Publish() = %+v, %v, want one that waits to be reached", receipt, err)
	}
	must(t, errorOf(registrytest.Revoke(t.Context(), r, revocationPut(t, k, 2, "stolen", event.RevokePayload))))
	before := get(t, r, k.ID())
	if got, err := r.ProbeEndpoints(t.Context(), p.probe); got != (registry.ProbeResult{}) || err != nil || len(p.probed) > 0 {
		t.Errorf("ProbeEndpoints() = %+v, %v, and probed %v; want nothing", got, err, p.probed)
	}
	if after := get(t, r, k.ID()); after.DocVersion != before.DocVersion || after.Status != registry.StatusRevoked {
		t.Errorf("the registration is %s in version %d, want revoked in %d", after.Status, after.DocVersion, before.DocVersion)
	}
	if n := waiting(t, inner); n != 0 {
		t.Errorf("%d entries wait still", n)
	}
	wantWhole(t, inner)
}

// A hanging endpoint does not delay requests, and the endpoints behind it are probed by the same
// run or the next.
func TestEndpointsThatHangHoldUpNobody(t *testing.T) {
	r := open(memory.New(), newClock())
	const more = 6
	for n := range registry.MaxConcurrentProbes + more {
		must(t, errorOf(r.Publish(t.Context(), publication(t, registrytest.Key(n+1), draft{Endpoint: fmt.Sprintf("https://n%d.example/", n)}))))
	}
	var all sync.WaitGroup
	all.Add(registry.MaxConcurrentProbes) // each probe waits until all others have begun
	first, err := r.ProbeEndpoints(t.Context(), func(context.Context, string) error {
		all.Done()
		all.Wait()
		return errors.New("no answer")
	})
	if want := (registry.ProbeResult{Unanswered: registry.MaxConcurrentProbes, HasMore: true}); first != want || err != nil {
		t.Errorf("ProbeEndpoints() = %+v, %v; want %+v", first, err, want)
	}
	if second, err := r.ProbeEndpoints(t.Context(), (&prober{}).probe); second != (registry.ProbeResult{Listed: more}) || err != nil {
		t.Errorf("ProbeEndpoints() = %+v, %v; want the others listed", second, err)
	}
}

// The card may change, or the key be revoked, while the endpoint is probed.
func TestWhatChangesDuringAProbeCounts(t *testing.T) {
	for name, during := range map[string]func(t *testing.T, r *registry.Registry, k *identity.Key, known identity.Hash){
		"another endpoint": func(t *testing.T, r *registry.Registry, k *identity.Key, known identity.Hash) {
			if _, err := r.Publish(t.Context(), publication(t, k, draft{Seq: 2, Endpoint: "https://two.example/", Key: event.ReplacesKeyAt(known, 2)})); err != nil {
				t.Error(err)
			}
		},
		"hidden": func(t *testing.T, r *registry.Registry, k *identity.Key, _ identity.Hash) {
			if _, err := r.Publish(t.Context(), publication(t, k, draft{Seq: 2, Endpoint: "https://one.example/", Visibility: lifecycle.Hidden})); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inner := memory.New()
			r, k := open(inner, newClock()), key(1)
			receipt, err := r.Publish(t.Context(), publication(t, k, draft{Endpoint: "https://one.example/"}))
			must(t, err)
			var probed []string
			for range 2 {
				if _, err := r.ProbeEndpoints(t.Context(), func(_ context.Context, endpoint string) error {
					if probed = append(probed, endpoint); len(probed) == 1 {
						if isListed(t, r, k.ID(), start) {
							t.Error("it was listed before it answered")
						}
						during(t, r, k, receipt.CardHash)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				if g := get(t, r, k.ID()); len(probed) == 1 && g.IsListed() {
					t.Error("it is listed by the answer of another endpoint")
				}
			}
			two := slices.Contains(probed, "https://two.example/")
			if g := get(t, r, k.ID()); g.IsListed() != two || two != (name == "another endpoint") || waiting(t, inner) != 0 {
				t.Errorf("probed %v, listed %t, %d entries", probed, g.IsListed(), waiting(t, inner))
			}
		})
	}
}

// A run that is interrupted does not change the queue.
func TestAProbeThatIsCutShortIsDoneAgain(t *testing.T) {
	inner := memory.New()
	r := open(inner, newClock())
	must(t, errorOf(r.Publish(t.Context(), publication(t, key(1), draft{}))))
	before := everything(t, inner)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := r.ProbeEndpoints(ctx, func(context.Context, string) error { cancel(); return ctx.Err() }); !problem.Is(err, problem.Unavailable) {
		t.Errorf("ProbeEndpoints() = %v, want Unavailable", err)
	}
	if diff := cmp.Diff(before, everything(t, inner)); diff != "" {
		t.Errorf("changed (-before +after):\n%s", diff)
	}
	if got, err := r.ProbeEndpoints(t.Context(), (&prober{}).probe); got.Listed != 1 || err != nil {
		t.Errorf("ProbeEndpoints() = %+v, %v; want one listed", got, err)
	}
}

func TestADamagedEntryHoldsUpNoOther(t *testing.T) {
	inner := memory.New()
	r := open(inner, newClock())
	if err := inner.Commit(t.Context(), store.Put{Key: store.Key{Partition: registry.PendingProbeDocs.Partition, Sort: "0#x"}, WriteID: store.WriteID{1}, Data: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	must(t, errorOf(r.Publish(t.Context(), publication(t, key(1), draft{}))))
	got, err := r.ProbeEndpoints(t.Context(), (&prober{}).probe)
	if !problem.Is(err, problem.Damaged) || got.Listed != 1 {
		t.Errorf("ProbeEndpoints() = %+v, %v; want the damage said, and the other listed", got, err)
	}
}
