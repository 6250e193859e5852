package graduation_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// elsewhere returns a child of parent on another host and a complete submission of both.
func (h *fixture) elsewhere(t testing.TB, parent identity.ID) graduation.Submission {
	t.Helper()
	child := newKey(t)
	var m composite.Manifest
	must(t, h.vacants.WithSigner(t.Context(), parent, func(s identity.Signer) error { m = manifestOf(t, s, child); return nil }))
	must(t, h.vacants.AddManifest(t.Context(), m))
	r := composite.GraduationRequest{ParentID: parent, ChildID: child.ID(), CapabilityText: "drafts contracts"}
	must(t, h.vacants.WithSigner(t.Context(), parent, func(s identity.Signer) error { return r.SignParent(t.Context(), s) }))
	must(t, r.SignChild(t.Context(), child))
	next := m.AfterGraduation()
	must(t, next.SignChild(t.Context(), child))
	// The artefacts are not read before the last step.
	return graduation.Submission{Request: r, Artefacts: graduation.Artefacts{
		ManifestChild: next.SignatureChild, Card: []byte("{}"), Time: 1, ActorSeq: 1, IdempotencyKey: "graduate:1", Signature: make([]byte, identity.SignatureSize),
	}}
}

// Children on other hosts cost the holder of the parent's key no money, and each of them may begin
// 32 attempts.
func TestTheChildrenOfAParentBeginAtMost96AttemptsADay(t *testing.T) {
	h := newFixture(t)
	parent := h.vacant(t)
	began, day := 0, graduation.MaxAttemptsOfParent*time.Second
	var first graduation.Submission
	for began < graduation.MaxAttemptsOfParent {
		sub := h.elsewhere(t, parent)
		if began == 0 {
			first = sub
		}
		for range 7 {
			st, err := h.gate.Submit(t.Context(), sub)
			if began == graduation.MaxAttemptsOfParent {
				wantKind(t, "Submit() of the 97th attempt", err, problem.TooManyRequests)
				continue
			}
			if err != nil || st.Phase == graduation.Accepted {
				t.Fatalf("Submit() of attempt %d = %s, %v, want no success", began+1, st.Phase, err)
			}
			began++
			h.clock.Advance(time.Second)
		}
	}
	_, err := h.gate.Begin(t.Context(), h.elsewhere(t, parent))
	if !problem.Is(err, problem.TooManyRequests) || !strings.Contains(err.Error(), "limit of 96 attempts of its children") {
		t.Errorf("Begin() of a child that never tried = %v, want too many, at most 96", err)
	}
	other := h.vacant(t)
	if _, err := h.gate.Begin(t.Context(), h.elsewhere(t, other)); err != nil {
		t.Errorf("Begin() of another parent's child = %v, want nil", err)
	}
	h.clock.Advance(graduation.AttemptPeriod - day)
	if _, err := h.gate.Begin(t.Context(), first); err != nil {
		t.Errorf("Begin() when the first attempt is a day old = %v, want nil", err)
	}
	_, err = h.gate.Begin(t.Context(), h.elsewhere(t, parent))
	wantKind(t, "Begin() before the second is a day old", err, problem.TooManyRequests)
	h.wantClean(t)
}

// The gate finds out who signed as the parent. A forger may use another key each time, but the
// manifest determines the parent.
func TestAnAttemptCountsAgainstTheParentOfTheManifest(t *testing.T) {
	h := newFixture(t)
	parent := h.vacant(t)
	child := h.children(t, parent, 1)[0]
	if _, err := h.gate.Submit(t.Context(), h.request(t, h.vacant(t), child, "drafts contracts")); err != nil {
		t.Fatal(err)
	}
	if got := h.attemptWindow(t, parent); len(got) != 1 {
		t.Errorf("the parent's tries = %v, want one", got)
	}
}

func (h *fixture) attemptWindow(t testing.TB, parent identity.ID) []int64 {
	t.Helper()
	got, _, err := graduation.AttemptWindowDocs.Get(t.Context(), h.sound, graduation.AttemptWindowKey(parent))
	must(t, err)
	return got.StartTimes
}

func TestJoiningAnAttemptIsNotCounted(t *testing.T) {
	h := newFixture(t)
	sub := h.family(t)
	for range 3 {
		_, err := h.gate.Begin(t.Context(), sub)
		must(t, err)
	}
	h.wantAcceptedInTheEnd(t, sub)
	_, err := h.gate.Submit(t.Context(), sub)
	must(t, err)
	if got := h.attemptWindow(t, sub.Request.ParentID); len(got) != 1 {
		t.Errorf("the parent's tries = %v, want one", got)
	}
}

// Two hosts over one store accept requests concurrently. Their common count is exact.
func TestOfManyThatBeginAtOnceNoMoreThan96Do(t *testing.T) {
	h := newFixture(t)
	parent := h.vacant(t)
	hosts := []*fixture{h, h.beside(t)}
	var subs []graduation.Submission
	for _, child := range h.children(t, parent, graduation.MaxAttemptsOfParent+10) {
		subs = append(subs, h.request(t, parent, child, "drafts contracts"))
	}
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for i, sub := range subs {
		all.Go(func() {
			_, err := hosts[i%2].gate.Begin(t.Context(), sub)
			word := "begun"
			if err != nil {
				word = problem.AsError(err).Kind.String()
			}
			mu.Lock()
			defer mu.Unlock()
			got[word]++
		})
	}
	all.Wait()
	if diff := cmp.Diff(map[string]int{"begun": graduation.MaxAttemptsOfParent, problem.TooManyRequests.String(): 10}, got); diff != "" {
		t.Errorf("Begin() of %d at once (-want +got):\n%s", len(subs), diff)
	}
	if n := len(h.attemptWindow(t, parent)); n != graduation.MaxAttemptsOfParent {
		t.Errorf("%d tries are counted, want %d", n, graduation.MaxAttemptsOfParent)
	}
	h.wantClean(t)
}

func TestArtefactsOfHostedPartiesAreNotStored(t *testing.T) {
	sent := graduation.Artefacts{
		ManifestParent: make([]byte, 64), ManifestChild: make([]byte, 64), Card: make([]byte, 60<<10), Time: 1, ActorSeq: 1, IdempotencyKey: "a", Signature: make([]byte, 64),
	}
	t.Run("both are hosted", func(t *testing.T) {
		h := newFixture(t)
		sub := h.family(t)
		sub.Artefacts = sent
		h.wantKept(t, sub, graduation.Artefacts{})
		h.wantAcceptedInTheEnd(t, sub)
	})
	t.Run("the parent is", func(t *testing.T) {
		h := newFixture(t)
		sub := h.elsewhere(t, h.vacant(t))
		want := sub.Artefacts
		sub.Artefacts.ManifestParent = sent.ManifestParent
		h.wantKept(t, sub, want)
	})
	t.Run("the child is", func(t *testing.T) {
		h := newFixture(t)
		sub, signed := h.adopted(t)
		sub.Artefacts = sent
		sub.Artefacts.ManifestParent = signed
		h.wantKept(t, sub, graduation.Artefacts{ManifestParent: signed})
	})
}

// adopted returns a hosted child whose parent is on another host: the request of both, and the
// parent's signature of the open manifest.
func (h *fixture) adopted(t testing.TB) (graduation.Submission, []byte) {
	t.Helper()
	child, parent := h.vacant(t), newKey(t)
	m := composite.Manifest{
		ParentID: parent.ID(), ChildID: child, BirthPath: "D1", ClosedByDefault: true,
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal, SchemaVersion: composite.SchemaV2,
	}
	r := composite.GraduationRequest{ParentID: parent.ID(), ChildID: child, CapabilityText: "drafts contracts"}
	must(t, m.SignParent(t.Context(), parent))
	must(t, r.SignParent(t.Context(), parent))
	must(t, h.vacants.WithSigner(t.Context(), child, func(s identity.Signer) error {
		return errors.Join(m.SignChild(t.Context(), s), r.SignChild(t.Context(), s))
	}))
	must(t, h.vacants.StoreManifest(t.Context(), m))
	next := m.AfterGraduation()
	must(t, next.SignParent(t.Context(), parent))
	return graduation.Submission{Request: r}, next.SignatureParent
}

// wantKept checks which artefacts the row of an attempt contains.
func (h *fixture) wantKept(t testing.TB, sub graduation.Submission, want graduation.Artefacts) {
	t.Helper()
	st, err := h.gate.Begin(t.Context(), sub)
	must(t, err)
	row, err := h.sound.Tip(t.Context(), graduation.Stream(st.Child))
	must(t, err)
	a, err := graduation.DecodeAttempt(st.Child, row)
	must(t, err)
	if diff := cmp.Diff(want, a.Artefacts); diff != "" {
		t.Errorf("Begin() keeps (-want +got):\n%s", diff)
	}
}

func TestTriesOfMoreThanTheLimitAreDamaged(t *testing.T) {
	data := `{"format":1,"began":[1` + strings.Repeat(",1", graduation.MaxAttemptsOfParent) + `]}`
	err := graduation.AttemptWindowDocs.Check(store.Doc{Key: graduation.AttemptWindowKey(identity.ID{}), Version: 1, Data: []byte(data)})
	wantKind(t, "Check()", err, problem.Damaged)
}

// A role that writes attempts cannot write windows.
func TestEachDocumentThatLimitsHasAPartitionOfItsOwn(t *testing.T) {
	id := newKey(t).ID()
	keys := []store.Key{graduation.StatusKey(id, 1), graduation.AttemptWindowKey(id), graduation.WindowKey(id)}
	seen := map[string]bool{}
	for _, k := range keys {
		if seen[k.Partition] {
			t.Errorf("%s lies in a partition of another kind", k)
		}
		seen[k.Partition] = true
	}
}
