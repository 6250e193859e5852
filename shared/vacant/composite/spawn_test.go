package composite_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const nonce = "000102030405060708090a0b0c0d0e0f"

func spawn(t testing.TB) (*identity.Key, composite.SpawnRequest) {
	t.Helper()
	parent, _, _ := pair(t)
	with := keyOf(t, strings.Repeat("33", 32)).ID()
	return parent, composite.SpawnRequest{ParentID: parent.ID(), BirthPath: "D4", Name: "clerk", Capability: "files", Substrate: "echo",
		Tools: []string{"b", "a"}, Rule: "be brief", SecondParentID: &with, Reachability: composite.ParentBridged, OutboundPolicy: composite.ParentPermitted,
		Nonce: nonce, Time: time.Date(2026, 5, 6, 12, 34, 56, 789_000, time.UTC)}
}

func TestTheSignedBytesOfASpawnRequest(t *testing.T) {
	parent, r := spawn(t)
	r.Time = r.Time.In(time.FixedZone("", 3600)).Add(123)
	if err := r.Sign(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	want := `{"capability":"files","intent":"vacancy:spawn:v1","name":"clerk","nonce":"` + nonce + `","outbound":"parent-permitted","parent_id":"` +
		parent.ID().String() + `","path":"D4","reach":"parent-bridged","rule":"be brief","substrate":"echo","tools":["b","a"],"ts":"2026-05-06T12:34:56.000789+00:00","with":"` +
		r.SecondParentID.String() + `"}`
	if diff := cmp.Diff(want, string(r.SignedBytes())); diff != "" {
		t.Errorf("SignedBytes() (-want +got):\n%s", diff)
	}
	if err := r.Verify(); err != nil {
		t.Errorf("Verify() = %v, want nil", err)
	}
	back, err := composite.ParseSpawnRequest(r.Blob())
	if diff := cmp.Diff(r, back); err != nil || diff != "" {
		t.Errorf("ParseSpawnRequest(Blob()) = %v (-want +got):\n%s", err, diff)
	}
	least := `{"intent":"vacancy:spawn:v1","name":"","nonce":"` + nonce + `","parent_id":"` + parent.ID().String() + `","path":"D2","ts":"2026-05-06T00:00:00Z"}`
	if back, err = composite.ParseSpawnRequest([]byte(least)); err != nil || back.SecondParentID != nil || back.Tools != nil {
		t.Errorf("ParseSpawnRequest() of the least = %+v, %v, want one without a second parent", back, err)
	}
}

func TestAnyChangeOfASpawnRequestIsSeen(t *testing.T) {
	parent, r := spawn(t)
	other := keyOf(t, strings.Repeat("77", 32))
	if err := r.Sign(t.Context(), other); !problem.Is(err, problem.Untrusted) {
		t.Errorf("Sign() by another = %v, want a refusal", err)
	}
	if err := r.Sign(t.Context(), parent); err != nil {
		t.Fatal(err)
	}
	id := other.ID()
	for name, change := range map[string]func(*composite.SpawnRequest){
		"parent":     func(r *composite.SpawnRequest) { r.ParentID = id },
		"path":       func(r *composite.SpawnRequest) { r.BirthPath = "D1" },
		"name":       func(r *composite.SpawnRequest) { r.Name = "x" },
		"capability": func(r *composite.SpawnRequest) { r.Capability = "" },
		"substrate":  func(r *composite.SpawnRequest) { r.Substrate = "" },
		"tools":      func(r *composite.SpawnRequest) { r.Tools = []string{"a", "b"} },
		"rule":       func(r *composite.SpawnRequest) { r.Rule = "" },
		"with":       func(r *composite.SpawnRequest) { r.SecondParentID = nil },
		"reach":      func(r *composite.SpawnRequest) { r.Reachability = "" },
		"outbound":   func(r *composite.SpawnRequest) { r.OutboundPolicy = "" },
		"nonce":      func(r *composite.SpawnRequest) { r.Nonce = strings.Repeat("0", 32) },
		"time":       func(r *composite.SpawnRequest) { r.Time = r.Time.Add(time.Microsecond) },
		"signature":  func(r *composite.SpawnRequest) { r.Signature = nil },
	} {
		changed := r
		change(&changed)
		if err := changed.Verify(); !problem.Is(err, problem.BadSignature) {
			t.Errorf("Verify() with another %s = %v, want a refusal", name, err)
		}
	}
}

func TestInvalidSpawnRequestIsNeitherSignedNorParsed(t *testing.T) {
	for want, change := range map[string]func(*composite.SpawnRequest){
		"parent_id":  func(r *composite.SpawnRequest) { r.ParentID = identity.ID{} },
		"path":       func(r *composite.SpawnRequest) { r.BirthPath = "D6" },
		"with":       func(r *composite.SpawnRequest) { r.SecondParentID = &identity.ID{1} },
		"name":       func(r *composite.SpawnRequest) { r.Name = "a\x1fb" },
		"capability": func(r *composite.SpawnRequest) { r.Capability = strings.Repeat("x", composite.MaxCapabilityBytes+1) },
		"tools":      func(r *composite.SpawnRequest) { r.Tools = make([]string, composite.MaxTools+1) },
		"tools[1]":   func(r *composite.SpawnRequest) { r.Tools[1] = strings.Repeat("x", composite.MaxToolBytes+1) },
		"tools[0]":   func(r *composite.SpawnRequest) { r.Tools[0] = "\x00" },
		"nonce":      func(r *composite.SpawnRequest) { r.Nonce = strings.ToUpper(nonce) },
	} {
		parent, r := spawn(t)
		change(&r)
		if err := r.Sign(t.Context(), parent); err == nil || !strings.HasPrefix(problem.AsError(err).Text(), want) {
			t.Errorf("Sign() = %v, want a refusal of %s", err, want)
		}
		if _, err := composite.ParseSpawnRequest(r.Blob()); !problem.Is(err, problem.Malformed) || !strings.Contains(problem.AsError(err).Text(), want) || problem.AsError(err).Field != want {
			t.Errorf("ParseSpawnRequest() = %v of %q, want a refusal of %s", err, problem.AsError(err).Field, want)
		}
	}
	parent, r := spawn(t)
	r.Time = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	if err := r.Sign(t.Context(), parent); err == nil {
		t.Error("Sign() in the year 10000 = nil, want a refusal")
	}
	parent, r = spawn(t)
	for range composite.MaxTools - 2 {
		r.Tools = append(r.Tools, strings.Repeat(`"`, composite.MaxToolBytes))
	}
	if err := r.Sign(t.Context(), parent); !problem.Is(err, problem.TooLarge) || r.Signature != nil {
		t.Errorf("Sign() of what nobody reads = %v, want TooLarge", err)
	}
	if _, err := composite.ParseSpawnRequest([]byte(`{"closed":true}`)); err == nil || !strings.Contains(problem.AsError(err).Text(), `"closed" is not`) || problem.AsError(err).Field != "closed" {
		t.Errorf("ParseSpawnRequest() of an unknown member = %v, want a refusal", err)
	}
}

func TestASecondParentAgreesToOneChild(t *testing.T) {
	parent, child, _ := pair(t)
	second := keyOf(t, strings.Repeat("33", 32))
	n, err := composite.NewNonce(bytes.NewReader([]byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f")))
	if err != nil || n != nonce {
		t.Fatalf("NewNonce() = %s, %v, want %s", n, err, nonce)
	}
	c := composite.Consent{ParentID: parent.ID(), SecondParentID: second.ID(), ChildID: child.ID(), Nonce: n}
	if err := c.Sign(t.Context(), parent); !problem.Is(err, problem.Untrusted) {
		t.Errorf("Sign() by the first parent = %v, want a refusal", err)
	}
	if err := c.Sign(t.Context(), second); err != nil || c.Verify() != nil {
		t.Errorf("Sign(), Verify() = %v, %v, want nil", err, c.Verify())
	}
	want := `{"child_id":"` + child.ID().String() + `","intent":"vacancy:spawn:D4:v1","nonce":"` + nonce + `","parent_id":"` +
		parent.ID().String() + `","secondary_parent_id":"` + second.ID().String() + `"}`
	if diff := cmp.Diff(want, string(c.SignedBytes())); diff != "" {
		t.Errorf("SignedBytes() (-want +got):\n%s", diff)
	}
	// In the reference, the second parent signs the hash of its own key and the intent.
	h := identity.Sum(append(append([]byte{}, c.SecondParentID[:]...), "\x1fvacant:spawn:D4:lineage_merge"...))
	if !identity.Verify(second.ID(), h[:], c.ReferenceSignature) {
		t.Error("Reference is not what the reference has signed")
	}
	stranger := keyOf(t, strings.Repeat("66", 32)).ID()
	for name, change := range map[string]func(*composite.Consent){
		"another parent":   func(c *composite.Consent) { c.ParentID = stranger },
		"another child":    func(c *composite.Consent) { c.ChildID = stranger },
		"another second":   func(c *composite.Consent) { c.SecondParentID = stranger },
		"another nonce":    func(c *composite.Consent) { c.Nonce = strings.Repeat("1", 32) },
		"no signature":     func(c *composite.Consent) { c.Signature = nil },
		"no reference's":   func(c *composite.Consent) { c.ReferenceSignature = nil },
		"the same parents": func(c *composite.Consent) { c.ParentID = c.SecondParentID },
		"no nonce":         func(c *composite.Consent) { c.Nonce = "" },
		"no second":        func(c *composite.Consent) { c.SecondParentID = identity.ID{} },
		"no parent":        func(c *composite.Consent) { c.ParentID = identity.ID{} },
	} {
		other := c
		change(&other)
		if err := other.Verify(); err == nil {
			t.Errorf("Verify() with %s = nil, want a refusal", name)
		}
	}
	if _, err := composite.NewNonce(strings.NewReader("short")); !problem.Is(err, problem.Unavailable) {
		t.Errorf("NewNonce() of nothing = %v, want Unavailable", err)
	}
}

func FuzzASpawnRequestThatIsReadIsWrittenAgain(f *testing.F) {
	_, r := spawn(f)
	f.Add(r.Blob())
	r.SecondParentID, r.Tools = nil, nil
	f.Add(r.Blob())
	f.Fuzz(func(t *testing.T, blob []byte) {
		r, err := composite.ParseSpawnRequest(blob)
		if err != nil {
			return
		}
		again, err := composite.ParseSpawnRequest(r.Blob())
		if problem.Is(err, problem.TooLarge) {
			return // Blob also writes members that the source omits
		}
		if err != nil || again.Hash() != r.Hash() || string(again.Blob()) != string(r.Blob()) {
			t.Errorf("ParseSpawnRequest(Blob()) = %+v, %v, want %+v", again, err, r)
		}
	})
}
