package composite_test

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type vector struct {
	Name  string
	Input struct {
		Seeds                struct{ Parent, Child string }
		ParentID             identity.ID              `json:"parent_id"`
		ChildID              identity.ID              `json:"child_id"`
		BirthPath            composite.BirthPath      `json:"birth_path"`
		ClosedByDefault      bool                     `json:"closed_by_default"`
		Inherited            []string                 `json:"tool_whitelist_inherited"`
		Added                []string                 `json:"tool_whitelist_added"`
		Removed              []string                 `json:"tool_whitelist_removed"`
		EndpointReachability composite.Reachability   `json:"endpoint_reachability"`
		OutboundPolicy       composite.OutboundPolicy `json:"outbound_policy"`
		SchemaVersion        composite.SchemaVersion  `json:"schema_version"`
		SignatureParent      string                   `json:"signature_parent"`
		SignatureChild       string                   `json:"signature_child"`
	}
	Expect struct {
		SigningPayload string `json:"signing_payload"`
		Verifies       bool
		Message        string
	}
}

func vectors(t testing.TB) []vector {
	t.Helper()
	data, err := os.ReadFile("testdata/manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []vector }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

func (v *vector) manifest(t testing.TB) composite.Manifest {
	t.Helper()
	in := v.Input
	return composite.Manifest{ParentID: in.ParentID, ChildID: in.ChildID, BirthPath: in.BirthPath, ClosedByDefault: in.ClosedByDefault,
		InheritedTools: in.Inherited, AddedTools: in.Added, RemovedTools: in.Removed, Reachability: in.EndpointReachability, OutboundPolicy: in.OutboundPolicy,
		SchemaVersion: in.SchemaVersion, SignatureParent: unhex(t, in.SignatureParent), SignatureChild: unhex(t, in.SignatureChild)}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestManifestsAreSignedAndJudgedAsTheReferenceDoes(t *testing.T) {
	for _, v := range vectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			m := v.manifest(t)
			if diff := cmp.Diff(v.Expect.SigningPayload, string(m.SignedBytes())); diff != "" {
				t.Errorf("SignedBytes() (-want +got):\n%s", diff)
			}
			err := m.Verify()
			if v.Expect.Verifies {
				if err != nil {
					t.Errorf("Verify() = %v, want nil", err)
				}
			} else if !problem.Is(err, problem.BadSignature) || problem.AsError(err).Text() != v.Expect.Message {
				t.Errorf("Verify() = %v, want %s", err, v.Expect.Message)
			}
			back, err := composite.ParseManifest(m.Blob())
			if err != nil {
				t.Fatalf("Parse(Blob()) = %v, want nil", err)
			}
			if m.SchemaVersion == composite.SchemaV1 {
				m.Reachability, m.OutboundPolicy = composite.ParentOnly, composite.NoExternal
			}
			sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
			if diff := cmp.Diff(m, back, sorted, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Parse(Blob()) (-want +got):\n%s", diff)
			}
			if v.Input.Seeds.Parent == "" {
				return
			}
			signAgain(t, v, m)
		})
	}
}

// signAgain checks that the keys of the seeds produce the vector's signatures. It skips manifests
// that Sign refuses because of control characters.
func signAgain(t *testing.T, v vector, m composite.Manifest) {
	t.Helper()
	parent, child := keyOf(t, v.Input.Seeds.Parent), keyOf(t, v.Input.Seeds.Child)
	want := [2]string{v.Input.SignatureParent, v.Input.SignatureChild}
	m.SignatureParent, m.SignatureChild = nil, nil
	if err := m.SignChild(t.Context(), child); err != nil {
		if !strings.Contains(problem.AsError(err).Text(), "control characters") {
			t.Errorf("SignChild() = %v, want nil", err)
		}
		return
	}
	if err := m.SignParent(t.Context(), parent); err != nil {
		t.Errorf("SignParent() = %v, want nil", err)
	}
	if got := [2]string{hex.EncodeToString(m.SignatureParent), hex.EncodeToString(m.SignatureChild)}; got != want {
		t.Errorf("signatures = %v, want %v", got, want)
	}
}

func keyOf(t testing.TB, seed string) *identity.Key {
	t.Helper()
	key, err := identity.KeyFromSeed(unhex(t, seed))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pair(t testing.TB) (parent, child *identity.Key, m composite.Manifest) {
	t.Helper()
	parent, child = keyOf(t, strings.Repeat("11", 32)), keyOf(t, strings.Repeat("22", 32))
	m = composite.Manifest{ParentID: parent.ID(), ChildID: child.ID(), BirthPath: "D2", ClosedByDefault: true,
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal, SchemaVersion: composite.SchemaV2}
	return parent, child, m
}

func TestAManifestThatIsMissingASignatureSaysWhose(t *testing.T) {
	parent, child, m := pair(t)
	if err := m.SignParent(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	if got := problem.AsError(m.Verify()).Text(); got != "manifest missing child signature" {
		t.Errorf("Verify() = %s, want manifest missing child signature", got)
	}
	if err := m.SignChild(t.Context(), parent); err == nil {
		t.Error("SignChild() by the parent = nil, want a refusal")
	}
	if err := m.SignChild(t.Context(), child); err != nil || m.Verify() != nil {
		t.Errorf("SignChild(), Verify() = %v, %v, want nil", err, m.Verify())
	}
}

func TestInvalidManifestIsNeitherSignedNorParsed(t *testing.T) {
	parent, _, _ := pair(t)
	many := strings.Split(strings.Repeat("a,", composite.MaxTools)+"a", ",")
	for name, c := range map[string]struct {
		change func(*composite.Manifest)
		want   string
	}{
		"a path of its own":      {func(m *composite.Manifest) { m.BirthPath = "D6" }, "birth_path"},
		"a child of its own":     {func(m *composite.Manifest) { m.ChildID = m.ParentID }, "child_id"},
		"no parent":              {func(m *composite.Manifest) { m.ParentID = identity.ID{} }, "parent_id"},
		"a child of small order": {func(m *composite.Manifest) { m.ChildID = identity.ID{1} }, "child_id"},
		"version 3":              {func(m *composite.Manifest) { m.SchemaVersion = "v3" }, "schema_version"},
		"a hyphen for public":    {func(m *composite.Manifest) { m.Reachability = "public-a2a" }, "endpoint_reachability"},
		"a policy of its own":    {func(m *composite.Manifest) { m.OutboundPolicy = "any" }, "outbound_policy"},
		"257 tools":              {func(m *composite.Manifest) { m.AddedTools = many }, "tool_whitelist_added"},
		"a long tool":            {func(m *composite.Manifest) { m.RemovedTools = []string{strings.Repeat("t", composite.MaxToolBytes+1)} }, "tool_whitelist_removed[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, m := pair(t)
			c.change(&m)
			if err := m.SignParent(t.Context(), parent); err == nil || !strings.Contains(problem.AsError(err).Text(), c.want) {
				t.Errorf("SignParent() = %v, want a refusal of %s", err, c.want)
			}
			if _, err := composite.ParseManifest(m.Blob()); !problem.Is(err, problem.Malformed) || !strings.Contains(problem.AsError(err).Text(), c.want) {
				t.Errorf("Parse() = %v, want a refusal of %s", err, c.want)
			}
		})
	}
}

func TestMembersOfAManifestThatAreMissingOrStrange(t *testing.T) {
	_, _, m := pair(t)
	short := `{"parent_id":"` + m.ParentID.String() + `","child_id":"` + m.ChildID.String() + `","birth_path":"D2"}`
	if got, err := composite.ParseManifest([]byte(short)); err != nil || cmp.Diff(m, got) != "" {
		t.Errorf("Parse() of the least = %v (-want +got):\n%s", err, cmp.Diff(m, got))
	}
	for want, blob := range map[string]string{
		"parent_id":                `{"child_id":"` + m.ChildID.String() + `","birth_path":"D2"}`,
		"child_id":                 `{"parent_id":"` + m.ParentID.String() + `","birth_path":"D2"}`,
		"birth_path":               `{"parent_id":"` + m.ParentID.String() + `","child_id":"` + m.ChildID.String() + `"}`,
		`"graduated"`:              strings.Replace(short, `{`, `{"graduated":true,`, 1),
		"closed_by_default":        strings.Replace(short, `{`, `{"closed_by_default":0,`, 1),
		"tool_whitelist_added":     strings.Replace(short, `{`, `{"tool_whitelist_added":null,`, 1),
		"tool_whitelist_removed":   strings.Replace(short, `{`, `{"tool_whitelist_removed":[1],`, 1),
		"tool_whitelist_inherited": strings.Replace(short, `{`, `{"tool_whitelist_inherited":{},`, 1),
		"signature_child":          strings.Replace(short, `{`, `{"signature_child":"x",`, 1),
		"signature_parent":         strings.Replace(short, `{`, `{"signature_parent":1,`, 1),
		"at most":                  strings.Repeat(" ", composite.MaxBlob+1),
	} {
		if got, err := composite.ParseManifest([]byte(blob)); err == nil || !strings.Contains(problem.AsError(err).Text(), want) {
			t.Errorf("Parse() = %+v, %v, want a refusal of %s", got, err, want)
		}
	}
}

func FuzzAManifestThatIsReadIsWrittenAgain(f *testing.F) {
	for _, v := range vectors(f)[:6] {
		m := v.manifest(f)
		f.Add(m.Blob())
	}
	f.Fuzz(func(t *testing.T, blob []byte) {
		m, err := composite.ParseManifest(blob)
		if err != nil {
			return
		}
		again, err := composite.ParseManifest(m.Blob())
		if problem.Is(err, problem.TooLarge) {
			return // escapes can make a blob longer than its source
		}
		if err != nil {
			t.Fatalf("Parse(Blob()) = %v, want nil", err)
		}
		if string(again.Blob()) != string(m.Blob()) || again.Hash() != m.Hash() {
			t.Errorf("Parse(Blob()).Blob() = %s, want %s", again.Blob(), m.Blob())
		}
	})
}
