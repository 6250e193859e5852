package graduation_test

import (
	"context"
	"path/filepath"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/await"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// stores are the stores that one process may have.
func stores() map[string]func(testing.TB) store.Store {
	return map[string]func(testing.TB) store.Store{
		"memory": func(testing.TB) store.Store { return memory.New() },
		"bolt": func(t testing.TB) store.Store {
			s, err := bolt.Open(filepath.Join(t.TempDir(), "home.db"), bolt.Options{})
			must(t, err)
			t.Cleanup(func() { _ = s.Close() })
			return s
		},
	}
}

func TestOf50GraduationsAtOnceAsManySucceedAsTheDayHasSlots(t *testing.T) {
	for name, open := range stores() {
		t.Run(name, func(t *testing.T) {
			const many, limit = 50, 3
			h := fixtureOver(t, open(t), nil)
			p := gate.DefaultPolicy()
			p.DailyLimit = limit
			must(t, h.gate.SetPolicy(t.Context(), "", p))
			parent := h.vacant(t)
			var subs []graduation.Submission
			for _, child := range h.children(t, parent, many) {
				subs = append(subs, h.request(t, parent, child, "drafts contracts"))
			}
			decided := make([]graduation.Status, many)
			var all sync.WaitGroup
			for i := range subs {
				all.Go(func() {
					var err error
					if decided[i], err = h.gate.Submit(t.Context(), subs[i]); err != nil {
						t.Errorf("Submit() = %v, want nil", err)
					}
				})
			}
			all.Wait()
			count := map[string]int{}
			for _, st := range decided {
				word := string(st.Phase)
				if st.Refusal != nil {
					word += " by " + st.Refusal.Error
				}
				count[word]++
			}
			if count["accepted"] != limit || count["refused by GraduationRateLimitError"] != many-limit {
				t.Errorf("Submit() of %d at once = %v, want %d accepted and all others refused by the rate limit", many, count, limit)
			}
			if n := h.graduations(t, parent); n != limit {
				t.Errorf("the parent's logbook has %d graduations, want %d", n, limit)
			}
			h.wantClean(t)
		})
	}
}

// Another host writes to both logbooks continuously.
func TestABusyLogbookKeepsNobodyFromGraduating(t *testing.T) {
	h := newFixture(t)
	other := h.beside(t)
	sub := h.family(t)
	parent, child := sub.Request.ParentID, sub.Request.ChildID
	said := logbook.Delegation{Parent: parent, Child: child, SubtaskKind: "str"}
	patient, done := context.WithTimeout(t.Context(), await.Limit)
	defer done()
	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for ctx.Err() == nil {
			err := other.vacants.AppendEntries(patient,
				vacants.LogEntry{ID: parent, Kind: logbook.KindDelegate, Payload: said.DelegatePayload()},
				vacants.LogEntry{ID: child, Kind: logbook.KindExecute, Payload: said.ExecutePayload()})
			if err != nil {
				t.Errorf("AppendEntries() = %v, want nil", err)
				return
			}
		}
	})
	st, err := h.gate.Submit(patient, sub)
	cancel()
	writer.Wait()
	if err != nil || st.Phase != graduation.Accepted {
		t.Errorf("Submit() = %s %+v, %v, want accepted", st.Phase, st.Refusal, err)
	}
	h.wantAcceptedInTheEnd(t, sub)
}
