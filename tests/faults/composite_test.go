package faults

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/tests/caller"
	"github.com/vacancy-host/vacancy/tests/faultproxy"
	"github.com/vacancy-host/vacancy/tests/roundtrips"
)

// composed is a host and a caller that calls a composite of so many closed
// children, which are asked at once.
func (h *fixture) composed(children int) *fixture {
	h.t.Helper()
	v := h.Open(h.t, h.Store(h.Endpoint), time.Now, h.kinds()).Vacants
	name := fmt.Sprintf("of-%d", children)
	parent, err := v.Create(h.t.Context(), vacants.CreateSpec{Name: name, Capability: "asks others", Substrate: "counting"})
	must(h.t, err)
	var delegate []string
	for i := range children {
		child := fmt.Sprintf("%s-child-%d", name, i)
		_, _, err := v.Spawn(h.t.Context(), vacants.SpawnSpec{Parent: parent.ID, Path: "D2", Name: child})
		must(h.t, err)
		delegate = append(delegate, `{"child":"`+child+`"}`)
	}
	p, err := plan.Parse([]byte(`{"version":1,"parallel":true,"aggregate":{"how":"first"},"delegate":[` + strings.Join(delegate, ",") + `]}`))
	must(h.t, err)
	_, _, err = v.SetPlan(h.t.Context(), vacants.OperatorAsker(), parent.ID, p)
	must(h.t, err)
	return &fixture{Host: h.Host, t: h.t, vacant: parent.ID, caller: caller.New(h.t, parent.ID), asked: h.asked}
}

// whole requires verify to find nothing.
func (h *fixture) whole() {
	h.t.Helper()
	_, err := fsck.Run(h.t.Context(), fsck.Config{Source: h.Store(h.Endpoint), Vault: h.Vault, Now: time.Now, ReportFinding: func(f fsck.Finding) error {
		h.t.Errorf("verify finds: %s", f)
		return nil
	}})
	must(h.t, err)
}

// The cost of a composite's call beside its own two units: for each child two
// entries in one transaction, which counts twice, and its call; and the entry
// about the combined answer. Its observation is written besides, once in ten
// seconds: by the cold call here.
func TestACompositeConsumesSixWriteUnitsForEachChild(t *testing.T) {
	base := newFixture(t)
	base.answered("the first of the day")
	t.Log("children          write units   read units   round trips")
	for _, tt := range []struct {
		children int
		units    float64 // of a warm call
	}{{1, 6 + 3}, {2, 12 + 3}, {10, 60 + 5}} {
		h := base.composed(tt.children)
		counter := &roundtrips.Counter{Hold: hold / 5}
		still := time.Now()
		handler := h.handler(h.Store(h.Endpoint, counter.Option), func() time.Time { return still })
		for _, text := range []string{"cold", "warm"} {
			counter.Reset()
			e := h.caller.Call(text, still)
			if a := h.post(handler, caller.SendPath, e); a.Status != 200 {
				t.Fatalf("%d children, %s: %v, want 200", tt.children, text, a)
			}
			h.caller.Accepted(e)
			t.Logf("%8d, %s %12v %12v %13d", tt.children, text, counter.WriteUnits(), counter.ReadUnits(), counter.Trips())
		}
		if got := counter.WriteUnits(); got != tt.units {
			t.Errorf("a call of %d children consumed %v write units, want %v", tt.children, got, tt.units)
		}
	}
	base.whole()
}

// The transaction of the two entries fails once in every way: both logbooks
// have their entry or neither, and the next call is answered.
func TestFaultInTheTransactionOfADelegation(t *testing.T) {
	base := newFixture(t)
	base.answered("the first of the day")
	for i, f := range faultproxy.Faults() {
		t.Run(f.String(), func(t *testing.T) {
			h := (&fixture{Host: base.Host, t: t, asked: map[string]int{}}).composed(i + 1)
			proxy := faultproxy.Start(t, h.Endpoint)
			proxy.Set(faultproxy.Rule{Operation: "TransactWriteItems", Nth: 1, Fault: f, For: 20 * time.Millisecond})
			e := h.caller.Call("broken", time.Now())
			if a := h.post(h.handler(h.faulty(proxy.URL, time.Second), time.Now), caller.SendPath, e); a.Status != 200 {
				t.Errorf("call = %v, want 200: the transaction is sent again until its outcome is known", a)
			}
			h.caller.Accepted(e)
			release(t, proxy)
			e = h.caller.Call("next", time.Now())
			if a := h.post(h.handler(h.Store(h.Endpoint), time.Now), caller.SendPath, e); a.Status != 200 {
				t.Errorf("the next call = %v, want 200", a)
			}
		})
	}
	base.whole()
}
