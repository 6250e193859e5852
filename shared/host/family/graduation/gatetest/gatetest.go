// Package gatetest tests implementations of the gate, which must all leave the same records.
package gatetest

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

type Fixture struct {
	Store store.Store
	// Vacant creates a hosted vacant without parent and children.
	Vacant func(t *testing.T) identity.ID
	// Children creates n hosted closed children whose substrates differ from the parent's.
	Children func(t *testing.T, parent identity.ID, n int) []identity.ID
	// SameSubstratePair creates a hosted vacant and a closed child with the same substrate.
	SameSubstratePair func(t *testing.T) (parent, child identity.ID)
	Sign              func(t *testing.T, r *composite.GraduationRequest)
	Revoke            func(t *testing.T, id identity.ID)
	SetPolicy         func(t *testing.T, p gate.Policy)
	// Submit sends a request and waits for the decision.
	Submit func(t *testing.T, sub graduation.Submission) (graduation.View, error)
}

// record contains all data that an attempt leaves.
type record struct {
	Decision   string // phase, step and error
	Detail     string // message of the refusal
	Position   uint64
	Findings   bool // whether the status has findings
	Open       bool // according to the child's manifest
	Graduated  bool // according to the gate's record
	Visibility lifecycle.Visibility
	Slots      int    // used slots of the parent
	ParentLog  string // kind of the last entry
	ChildLog   string // kind of the last entry
}

type scene struct {
	*testing.T
	Fixture
	parent, stranger, child, other identity.ID // child and other are children of parent
}

// Run runs every case. It changes the host's policy before each case.
func Run(t *testing.T, f Fixture) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			f.SetPolicy(t, c.policy())
			s := &scene{T: t, Fixture: f, parent: f.Vacant(t), stranger: f.Vacant(t)}
			children := f.Children(t, s.parent, 2)
			s.child, s.other = children[0], children[1]
			c.run(s)
		})
	}
}

func (s *scene) request(parent, child identity.ID, text string) graduation.Submission {
	s.Helper()
	r := composite.GraduationRequest{ParentID: parent, ChildID: child, CapabilityText: text}
	s.Sign(s.T, &r)
	return graduation.Submission{Request: r}
}

func (s *scene) wantOutcome(sub graduation.Submission, want record) graduation.View {
	s.Helper()
	view, err := s.Submit(s.T, sub)
	if err != nil {
		s.Fatalf("Submit() = %v, want a decision", err)
	}
	s.wantRecord(want, s.readRecord(&view, sub.Request.ChildID))
	return view
}

func (s *scene) wantRecord(want, got record) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("Submit() leaves (-want +got):\n%s", diff)
	}
}

// wantSubmitError submits a request that the handler must refuse, and checks that no attempt was
// stored.
func (s *scene) wantSubmitError(sub graduation.Submission, kind problem.Kind, text string) {
	s.Helper()
	before := s.countAttempts(sub.Request.ChildID)
	_, err := s.Submit(s.T, sub)
	if !problem.Is(err, kind) || s.replaceIDs(problem.AsError(err).Text()) != text {
		s.Errorf("Submit() = %v, want %s: %s", err, kind, text)
	}
	if after := s.countAttempts(sub.Request.ChildID); after != before {
		s.Errorf("Submit() leaves %d attempts, want %d", after, before)
	}
}

func (s *scene) countAttempts(child identity.ID) uint64 {
	s.Helper()
	tip, err := s.Store.Tip(context.Background(), graduation.Stream(child))
	if err != nil {
		s.Fatal(err)
	}
	return tip.Position
}

func (s *scene) readRecord(view *graduation.View, child identity.ID) record {
	s.Helper()
	ctx := context.Background()
	r := record{Decision: string(view.Phase) + " at " + string(view.Step), Position: view.Position, Findings: view.Findings != nil}
	if view.Refusal != nil {
		r.Decision += " by " + view.Refusal.Error
		r.Detail = s.replaceIDs(view.Refusal.Detail)
	}
	doc := s.loadDoc(registry.ManifestKey(child))
	m, err := registry.ManifestDocs.Parse(doc)
	if err != nil {
		s.Fatal(err)
	}
	r.Open, r.Graduated = !m.Manifest.ClosedByDefault, m.Graduated
	if doc := s.loadDoc(registry.RegistrationKey(child)); doc.Version > 0 {
		reg, err := registry.RegistrationDocs.Parse(doc)
		if err != nil {
			s.Fatal(err)
		}
		r.Visibility = reg.Visibility
	}
	w, _, err := graduation.WindowDocs.Get(ctx, s.Store, graduation.WindowKey(s.parent))
	if err != nil {
		s.Fatal(err)
	}
	r.Slots = len(w.SlotTimes)
	r.ParentLog, r.ChildLog = s.lastKind(ctx, s.parent), s.lastKind(ctx, child)
	return r
}

func (s *scene) loadDoc(k store.Key) store.Doc {
	s.Helper()
	d, err := s.Store.Doc(context.Background(), k)
	if err != nil {
		s.Fatal(err)
	}
	return d
}

func (s *scene) lastKind(ctx context.Context, id identity.ID) string {
	s.Helper()
	tip, err := s.Store.Tip(ctx, store.StreamOf(store.KindLogbook, id))
	if err != nil {
		s.Fatal(err)
	}
	var e logbook.Entry
	if err := e.UnmarshalBinary(tip.Data); err != nil {
		s.Fatal(err)
	}
	return e.Kind
}

// replaceIDs replaces ids, which differ between hosts, by names.
func (s *scene) replaceIDs(text string) string {
	return strings.NewReplacer(s.parent.Short(), "PARENT", s.stranger.Short(), "STRANGER", s.child.Short(), "CHILD", s.other.Short(), "OTHER").Replace(text)
}
