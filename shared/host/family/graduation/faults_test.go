package graduation_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// fates applies the faults that a test chooses to a server's store calls.
type fates struct {
	mu    sync.Mutex
	count int
	meets func(n int, op string) storetest.Fault
	lossy *storetest.Lossy
}

func (f *fates) before(s store.Store) store.Store {
	f.lossy = &storetest.Lossy{Store: s, ChooseFault: func(op string, _ []store.Write) storetest.Fault {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.meets == nil {
			return storetest.NoFault
		}
		f.count++
		return f.meets(f.count, op)
	}}
	return f.lossy
}

// arm applies fn to all calls from now on, counted from 1, and returns the number of earlier calls.
// A nil fn means no faults.
func (f *fates) arm(fn func(n int, op string) storetest.Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := f.count
	f.meets, f.count = fn, 0
	return before
}

// wantWhole reports whether a child has graduated, and checks that its graduation is complete or
// absent.
func (h *fixture) wantWhole(t testing.TB, child, parent identity.ID) bool {
	t.Helper()
	ctx := t.Context()
	m, ok, err := h.vacants.Manifest(ctx, child)
	if err != nil || !ok {
		t.Fatalf("Manifest() = %v, %v", ok, err)
	}
	r, err := h.vacants.Get(ctx, vacants.OperatorAsker(), child)
	must(t, err)
	doc, err := h.sound.Doc(ctx, registry.RegistrationKey(child))
	must(t, err)
	g, err := registry.RegistrationDocs.Parse(doc)
	must(t, err)
	w, _, err := graduation.WindowDocs.Get(ctx, h.sound, graduation.WindowKey(parent))
	must(t, err)
	accepted := 0
	rows, err := h.sound.Rows(ctx, graduation.Stream(child), 1, store.MaxPage, store.Ascending)
	must(t, err)
	for _, row := range rows {
		st, err := h.gate.Status(ctx, child, row.Position)
		must(t, err)
		if st.Phase == graduation.Accepted {
			accepted++
		}
	}
	facts := map[string]bool{
		"manifest":      !m.Manifest.ClosedByDefault,
		"gate's note":   m.Graduated,
		"record":        !r.Closed,
		"state":         r.State == lifecycle.Active,
		"registration":  g.FirstSeq > 0 && g.Visibility == lifecycle.Public && !g.Closed,
		"slot":          len(w.SlotTimes) == 1,
		"attempt":       accepted == 1,
		"child's book":  h.graduations(t, child) == 1,
		"parent's book": h.graduations(t, parent) == 1,
	}
	said := map[bool][]string{}
	for fact, is := range facts {
		said[is] = append(said[is], fact)
	}
	if len(said) > 1 {
		t.Errorf("graduated by %v, and not by %v", said[true], said[false])
	}
	if !facts["slot"] && len(w.SlotTimes) > 0 || accepted > 1 {
		t.Errorf("%d slots are taken by %d successes", len(w.SlotTimes), accepted)
	}
	return facts["manifest"]
}

// graduations counts the graduation entries in a logbook.
func (h *fixture) graduations(t testing.TB, id identity.ID) (n int) {
	t.Helper()
	// The logbook of a busy vacant has more than a page of entries.
	for from := uint64(1); ; {
		rows, err := h.sound.Rows(t.Context(), store.StreamOf(store.KindLogbook, id), from, store.MaxPage, store.Ascending)
		must(t, err)
		for _, row := range rows {
			var e logbook.Entry
			must(t, e.UnmarshalBinary(row.Data))
			if e.Kind == logbook.KindGraduated {
				n++
			}
			from = row.Position + 1
		}
		if len(rows) == 0 {
			return n
		}
	}
}

// wantClean verifies the whole host.
func (h *fixture) wantClean(t testing.TB) {
	t.Helper()
	_, err := fsck.Run(t.Context(), fsck.Config{Source: h.sound.(fsck.Source), Vault: h.vault, Now: h.clock.NowFunc(0), ReportFinding: func(f fsck.Finding) error {
		t.Errorf("verify: %+v", f)
		return nil
	}})
	must(t, err)
}

// faulty returns a server whose store fails as f determines, with a family.
func faulty(t *testing.T) (*fixture, *fates, graduation.Submission) {
	t.Helper()
	f := &fates{}
	h := fixtureOver(t, memory.New(), f.before)
	return h, f, h.family(t)
}

func TestGraduationIsWholeAfterAnyStoreFault(t *testing.T) {
	h, f, sub := faulty(t)
	var ops []string
	f.arm(func(_ int, op string) storetest.Fault {
		ops = append(ops, op)
		return storetest.NoFault
	})
	_, err := h.gate.Submit(t.Context(), sub)
	must(t, err)
	f.arm(nil)
	if len(ops) < 20 {
		t.Fatalf("Submit() = %d calls to the store, which is too few to be all", len(ops))
	}
	number := 0
	for i, op := range ops {
		n := i + 1
		for _, fate := range storetest.FaultsOf(op) {
			if number++; !storetest.InSample(number) {
				continue
			}
			t.Run(fmt.Sprintf("call %d %s", n, fate), func(t *testing.T) {
				h, f, sub := faulty(t)
				f.arm(func(i int, _ string) storetest.Fault {
					if i == n {
						return fate
					}
					return storetest.NoFault
				})
				// A single fault does not matter, because reads and commits are retried.
				st, err := h.gate.Submit(t.Context(), sub)
				f.arm(nil)
				f.lossy.ApplyPending(t.Context())
				whole := h.wantWhole(t, sub.Request.ChildID, sub.Request.ParentID)
				if err == nil && whole != (st.Phase == graduation.Accepted) {
					t.Errorf("Submit() = %s, and the child has graduated: %v", st.Phase, whole)
				}
				h.wantAcceptedInTheEnd(t, sub)
			})
		}
	}
}

func TestAHostThatDiesAtAnyCallToTheStoreLeavesAGraduationWhole(t *testing.T) {
	h, f, sub := faulty(t)
	f.arm(func(int, string) storetest.Fault { return storetest.NoFault })
	_, err := h.gate.Submit(t.Context(), sub)
	must(t, err)
	calls := f.arm(nil)
	number := 0
	for n := 1; n <= calls; n++ {
		for _, last := range []storetest.Fault{storetest.Lost, storetest.Unacknowledged} {
			if number++; !storetest.InSample(number) {
				continue
			}
			t.Run(fmt.Sprintf("at call %d, %s", n, last), func(t *testing.T) {
				h, f, sub := faulty(t)
				f.arm(func(i int, _ string) storetest.Fault {
					switch {
					case i < n:
						return storetest.NoFault
					case i == n:
						return last
					}
					return storetest.Lost
				})
				_, _ = h.gate.Submit(t.Context(), sub) // nobody receives its answer
				f.arm(nil)
				h.wantWhole(t, sub.Request.ChildID, sub.Request.ParentID)
				h.wantAcceptedInTheEnd(t, sub)
			})
		}
	}
}

// wantAcceptedInTheEnd sends the request again twice: at once, and after all open attempts are due.
func (h *fixture) wantAcceptedInTheEnd(t *testing.T, sub graduation.Submission) {
	t.Helper()
	st, err := h.gate.Submit(t.Context(), sub)
	if err != nil || st.Phase != graduation.Accepted {
		h.clock.Advance(graduation.AttemptTimeout)
		st, err = h.gate.Submit(t.Context(), sub)
	}
	if err != nil || st.Phase != graduation.Accepted {
		t.Fatalf("Submit() again = %s %+v, %v, want accepted", st.Phase, st.Refusal, err)
	}
	if !h.wantWhole(t, sub.Request.ChildID, sub.Request.ParentID) {
		t.Error("Submit() = accepted, and the child has not graduated")
	}
	h.wantClean(t)
}

func TestARunThatEndsAfterAnyStepBlocksNobody(t *testing.T) {
	for i, last := range gate.Steps() {
		t.Run("after "+string(last.Name), func(t *testing.T) {
			h := newFixture(t)
			sub := h.family(t)
			st, err := h.gate.Begin(t.Context(), sub)
			must(t, err)
			state := st.InitialState()
			for _, step := range gate.Steps()[:i+1] {
				state, err = h.gate.RunTask(t.Context(), step.Name, state)
				must(t, err)
			}
			graduated := h.wantWhole(t, sub.Request.ChildID, sub.Request.ParentID)
			if graduated != (last.Name == gate.StepCommit) {
				t.Errorf("after %s the child has graduated: %v", last.Name, graduated)
			}
			h.clock.Advance(graduation.AttemptTimeout)
			overdue, err := h.gate.Status(t.Context(), st.Child, st.Position)
			must(t, err)
			if want := map[bool]graduation.Phase{true: graduation.Accepted, false: graduation.Failed}[graduated]; overdue.Phase != want {
				t.Errorf("Status() when it is due = %s, want %s", overdue.Phase, want)
			}
			h.wantAcceptedInTheEnd(t, sub)
		})
	}
}

func TestEveryTaskMayBeDeliveredAgain(t *testing.T) {
	h := newFixture(t)
	sub := h.family(t)
	st, err := h.gate.Begin(t.Context(), sub)
	must(t, err)
	state := st.InitialState()
	var states []graduation.RunState
	for _, step := range gate.Steps() {
		states = append(states, state)
		for range 3 {
			next, err := h.gate.RunTask(t.Context(), step.Name, states[len(states)-1])
			must(t, err)
			state = next
		}
	}
	for range 3 {
		if st, err = h.gate.Record(t.Context(), state, nil); err != nil || st.Phase != graduation.Accepted {
			t.Errorf("Record() = %s, %v, want accepted", st.Phase, err)
		}
	}
	for i, step := range gate.Steps() { // all again, in any order
		if _, err := h.gate.RunTask(t.Context(), step.Name, states[i]); err != nil {
			t.Errorf("Task(%s) after the commit = %v, want nil", step.Name, err)
		}
	}
	// A state machine that timed out although its commit was applied records a fault.
	late, err := h.gate.Record(t.Context(), states[3], graduation.ParseCause(gate.StepCommit, "States.Timeout", ""))
	if err != nil || late.Phase != graduation.Accepted || late.DecidedAt != st.DecidedAt {
		t.Errorf("Record() of a timeout after the commit = %s, %v, want accepted as it was", late.Phase, err)
	}
	h.wantAcceptedInTheEnd(t, sub)
}

func TestTwoRunsOfOneAttemptHaveOneEffect(t *testing.T) {
	for range 20 {
		h := newFixture(t)
		sub := h.family(t)
		st, err := h.gate.Begin(t.Context(), sub)
		must(t, err)
		var both sync.WaitGroup
		var decided [4]graduation.Status
		for i := range decided {
			both.Go(func() {
				var err error
				if decided[i], err = h.gate.RunSteps(t.Context(), st.Attempt); err != nil {
					t.Errorf("RunSteps() = %v, want nil", err)
				}
			})
		}
		both.Wait()
		for _, d := range decided {
			if d.Phase != graduation.Accepted || d.Outcome.Seq != decided[0].Outcome.Seq {
				t.Errorf("RunSteps() = %s %s, want accepted, all alike", d.Phase, strings.TrimSpace(fmt.Sprint(d.Refusal)))
			}
		}
		h.wantAcceptedInTheEnd(t, sub)
	}
}
