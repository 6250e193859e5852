package collusionevidence_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/family/collusionevidence"
	"github.com/vacancy-host/vacancy/shared/host/registry/callstats"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// metered is a store that ends pages where DynamoDB does and counts a read unit for each 4 KB of a
// page.
type metered struct {
	store.Store
	mu    sync.Mutex
	units int
}

func (m *metered) Rows(ctx context.Context, s store.Stream, from uint64, n int, d store.Direction) ([]store.Row, error) {
	rows, err := m.Store.Rows(ctx, s, from, n, d)
	size := 0
	for i, r := range rows {
		if size += len(r.Data) + 100; size > 1<<20 {
			size, rows = 1<<20, rows[:i]
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.units += max(1, (size+4095)/4096)
	return rows, err
}

// metersPlans also counts the plans and records of trees.
type metersPlans struct {
	*vacants.Directory
	m    *metered
	gets int
}

func (v *metersPlans) Plan(ctx context.Context, id identity.ID) (plan.Plan, bool, error) {
	p, ok, err := v.Directory.Plan(ctx, id)
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	v.m.units += (len(p.Blob()) + 4095) / 4096
	return p, ok, err
}

func (v *metersPlans) Get(ctx context.Context, by vacants.Asker, id identity.ID) (vacants.Record, error) {
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	v.gets++
	return v.Directory.Get(ctx, by, id)
}

// everywhere collects over stores that end pages differently, and fails if the evidence differs. It
// returns the units of the store that resembles DynamoDB.
func (h *fixture) everywhere(child, parent identity.ID) (gate.Evidence, int) {
	h.Helper()
	whole := h.collect(child, parent)
	m := &metered{Store: h.Store}
	v := &metersPlans{Directory: h.vacants, m: m}
	cut, err := (&collusionevidence.Collector{Store: m, Vacants: v, Registry: h.registry, Texts: h.texts, Now: h.now}).Collect(h.Context(), child, parent)
	must(h, err)
	if diff := cmp.Diff(whole, cut); diff != "" {
		h.Errorf("Collect() where pages end at 1 MB (-elsewhere +there):\n%s", diff)
	}
	return whole, m.units + max(0, v.gets-len(whole.Pairs)-1)
}

const (
	small = 6 << 10
	huge  = 250 << 10
)

// heap makes a vacant answer calls first with very large texts and then with smaller ones. The
// smaller ones are read first and almost exhaust the budget.
func (h *fixture) heap(call func(n int)) {
	h.says = strings.Repeat("x", huge)
	call(5)
	h.says = strings.Repeat("y", small)
	call(32)
	h.says = ""
}

func TestBytesReadAreBoundedForLargeTexts(t *testing.T) {
	h := newFixture(t)
	parent := h.create("parent", "echo", "")
	child := h.spawn(parent.ID, "D2", "child", "echo")
	h.delegate(parent.ID, child, 50)
	for i := range collusionevidence.MaxSiblings {
		id := h.spawn(parent.ID, "D2", fmt.Sprint("s", i), "echo")
		h.heap(func(n int) { h.delegate(parent.ID, id, n) })
	}
	h.heap(func(n int) { h.visit("a", parent.ID, n) })
	e, units := h.everywhere(child, parent.ID)
	t.Logf("%d read units", units)
	if units > collusionevidence.MaxUnits {
		t.Errorf("Collect() took %d read units, want at most %d", units, collusionevidence.MaxUnits)
	}
	for _, p := range e.Pairs {
		if why := p.Other.MissingReasons[gate.Style]; p.Other.Responses >= gate.MinResponses || !strings.Contains(why, "the rest is too large to read") {
			t.Errorf("style of a %s of %d responses is missing since %q, want the rest too large", p.Role, p.Other.Responses, why)
		}
	}
	if p := e.Pairs[0]; p.Child.Responses != collusionevidence.MaxResponses || p.Child.MissingReasons[gate.Style] != "" {
		t.Errorf("the child has %d responses, missing since %q, want all", p.Child.Responses, p.Child.MissingReasons[gate.Style])
	}
}

func TestAChildWhoseOwnAnswersAreTooLargeCostsOnePageMoreThanItsShare(t *testing.T) {
	for name, fill := range map[string]func(h *fixture, parent, child identity.ID){
		"to its parent": func(h *fixture, parent, child identity.ID) {
			h.heap(func(n int) { h.delegate(parent, child, n) })
		},
		"to others": func(h *fixture, _, child identity.ID) {
			h.heap(func(n int) {
				for i := range n {
					h.visit(fmt.Sprint(i%9), child, 1)
				}
			})
		},
		"all of them": func(h *fixture, parent, child identity.ID) {
			h.says = strings.Repeat("x", huge)
			h.delegate(parent, child, 9)
		},
	} {
		h := newFixture(t)
		parent := h.create("parent", "echo", "")
		child := h.spawn(parent.ID, "D3", "child", "echo")
		h.visit("a", parent.ID, 50)
		fill(h, parent.ID, child)
		e, units := h.everywhere(child, parent.ID)
		if most := collusionevidence.VacantUnits + 256; units > most {
			t.Errorf("%s: Collect() took %d read units, want at most %d", name, units, most)
		}
		if why := e.Pairs[0].Child.MissingReasons[gate.Style]; !strings.Contains(why, "too large to read") {
			t.Errorf("%s: its style is missing since %q, want it too large", name, why)
		}
		if why := e.Pairs[0].Other.MissingReasons[gate.Style]; why != "the child has none to compare it with" {
			t.Errorf("%s: the parent's style is missing since %q, want it not read", name, why)
		}
	}
}

func TestTextsOfAUsualLengthAreAllRead(t *testing.T) {
	h := newFixture(t)
	h.says = strings.Repeat("a sentence or two of an answer, ", 60) // some 2 KB
	parent := h.create("parent", "echo", "")
	child := h.spawn(parent.ID, "D2", "child", "echo")
	h.delegate(parent.ID, child, 50)
	h.visit("a", parent.ID, 25)
	h.visit("b", parent.ID, 25)
	sibling := h.spawn(parent.ID, "D2", "sibling", "echo")
	h.delegate(parent.ID, sibling, 50)
	e, units := h.everywhere(child, parent.ID)
	t.Logf("%d read units for three of 50 answers of 2 KB", units)
	for _, p := range e.Pairs {
		if p.Child.Responses != 50 || p.Other.Responses != 50 {
			t.Errorf("%d responses of the child and %d of a %s are read, want 50", p.Child.Responses, p.Other.Responses, p.Role)
		}
	}
}

// A reference may name any position, and each position costs a page.
func TestReferencesFarApartAreReadInBoundedPages(t *testing.T) {
	h := newFixture(t)
	parent := h.create("parent", "echo", "")
	child := h.spawn(parent.ID, "D3", "child", "echo")
	h.visit("a", child, 400)
	var refs []callstats.Reference
	for i := range uint64(50) {
		refs = append(refs, callstats.Reference{Caller: h.keys["a"].ID(), Position: 1 + 8*i})
	}
	h.refer(child, refs...)
	h.reads.Store(0)
	e := h.collect(child, parent.ID)
	if reads := h.reads.Load(); reads > 16 {
		t.Errorf("Collect() read %d pages of rows, want at most 16", reads)
	}
	if n := e.Pairs[0].Child.Responses; n != 15 {
		t.Errorf("%d responses were read, want those of 15 pages", n)
	}
}
