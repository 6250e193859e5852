// Package gatetest is what the gate promises, executable: a child that is
// accepted, and every refusal, each with the records that it leaves. Run is to
// be called over each host: a service that walks the steps in one process, and
// a state machine that runs them.
//
// The invariant it checks after each case: the records are those of the table,
// in whatever host.
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

// Fixture is a host with a gate, as a test reaches it.
type Fixture struct {
	// Store is the host's own, to read its records from.
	Store store.Store
	// Vacant hosts a new vacant without kin.
	Vacant func(t *testing.T) identity.ID
	// Children hosts n new closed children of a vacant, which are served by
	// something else than it.
	Children func(t *testing.T, parent identity.ID, n int) []identity.ID
	// Twins hosts a vacant and a closed child of it, both served by the same.
	Twins func(t *testing.T) (parent, child identity.ID)
	// Sign has both parties of r, which are hosted here, sign it.
	Sign func(t *testing.T, r *composite.Request)
	// Revoke ends a vacant's key.
	Revoke func(t *testing.T, id identity.ID)
	// SetPolicy sets the host's policy.
	SetPolicy func(t *testing.T, p gate.Policy)
	// Submit sends what is to graduate to the gate's handler, waits until it is
	// decided, and returns what both parties are shown; or the handler's refusal.
	Submit func(t *testing.T, sub graduation.Submission) (graduation.View, error)
}

// record is all that an attempt leaves behind.
type record struct {
	Decision   string // state, step, error
	Detail     string // of the refusal
	Position   uint64
	Findings   bool
	Open       bool // the child, by its manifest
	Graduated  bool // the same, as the gate notes it
	Visibility lifecycle.Visibility
	Slots      int // taken of the parent
	ParentLog  string
	ChildLog   string // the kinds of the last entries
}

// scene is a parent with two children, and a vacant that is nobody's parent.
type scene struct {
	*testing.T
	Fixture
	parent, stranger, child, other identity.ID
}

// Run drives every case over one host. The host's policy changes between them.
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

// request has both sign that child is to graduate.
func (s *scene) request(parent, child identity.ID, text string) graduation.Submission {
	s.Helper()
	r := composite.Request{ParentID: parent, ChildID: child, CapabilityText: text}
	s.Sign(s.T, &r)
	return graduation.Submission{Request: r}
}

// expect sends sub and compares what it leaves.
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

// refused sends what the handler is to refuse, of which nothing must be kept.
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

// record reads what the host keeps of child now.
func (s *scene) record(view *graduation.View, child identity.ID) record {
	s.Helper()
	ctx := context.Background()
	r := record{Decision: string(view.State) + " at " + string(view.Step), Position: view.Position, Findings: view.Findings != nil}
	if view.Refusal != nil {
		r.Decision += " by " + view.Refusal.Error
		r.Detail = s.anonymous(view.Refusal.Detail)
	}
	doc := s.doc(registry.ManifestKey(child))
	m, err := registry.DecodeManifest(child, doc)
	if err != nil {
		s.Fatal(err)
	}
	r.Open, r.Graduated = !m.Manifest.ClosedByDefault, m.Graduated
	if doc := s.doc(registry.RegistrationKey(child)); doc.Version > 0 {
		g, err := registry.DecodeRegistration(child, doc)
		if err != nil {
			s.Fatal(err)
		}
		r.Visibility = g.Visibility
	}
	w, err := graduation.DecodeWindow(s.parent, s.doc(graduation.WindowKey(s.parent)))
	if err != nil {
		s.Fatal(err)
	}
	r.Slots = len(w)
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

// anonymous puts names in the place of ids, which differ from home to home.
func (s *scene) anonymous(text string) string {
	return strings.NewReplacer(s.parent.Short(), "PARENT", s.stranger.Short(), "STRANGER", s.child.Short(), "CHILD", s.other.Short(), "OTHER").Replace(text)
}
