package graduation_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// BenchmarkGraduation measures a graduation on a host of one process with a file store: the begin,
// the four steps and the record. ms/p50 is the median. It is the same for few children and short
// logbooks, which shows that the cost does not depend on their number.
func BenchmarkGraduation(b *testing.B) {
	for _, size := range []struct{ children, entries int }{{30, 10}, {1000, 10_000}} {
		b.Run(fmt.Sprintf("%d children, logbooks of %d entries", size.children, size.entries), func(b *testing.B) {
			graduate(b, size.children, size.entries)
		})
	}
}

// filled is the number of children with long logbooks. These children graduate first.
const filled = 20

func graduate(b *testing.B, many, entries int) {
	h := fixtureOver(b, stores()["bolt"](b), nil)
	p := gate.DefaultPolicy()
	p.DailyLimit = gate.MaxDailyLimit
	must(b, h.gate.SetPolicy(b.Context(), "", p))
	parent := h.vacant(b)
	children := h.children(b, parent, many)
	h.fill(b, entries, append([]identity.ID{parent}, children[:filled]...)...)
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		if i == many {
			b.Fatalf("there are %d children, and each graduates once: give -benchtime %dx", many, filled)
		}
		b.StopTimer()
		h.clock.Advance(graduation.AttemptPeriod)
		sub := h.request(b, parent, children[i], "drafts contracts")
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

// fill lengthens logbooks concurrently, so that they share the disk's commits.
func (h *fixture) fill(b *testing.B, entries int, ids ...identity.ID) {
	b.Helper()
	var all sync.WaitGroup
	for _, id := range ids {
		all.Go(func() {
			for range entries {
				err := h.vacants.AppendEntries(b.Context(), vacants.LogEntry{ID: id, Kind: logbook.KindExecute, Payload: []byte(`{"subtask_kind":"str"}`)}, vacants.LogEntry{})
				if err != nil {
					b.Errorf("AppendEntries() = %v, want nil", err)
					return
				}
			}
		})
	}
	all.Wait()
}
