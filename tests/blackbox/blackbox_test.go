package blackbox

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/hosted"
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

// self is the host's own identity, the same of both.
func (k keys) self(context.Context) (identity.Signer, error) { return k.host, nil }

func newOutsiders(t *testing.T, firm *identity.Key) *outsiders {
	t.Helper()
	return &outsiders{t: t, stranger: newKey(t), second: newKey(t), firm: firm.ID(), now: time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)}
}

func TestAVacantWithClosedChildrenLooksLikeOneWithout(t *testing.T) {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, live := range map[string]func(*testing.T, *host, hosted.Record){
		"just born": func(*testing.T, *host, hosted.Record) {},
		"asleep": func(t *testing.T, h *host, r hosted.Record) {
			_, err := h.Vacants.Pause(t.Context(), r.ID)
			must(t, err)
		},
		"sunk": func(t *testing.T, h *host, r hosted.Record) {
			_, err := h.Vacants.Sink(t.Context(), r.ID)
			must(t, err)
		},
		"archived": func(t *testing.T, h *host, r hosted.Record) {
			_, err := h.Vacants.Sink(t.Context(), r.ID)
			must(t, err)
			_, err = h.Vacants.Archive(t.Context(), r.ID)
			must(t, err)
		},
		"deleted": func(t *testing.T, h *host, r hosted.Record) {
			_, err := h.Vacants.Sink(t.Context(), r.ID)
			must(t, err)
			_, err = h.Vacants.Archive(t.Context(), r.ID)
			must(t, err)
			_, err = h.Vacants.Delete(t.Context(), r.ID)
			must(t, err)
		},
		"a parent itself": func(t *testing.T, h *host, r hosted.Record) { h.spawn(t, r.ID, "clerk") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeys(t)
			alone, firm := open(t, k), open(t, k)
			one, two := firm.spawn(t, k.firm.ID(), "drafter"), firm.spawn(t, k.firm.ID(), "reviewer")
			live(t, firm, one)
			alone.seal(t)
			firm.seal(t)
			for _, h := range []*host{alone, firm} {
				h.later(time.Minute) // nothing is remembered
			}
			o := newOutsiders(t, k.firm)
			o.now = alone.clock()
			compare(t, alone, firm, o.battery(k.firm.ID(), one.ID, two.ID, newKey(t).ID()))
		})
	}
}

// With several public vacants the host route names nobody; closed children
// count for none of them.
func TestClosedChildrenDoNotCount(t *testing.T) {
	k := newKeys(t)
	other := hosted.Spec{Name: "other", Capability: "counts", Substrate: "echo", Key: k.other}
	alone, firm := open(t, k, other), open(t, k, other)
	child := firm.spawn(t, k.firm.ID(), "drafter")
	o := newOutsiders(t, k.firm)
	o.now = alone.clock()
	compare(t, alone, firm, o.battery(k.firm.ID(), child.ID))
}
