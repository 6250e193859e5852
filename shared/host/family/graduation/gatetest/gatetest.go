// Package gatetest is the contract suite of the gate: graduations and every
// refusal, each with the records it leaves. Run is called for each
// implementation: the service that runs the steps in one process, and the state
// machine.
//
// Invariant: after each case every implementation has the records in the table.
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

// Fixture gives a test access to a host with a gate.
type Fixture struct {
	// Store is the host's store, for reading its records.
	Store store.Store
	// Vacant hosts a new vacant without parent or children.
	Vacant func(t *testing.T) identity.ID
	// Children hosts n new closed children of a vacant, with another substrate
	// than the parent's.
	Children func(t *testing.T, parent identity.ID, n int) []identity.ID
	// Twins hosts a vacant and a closed child with the same substrate.
	Twins func(t *testing.T) (parent, child identity.ID)
	// Sign signs r as both parties, which are hosted here.
	Sign func(t *testing.T, r *composite.Request)
	// Revoke revokes a vacant's key.
	Revoke func(t *testing.T, id identity.ID)
	// SetPolicy sets the host's policy.
	SetPolicy func(t *testing.T, p gate.Policy)
	// Submit sends a request to the gate's handler, waits for the decision, and
	// returns the status shown to both parties, or the handler's refusal.
	Submit func(t *testing.T, sub graduation.Submission) (graduation.View, error)
}

// record is everything that an attempt leaves.
type record struct {
	Decision   string // state, step and error
	Detail     string // of the refusal
	Position   uint64
	Findings   bool
	Open       bool // by the child's manifest
	Graduated  bool // by the gate's record
	Visibility lifecycle.Visibility
	Slots      int // slots of the parent in use
	ParentLog  string
	ChildLog   string // kinds of the last entries
}

// scene has a parent with two children, and a vacant without children.
type scene struct {
	*testing.T
	Fixture
	parent, stranger, child, other identity.ID
}

// Run runs every case over one host. It changes the host's policy between
// cases.
func Run(t *testing.T, h Fixture) {
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			h.SetPolicy(t, c.policy())
			s := &scene{T: t, Fixture: h, parent: h.Vacant(t), stranger: h.Vacant(t)}
			both := h.Children(t, s.parent, 2)
			s.child, s.other = both[0], both[1]
			c.run(s)
		})
	}
}

// request returns a graduation request signed by both parties.
func (s *scene) request(parent, child identity.ID, text string) graduation.Submission {
	s.Helper()
	r := composite.Request{ParentID: parent, ChildID: child, CapabilityText: text}
	s.Sign(s.T, &r)
	return graduation.Submission{Request: r}
}

// expect submits sub and compares the record.
func (s *scene) expect(sub graduation.Submission, want record) graduation.View {
	s.Helper()
	view, err := s.Submit(s.T, sub)
	if err != nil {
		s.Fatalf("Submit() = %v, want a decision", err)
	}
	s.same(want, s.record(&view, sub.Request.ChildID))
	return view
}

func (s *scene) same(want, got record) {
	s.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("Submit() leaves (-want +got):\n%s", diff)
	}
}

// refused submits a request that the handler must refuse, and checks that
// nothing was stored.
func (s *scene) refused(sub graduation.Submission, kind problem.Kind, text string) {
	s.Helper()
	before := s.attempts(sub.Request.ChildID)
	_, err := s.Submit(s.T, sub)
	if !problem.Is(err, kind) || s.anonymous(problem.Of(err).Text()) != text {
		s.Errorf("Submit() = %v, want %s: %s", err, kind, text)
	}
	if after := s.attempts(sub.Request.ChildID); after != before {
		s.Errorf("Submit() leaves %d attempts, want %d", after, before)
	}
}

func (s *scene) attempts(child identity.ID) uint64 {
	s.Helper()
	tip, err := s.Store.Tip(context.Background(), graduation.Stream(child))
	if err != nil {
		s.Fatal(err)
	}
	return tip.Position
}

// record reads the host's current records of child.
func (s *scene) record(view *graduation.View, child identity.ID) record {
	s.Helper()
	ctx := context.Background()
	r := record{Decision: string(view.State) + " at " + string(view.Step), Position: view.Position, Findings: view.Findings != nil}
	if view.Refusal != nil {
		r.Decision += " by " + view.Refusal.Error
		r.Detail = s.anonymous(view.Refusal.Detail)
	}
	doc := s.doc(registry.ManifestKey(child))
	m, err := registry.ManifestDocs.Parse(doc)
	if err != nil {
		s.Fatal(err)
	}
	r.Open, r.Graduated = !m.Manifest.ClosedByDefault, m.Graduated
	if doc := s.doc(registry.RegistrationKey(child)); doc.Version > 0 {
		g, err := registry.RegistrationDocs.Parse(doc)
		if err != nil {
			s.Fatal(err)
		}
		r.Visibility = g.Visibility
	}
	w, _, err := graduation.WindowDocs.Get(ctx, s.Store, graduation.WindowKey(s.parent))
	if err != nil {
		s.Fatal(err)
	}
	r.Slots = len(w.Taken)
	r.ParentLog, r.ChildLog = s.lastKind(ctx, s.parent), s.lastKind(ctx, child)
	return r
}

func (s *scene) doc(k store.Key) store.Doc {
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

// anonymous replaces ids, which differ between hosts, by names.
func (s *scene) anonymous(text string) string {
	return strings.NewReplacer(s.parent.Short(), "PARENT", s.stranger.Short(), "STRANGER", s.child.Short(), "CHILD", s.other.Short(), "OTHER").Replace(text)
}
