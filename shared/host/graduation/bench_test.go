package graduation_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/graduation"
	"github.com/vacancy-host/vacancy/shared/host/hosted"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

const (
	benchChildren = 1000
	benchEntries  = 10_000 // in the parent's logbook, and in that of each child that graduates
)

// BenchmarkGraduation is one graduation in a home of one process, with a file:
// of a parent with 1,000 children, both logbooks of 10,000 entries. What is
// measured is begin, four steps and the record; ms/p50 is their median.
func BenchmarkGraduation(b *testing.B) {
	h := houseOver(b, homes()["bolt"](b), nil)
	p := gate.DefaultPolicy()
	p.Limit = gate.MaxLimit
	must(b, h.gate.SetPolicy(b.Context(), "", p))
	parent := h.vacant(b)
	children := h.children(b, parent, benchChildren)
	h.fill(b, parent)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		child := children[i%benchChildren]
		h.fill(b, child)
		h.clock.pass(graduation.Day)
		sub := h.request(b, parent, child, fmt.Sprintf("drafts contracts of kind %d", i))
		b.StartTimer()
		began := time.Now()
		st, err := h.gate.Submit(b.Context(), sub)
		took = append(took, time.Since(began))
		if err != nil || st.Phase != graduation.Accepted {
			b.Fatalf("Submit() = %s %+v, %v, want accepted", st.Phase, st.Refusal, err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/p50")
}

// fill lengthens a logbook.
func (h *house) fill(b *testing.B, id identity.ID) {
	b.Helper()
	for range benchEntries {
		must(b, h.vacants.Entries(b.Context(), hosted.LogEntry{ID: id, Kind: logbook.KindExecute, Payload: []byte(`{"subtask_kind":"str"}`)}, hosted.LogEntry{}))
	}
}
