package admin_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/echo"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// newFamilyServer is a handler of a host with children.
func newFamilyServer(t *testing.T, more ...func(*admin.Config)) *testServer {
	t.Helper()
	return newTestServer(t, append(more, report)...)
}

// report gives a handler the children of its vacants.
func report(c *admin.Config) {
	v := c.Vacants
	c.ChildReport = func(ctx context.Context, by vacants.Asker, parent identity.ID, cursor string, n int) ([]delegation.Child, string, error) {
		return delegation.ReportChildren(ctx, by, v, v.Store, parent, cursor, n)
	}
}

func TestAChildIsBornShownAndBoundByBothSignatures(t *testing.T) {
	h := newFamilyServer(t)
	c := client(t, h)
	parent := create(t, h, "parent")
	made, err := admin.SpawnChild.Call(t.Context(), c, admin.NewVacantRequest("parent", admin.Spawning{Path: "D2", Name: "child", Tools: []string{"mail"}}))
	if err != nil {
		t.Fatalf("Spawn() = %v, want a child", err)
	}
	m, err := made.Manifest.Open()
	if err != nil || m.ParentID != parent.ID || m.ChildID != made.Vacant.ID || !m.ClosedByDefault || made.Vacant.State != lifecycle.Local {
		t.Errorf("Spawn() = %+v with %s, %v, want a closed child of %s, LOCAL", made.Vacant, made.Manifest.Manifest, err, parent.ID)
	}
	again, err := admin.SpawnChild.Call(t.Context(), c, admin.NewVacantRequest("parent", admin.Spawning{Path: "D2", Name: "child", Tools: []string{"mail"}}))
	if err != nil || again.Vacant.ID != made.Vacant.ID || !again.Unchanged || made.Unchanged {
		t.Errorf("Spawn() again = %s, unchanged %t, %v, want the same child, that was there", again.Vacant.ID, again.Unchanged, err)
	}
	if _, err := admin.SpawnChild.Call(t.Context(), c, admin.NewVacantRequest("parent", admin.Spawning{Path: "D3", Name: "open", Capability: "sings"})); err != nil {
		t.Fatal(err)
	}
	page, err := admin.ListChildren.Call(t.Context(), c, admin.ChildrenRequest{VacantRef: admin.VacantRef{Vacant: parent.ID.String()}, Cursor: ""})
	must(t, err)
	got := map[string]admin.Child{}
	for _, one := range page.Children {
		got[one.Vacant.Name] = admin.Child{Path: one.Path, Closed: one.Closed, Graduated: one.Graduated, Calls: one.Calls}
	}
	if diff := cmp.Diff(map[string]admin.Child{"child": {Path: "D2", Closed: true}, "open": {Path: "D3"}}, got); diff != "" {
		t.Errorf("Children() (-want +got):\n%s", diff)
	}
	kept, err := admin.GetManifest.Call(t.Context(), c, admin.VacantRef{Vacant: "child"})
	if err != nil || string(kept.Manifest) != string(made.Manifest.Manifest) {
		t.Errorf("Manifest() = %s, %v, want %s", kept.Manifest, err, made.Manifest.Manifest)
	}
	if _, err := admin.GetManifest.Call(t.Context(), c, admin.VacantRef{Vacant: "parent"}); !problem.Is(err, problem.NotFound) {
		t.Errorf("Manifest() of nobody's child = %v, want NotFound", err)
	}
	if _, err := admin.StoreManifest.Call(t.Context(), c, admin.NewVacantRequest("child", op.Raw[composite.ManifestDocument](m.Blob()))); err != nil {
		t.Errorf("TakeManifest() of the one that is kept = %v, want nil", err)
	}
	if _, err := admin.StoreManifest.Call(t.Context(), c, admin.NewVacantRequest("parent", op.Raw[composite.ManifestDocument](m.Blob()))); !problem.Is(err, problem.Malformed) {
		t.Errorf("TakeManifest() of another's = %v, want Malformed", err)
	}
}

func TestSpawnRefusesInvalidBodies(t *testing.T) {
	h := newFamilyServer(t)
	create(t, h, "parent")
	for name, c := range map[string]struct {
		body, field string
		kind        problem.Kind
	}{
		"no path":          {`{"name":"x"}`, "path", problem.Malformed},
		"a path of theirs": {`{"name":"x","path":"D6"}`, "path", problem.Malformed},
		"a rule in D2":     {`{"name":"x","path":"D2","rule":"be short"}`, "rule", problem.Malformed},
		"nobody with it":   {`{"name":"x","path":"D4","with":"nobody"}`, "", problem.NotFound},
		"more":             {`{"name":"x","path":"D2","seed_hex":"00"}`, "seed_hex", problem.Malformed},
		"a list's word":    {`{"name":"x","path":"D2","tools":"mail"}`, "tools", problem.Malformed},
		"a number":         {`{"name":"x","path":2}`, "path", problem.Malformed},
		"twice":            {`{"name":"x","name":"y","path":"D2"}`, "", problem.Malformed},
	} {
		w := h.ask("POST", "/v1/admin/vacants/parent/children", c.body)
		r := decode[httpapi.Refusal](t, w)
		if r.Code != c.kind.String() || c.field != "" && r.Field != c.field {
			t.Errorf("%s: POST children = %d %+v, want %s of %s", name, w.Code, r, c.kind, c.field)
		}
	}
	w := h.ask("POST", "/v1/admin/vacants/nobody/children", `{"name":"x","path":"D2"}`)
	wantRefusal(t, w, problem.NotFound, "")
}

func TestAChildReachesTheEndpointThatThinksForItOrIsNotBorn(t *testing.T) {
	h := newFamilyServer(t, func(c *admin.Config) {
		c.Vacants.Resources.Substrates[substrate.KindHTTP] = func(string) (substrate.Substrate, error) { return echo.New("") }
	})
	c := client(t, h)
	create(t, h, "parent")
	const url = "https://mind.example/answer"
	one := admin.Spawning{Path: "D2", Name: "one", Substrate: "http:" + url, OutboundPolicy: composite.ParentPermitted}
	made, err := admin.SpawnChild.Call(t.Context(), c, admin.NewVacantRequest("parent", one))
	must(t, err)
	m, err := made.Manifest.Open()
	if diff := cmp.Diff([]string{url}, m.Tools()); err != nil || diff != "" {
		t.Errorf("tools of a child that may reach those of its parent: %v (-want +got):\n%s", err, diff)
	}
	if again, err := admin.SpawnChild.Call(t.Context(), c, admin.NewVacantRequest("parent", one)); err != nil || again.Vacant.ID != made.Vacant.ID {
		t.Errorf("Spawn() again = %v, %v, want the same child", again.Vacant.ID, err)
	}
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/parent/children", `{"path":"D2","name":"mute","substrate":"http:`+url+`","outbound":"no-external"}`), problem.Malformed, "outbound")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/one/children", `{"path":"D2","name":"mute","outbound":"no-external"}`), problem.Malformed, "outbound")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/parent/children", `{"path":"D2","name":"x","reach":"public_a2a"}`), problem.Malformed, "reach")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/parent/children", `{"path":"D2","name":"x","outbound":"none"}`), problem.Malformed, "outbound")
	wantRefusal(t, h.ask("POST", "/v1/admin/vacants/one/children", `{"path":"D2","name":"x","outbound":"unrestricted"}`), problem.Forbidden, "outbound")
}

func TestAChildThatCannotAnswerIsShownSo(t *testing.T) {
	h := newFamilyServer(t)
	c := client(t, h)
	create(t, h, "parent")
	for _, name := range []string{"awake", "asleep", "gone"} {
		if _, err := admin.SpawnChild.Call(t.Context(), c, admin.NewVacantRequest("parent", admin.Spawning{Path: "D2", Name: name})); err != nil {
			t.Fatal(err)
		}
	}
	for _, done := range []string{"asleep/pause", "gone/sink", "gone/archive"} {
		if w := h.ask("POST", "/v1/admin/vacants/"+done, ""); w.Code != 200 {
			t.Fatalf("%s = %d %s", done, w.Code, w.Body)
		}
	}
	h.ask("DELETE", "/v1/admin/vacants/gone", "")
	page, err := admin.ListChildren.Call(t.Context(), c, admin.ChildrenRequest{VacantRef: admin.VacantRef{Vacant: "parent"}, Cursor: ""})
	must(t, err)
	got := map[string]string{}
	for _, one := range page.Children {
		got[one.Vacant.Name] = one.UnavailableReason
	}
	if diff := cmp.Diff(map[string]string{"awake": "", "asleep": "HIBERNATING", "gone": "deleted"}, got); diff != "" {
		t.Errorf("CannotAnswer of Children() (-want +got):\n%s", diff)
	}
}

func TestACompositeIsSetByItsPlanAndItsChildrenEcho(t *testing.T) {
	h := newFamilyServer(t)
	c := client(t, h)
	create(t, h, "parent")
	if _, err := admin.SpawnChild.Call(t.Context(), c, admin.NewVacantRequest("parent", admin.Spawning{Path: "D2", Name: "child"})); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.GetPlan.Call(t.Context(), c, admin.VacantRef{Vacant: "parent"}); !problem.Is(err, problem.NotFound) {
		t.Errorf("Plan() before there is one = %v, want NotFound", err)
	}
	set, err := admin.SetPlan.Call(t.Context(), c, admin.NewVacantRequest("parent", op.Raw[plan.Document]([]byte(`{"version":1,"delegate":[{"child":"child","task":"{input}"}]}`))))
	if err != nil || set.Vacant.Substrate != "composite" {
		t.Fatalf("SetPlan() = %+v, %v, want a composite", set, err)
	}
	shown, err := admin.GetPlan.Call(t.Context(), c, admin.VacantRef{Vacant: "parent"})
	if err != nil || shown.Hash != set.Hash || string(shown.Plan) != string(set.Plan) {
		t.Errorf("Plan() = %s, %v, want %s", shown.Plan, err, set.Plan)
	}
	made, err := admin.SpawnChild.Call(t.Context(), c, admin.NewVacantRequest("parent", admin.Spawning{Path: "D2", Name: "second"}))
	if err != nil || made.Vacant.Substrate != "echo" {
		t.Errorf("Spawn() of a composite = %s, %v, want that it echoes", made.Vacant.Substrate, err)
	}
	for body, kind := range map[string]problem.Kind{
		`{"version":1,"delegate":[]}`:                                    problem.Malformed,
		`{"version":1,"delegate":[{"child":"nobody","task":"{input}"}]}`: problem.NotFound,
		`{"version":1,"delegate":[{"child":"parent","task":"{input}"}]}`: problem.Malformed,
		`{"version":2}`: problem.Malformed,
		`[]`:            problem.NotJSON,
	} {
		w := h.ask("PUT", "/v1/admin/vacants/parent/plan", body)
		if got := decode[httpapi.Refusal](t, w); got.Code != kind.String() {
			t.Errorf("PUT plan %s = %d %+v, want %v", body, w.Code, got, kind)
		}
	}
	wantRefusal(t, h.ask("PUT", "/v1/admin/vacants/parent/plan", `{"version":1,"delegate":[{"child":"nobody","task":"{input}"}]}`), problem.NotFound, "delegate[0].child")
}

func TestAHostedPartySignsItsOwnGraduationAlone(t *testing.T) {
	h := newFamilyServer(t)
	c := client(t, h)
	parent := create(t, h, "parent")
	made, err := admin.SpawnChild.Call(t.Context(), c, admin.NewVacantRequest("parent", admin.Spawning{Path: "D2", Name: "child"}))
	must(t, err)
	r := composite.GraduationRequest{ParentID: parent.ID, ChildID: made.Vacant.ID, CapabilityText: "sings"}
	for party, name := range map[string]string{"parent": "parent", "child": made.Vacant.ID.String()} {
		got, err := admin.SignGraduation.Call(t.Context(), c, admin.NewVacantRequest(name, admin.GraduationRequest{ParentID: r.ParentID, ChildID: r.ChildID, CapabilityText: r.CapabilityText}))
		if err != nil || got.Party != party {
			t.Fatalf("SignGraduation() of the %s = %+v, %v", party, got, err)
		}
		sig, err := hex.DecodeString(got.Signature)
		if err != nil || !identity.Verify(got.ID, r.SignedBytes(), sig) {
			t.Errorf("SignGraduation() of the %s = %s, want its signature", party, got.Signature)
		}
	}
	create(t, h, "other")
	if _, err := admin.SignGraduation.Call(t.Context(), c, admin.NewVacantRequest("other", admin.GraduationRequest{ParentID: r.ParentID, ChildID: r.ChildID, CapabilityText: r.CapabilityText})); !problem.Is(err, problem.Malformed) {
		t.Errorf("SignGraduation() of another = %v, want Malformed", err)
	}
	for body, field := range map[string]string{
		`{"parent_id":"` + parent.ID.String() + `"}`:      "child_id",
		`{"parent_id":"x"}`:                               "parent_id",
		`{"intent":"vacancy:revoke"}`:                     "intent",
		`{"parent_id":1}`:                                 "parent_id",
		`{"child_id":"` + strings.Repeat("ab", 31) + `"}`: "child_id",
		`{"capability_text":["x"]}`:                       "capability_text",
	} {
		w := h.ask("POST", "/v1/admin/vacants/parent/graduation-signature", body)
		if got := decode[httpapi.Refusal](t, w); got.Code != problem.Malformed.String() || got.Field != field {
			t.Errorf("POST graduation-signature %s = %d %+v, want %q refused", body, w.Code, got, field)
		}
	}
}

// oneAttempt is a gate with one attempt, and it stores policies.
type oneAttempt struct {
	attempt  graduation.Status
	policies map[string]gate.Policy
}

func (o *oneAttempt) Status(_ context.Context, child identity.ID, position uint64) (graduation.Status, error) {
	if child != o.attempt.Child || position != o.attempt.Position {
		return graduation.Status{}, problem.New(problem.NotFound, "graduation is not known")
	}
	return o.attempt, nil
}

func (o *oneAttempt) Latest(_ context.Context, child identity.ID) (graduation.Status, bool, error) {
	if child != o.attempt.Child {
		return graduation.Status{}, false, nil
	}
	return o.attempt, true, nil
}

func (o *oneAttempt) Policy(_ context.Context, tenant string) (gate.Policy, string, error) {
	if p, ok := o.policies[tenant]; ok {
		return p, graduation.PolicyFromTenant, nil
	}
	return gate.DefaultPolicy(), graduation.PolicyFromDefault, nil
}

func (o *oneAttempt) SetPolicy(_ context.Context, tenant string, p gate.Policy) error {
	o.policies[tenant] = p
	return nil
}

func TestGraduationStatusHasItsEvidence(t *testing.T) {
	child := identity.ID{7}
	refused := graduation.Status{
		Attempt: graduation.Attempt{ID: graduation.ID{Child: child, Position: 2}, Policy: gate.DefaultPolicy(), StartedAt: at, DueAt: at.Add(time.Minute)},
		Phase:   graduation.Refused, Step: gate.StepCollusion, DecidedAt: at,
		Refusal:  &graduation.Refusal{Error: "GraduationCollusionError", Kind: problem.CollusionFound.String(), Detail: "too alike", Step: gate.StepCollusion},
		Findings: &gate.Findings{Policy: gate.DefaultPolicy(), PairFindings: []gate.Finding{{Role: gate.RoleParent, Signals: []gate.Signal{{Name: gate.Style, State: gate.SignalObserved, Strength: 0.9, CanRefuse: true}}}}},
	}
	h := newTestServer(t, func(c *admin.Config) { c.Gate = &oneAttempt{attempt: refused} })
	c := client(t, h)
	want := refused.View()
	for _, position := range []uint64{0, 2} {
		got, err := admin.GetGraduation.Call(t.Context(), c, admin.AttemptRef{VacantRef: admin.VacantRef{Vacant: child.String()}, Position: position})
		if err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("Graduation(%d) = %v (-want +got):\n%s", position, err, cmp.Diff(want, got))
		}
	}
	create(t, h, "other")
	for _, path := range []string{child.String() + "/graduation?position=1", "other/graduation", "nobody/graduation"} {
		wantRefusal(t, h.ask("GET", "/v1/admin/vacants/"+path, ""), problem.NotFound, "")
	}
	wantRefusal(t, h.ask("GET", "/v1/admin/vacants/other/graduation?position=-1", ""), problem.Malformed, "position")
	none := newTestServer(t)
	for _, path := range []string{"/v1/admin/vacants/other/graduation", "/v1/admin/gate", "/v1/admin/vacants/other/children"} {
		if w := none.ask("GET", path, ""); w.Code != 404 {
			t.Errorf("GET %s where there is no gate = %d, want 404", path, w.Code)
		}
	}
}

func TestThePolicyOfTheGateIsShownAndSet(t *testing.T) {
	h := newTestServer(t, func(c *admin.Config) { c.Gate = &oneAttempt{policies: map[string]gate.Policy{}} })
	c := client(t, h)
	got, err := admin.GetGate.Call(t.Context(), c, admin.TenantRef{Tenant: ""})
	if err != nil || got.Source != graduation.PolicyFromDefault || got.Policy != gate.DefaultPolicy() {
		t.Errorf("Gate() = %+v, %v, want the default", got, err)
	}
	strict := gate.DefaultPolicy()
	strict.Mode, strict.DailyLimit = gate.ModeStrict, 1
	if got, err = admin.SetGate.Call(t.Context(), c, admin.TenantRequest[op.Raw[gate.Policy]]{TenantRef: admin.TenantRef{Tenant: "a & b"}, Body: op.EncodeRaw(strict)}); err != nil || got.Policy != strict || got.Tenant != "a & b" {
		t.Errorf("SetGate() = %+v, %v, want %+v", got, err, strict)
	}
	if got, err = admin.GetGate.Call(t.Context(), c, admin.TenantRef{Tenant: ""}); err != nil || got.Policy != gate.DefaultPolicy() {
		t.Errorf("Gate() of the host = %+v, %v, want the default still", got, err)
	}
	for _, body := range []string{`{"limit":0}`, `{"threshold":1.5}`, `{"detector":"none"}`, `{"mode":"lax"}`, `{"limits":3}`, `{"limit":`, `7`} {
		if w := h.ask("PUT", "/v1/admin/gate", body); w.Code != 400 && w.Code != 422 {
			t.Errorf("PUT gate %s = %d %s, want a refusal", body, w.Code, w.Body)
		}
	}
}

// A request is parsed from a whole body or refused.
func FuzzASpawnIsReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"name":"x","path":"D2","tools":["a"]}`))
	f.Add([]byte(`{"name":"x","path":"D4","with":"y","reach":"parent-bridged"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		spawnRequest, err := admin.ReadSpawning(body)
		if err != nil && !problem.Is(err, problem.Malformed) && !problem.Is(err, problem.NotJSON) && !problem.Is(err, problem.TooLarge) {
			t.Errorf("ReadSpawning(%q) = %v, want a refusal of the input", body, err)
		}
		if err == nil && !json.Valid(body) {
			t.Errorf("ReadSpawning(%q) = %+v of what is no JSON", body, spawnRequest)
		}
	})
}
