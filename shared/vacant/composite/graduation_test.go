package composite_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// manifestVector is a manifest in the form of the graduation vectors.
type manifestVector struct {
	ParentID  identity.ID              `json:"parent_id"`
	ChildID   identity.ID              `json:"child_id"`
	BirthPath composite.BirthPath      `json:"birth_path"`
	Closed    bool                     `json:"closed_by_default"`
	Inherited []string                 `json:"tool_whitelist_inherited"`
	Added     []string                 `json:"tool_whitelist_added"`
	Removed   []string                 `json:"tool_whitelist_removed"`
	Reach     composite.Reachability   `json:"endpoint_reachability"`
	Outbound  composite.OutboundPolicy `json:"outbound_policy"`
	Schema    composite.SchemaVersion  `json:"schema_version"`
	SigParent string                   `json:"signature_parent"`
	SigChild  string                   `json:"signature_child"`
}

func (v manifestVector) manifest(t testing.TB) composite.Manifest {
	t.Helper()
	return composite.Manifest{ParentID: v.ParentID, ChildID: v.ChildID, BirthPath: v.BirthPath, ClosedByDefault: v.Closed,
		InheritedTools: v.Inherited, AddedTools: v.Added, RemovedTools: v.Removed, Reachability: v.Reach, OutboundPolicy: v.Outbound, SchemaVersion: v.Schema,
		SignatureParent: unhex(t, v.SigParent), SignatureChild: unhex(t, v.SigChild)}
}

type graduationVector struct {
	Name  string
	Input struct {
		ParentSeed string `json:"parent_seed"`
		ChildSeed  string `json:"child_seed"`
		Manifest   *manifestVector
		Request    struct {
			ParentID   identity.ID `json:"parent_id"`
			ChildID    identity.ID `json:"child_id"`
			Capability string      `json:"capability_text"`
			SigParent  string      `json:"parent_signature"`
			SigChild   string      `json:"child_signature"`
		}
		Payload string `json:"request_payload"`
	}
	Expect struct {
		Manifest *manifestVector
		Refused  string
		Message  string
	}
}

func graduations(t testing.TB) []graduationVector {
	t.Helper()
	data, err := os.ReadFile("testdata/graduation.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []graduationVector }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 40 {
		t.Fatalf("graduation.json has %d cases, want 40", len(file.Cases))
	}
	return file.Cases
}

func (v *graduationVector) request(t testing.TB) composite.GraduationRequest {
	t.Helper()
	in := v.Input.Request
	return composite.GraduationRequest{ParentID: in.ParentID, ChildID: in.ChildID, CapabilityText: in.Capability,
		SignatureParent: unhex(t, in.SigParent), SignatureChild: unhex(t, in.SigChild)}
}

func TestGraduationRequestsAreSignedAndJudgedAsTheReferenceDoes(t *testing.T) {
	for _, v := range graduations(t) {
		t.Run(v.Name, func(t *testing.T) {
			r := v.request(t)
			if diff := cmp.Diff(v.Input.Payload, string(r.SignedBytes())); diff != "" && !strings.HasPrefix(v.Name, "text changed") {
				t.Errorf("SignedBytes() (-want +got):\n%s", diff)
			}
			err := r.Verify()
			if text := "graduation request signatures did not verify"; v.Expect.Message == text {
				if !problem.Is(err, problem.ConsentRequired) || problem.AsError(err).Text() != text {
					t.Errorf("Verify() = %v, want %s", err, text)
				}
			} else if err != nil {
				t.Errorf("Verify() = %v, want nil", err)
			}
			back, err := composite.ParseGraduationRequest(r.Blob())
			if diff := cmp.Diff(r, back, emptyIsNil); err != nil || diff != "" {
				t.Errorf("ParseGraduationRequest(Blob()) = %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

var emptyIsNil = cmp.Transformer("nil", func(b []byte) string { return string(b) })

func TestARequestIsSignedByWhomItNames(t *testing.T) {
	parent, child, _ := pair(t)
	r := composite.GraduationRequest{ParentID: parent.ID(), ChildID: child.ID(), CapabilityText: "review"}
	if err := r.Verify(); !problem.Is(err, problem.ConsentRequired) {
		t.Errorf("Verify() of an unsigned request = %v, want a refusal", err)
	}
	if err := r.SignParent(t.Context(), child); !problem.Is(err, problem.Untrusted) {
		t.Errorf("SignParent() by the child = %v, want a refusal", err)
	}
	if err := r.SignChild(t.Context(), child); err != nil {
		t.Fatal(err)
	}
	if err := r.Verify(); !problem.Is(err, problem.ConsentRequired) {
		t.Errorf("Verify() without the parent = %v, want a refusal", err)
	}
	if err := r.SignParent(t.Context(), parent); err != nil || r.Verify() != nil {
		t.Errorf("SignParent(), Verify() = %v, %v, want nil", err, r.Verify())
	}
	for field, change := range map[string]func(*composite.GraduationRequest){
		"capability_text": func(r *composite.GraduationRequest) { r.CapabilityText = "a\x1fb" },
		"at most": func(r *composite.GraduationRequest) {
			r.CapabilityText = strings.Repeat("x", composite.MaxCapabilityBytes+1)
		},
		"parent_id":        func(r *composite.GraduationRequest) { r.ParentID = identity.ID{} },
		"an id other than": func(r *composite.GraduationRequest) { r.ParentID = r.ChildID },
		"child_id":         func(r *composite.GraduationRequest) { r.ChildID = identity.ID{1} },
	} {
		other := r
		change(&other)
		if err := other.SignChild(t.Context(), child); err == nil || !strings.Contains(problem.AsError(err).Text(), field) {
			t.Errorf("SignChild() = %v, want a refusal of %s", err, field)
		}
	}
}

func TestMembersOfARequestThatAreMissingOrStrange(t *testing.T) {
	parent, child, _ := pair(t)
	r := composite.GraduationRequest{ParentID: parent.ID(), ChildID: child.ID(), CapabilityText: "review"}
	good := string(r.Blob())
	for want, blob := range map[string]string{
		`"nonce" is not`:   strings.Replace(good, `{`, `{"nonce":"1",`, 1),
		"intent":           strings.Replace(good, "graduation:v1", "graduation:v2", 1),
		"capability_text":  strings.Replace(good, `"review"`, `7`, 1),
		"parent_id":        strings.Replace(good, `"parent_id":"`, `"parent_id":"00`, 1),
		"signature_parent": strings.Replace(good, `"signature_parent":""`, `"signature_parent":"g"`, 1),
		"missing":          `{"intent":"vacant:graduation:v1"}`,
		"object":           `[]`,
		"at most":          strings.Repeat(" ", composite.MaxRequestBytes+1),
	} {
		if blob == good {
			t.Fatalf("nothing was changed for %q", want)
		}
		if got, err := composite.ParseGraduationRequest([]byte(blob)); err == nil || !strings.Contains(problem.AsError(err).Text(), want) {
			t.Errorf("ParseGraduationRequest() = %+v, %v, want a refusal of %s", got, err, want)
		}
	}
}

func TestAManifestThatGraduatesIsTheReferences(t *testing.T) {
	for _, v := range graduations(t) {
		if v.Expect.Manifest == nil {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			m := v.Input.Manifest.manifest(t)
			next := m.AfterGraduation()
			// The child signs first, because the order of signatures is free.
			if err := next.SignChild(t.Context(), keyOf(t, v.Input.ChildSeed)); err != nil {
				t.Fatal(err)
			}
			if err := next.SignParent(t.Context(), keyOf(t, v.Input.ParentSeed)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(v.Expect.Manifest.manifest(t), next, emptyIsNil); diff != "" {
				t.Errorf("Graduated() (-want +got):\n%s", diff)
			}
			if err := m.CheckGraduation(&next); err != nil {
				t.Errorf("CheckGraduation() = %v, want nil", err)
			}
		})
	}
}

func TestGraduationComparesUnchangedMembers(t *testing.T) {
	parent, child, m := pair(t)
	m.InheritedTools = []string{"b", "a"}
	sign := func(next *composite.Manifest) {
		t.Helper()
		if err := next.SignParent(t.Context(), parent); err != nil && next.ParentID == parent.ID() {
			t.Fatal(err)
		}
		if err := next.SignChild(t.Context(), child); err != nil && next.ChildID == child.ID() {
			t.Fatal(err)
		}
	}
	for want, change := range map[string]func(*composite.Manifest){
		"":                         func(n *composite.Manifest) { slices.Reverse(n.InheritedTools) }, // the order of tools is not signed
		"parent_id":                func(n *composite.Manifest) { n.ParentID = keyOf(t, strings.Repeat("33", 32)).ID() },
		"child_id":                 func(n *composite.Manifest) { n.ChildID = keyOf(t, strings.Repeat("33", 32)).ID() },
		"closed_by_default":        func(n *composite.Manifest) { n.ClosedByDefault = true },
		"birth_path":               func(n *composite.Manifest) { n.BirthPath = "D3" },
		"schema_version":           func(n *composite.Manifest) { n.SchemaVersion = composite.SchemaV1 },
		"endpoint_reachability":    func(n *composite.Manifest) { n.Reachability = composite.ParentOnly },
		"outbound_policy":          func(n *composite.Manifest) { n.OutboundPolicy = composite.Unrestricted },
		"tool_whitelist_added":     func(n *composite.Manifest) { n.AddedTools = []string{"c"} },
		"tool_whitelist_inherited": func(n *composite.Manifest) { n.InheritedTools = []string{"a"} },
		"tool_whitelist_removed":   func(n *composite.Manifest) { n.RemovedTools = []string{"a"} },
	} {
		next := m.AfterGraduation()
		change(&next)
		sign(&next)
		err := m.CheckGraduation(&next)
		if want == "" && err != nil || want != "" && (!problem.Is(err, problem.Malformed) || !strings.HasPrefix(problem.AsError(err).Text(), want)) {
			t.Errorf("CheckGraduation() = %v, want a refusal of %q", err, want)
		}
	}
	unsigned := m.AfterGraduation()
	if err := m.CheckGraduation(&unsigned); !problem.Is(err, problem.BadSignature) {
		t.Errorf("CheckGraduation() of an unsigned one = %v, want a refusal", err)
	}
}

func TestToolsAreWhatIsLeft(t *testing.T) {
	m := composite.Manifest{InheritedTools: []string{"b", "a", "b"}, AddedTools: []string{"c", "a"}, RemovedTools: []string{"b", "x"}}
	if diff := cmp.Diff([]string{"a", "c"}, m.Tools()); diff != "" {
		t.Errorf("Tools() (-want +got):\n%s", diff)
	}
}

func FuzzARequestThatIsReadIsWrittenAgain(f *testing.F) {
	for _, v := range graduations(f)[:4] {
		r := v.request(f)
		f.Add(r.Blob())
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		r, err := composite.ParseGraduationRequest(blob)
		if err != nil {
			return
		}
		again, err := composite.ParseGraduationRequest(r.Blob())
		if problem.Is(err, problem.TooLarge) {
			return // escapes can make a blob longer than its source
		}
		if err != nil || again.Hash() != r.Hash() || string(again.Blob()) != string(r.Blob()) {
			t.Errorf("ParseGraduationRequest(Blob()) = %+v, %v, want %+v", again, err, r)
		}
	})
}
