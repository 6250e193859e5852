package graduation_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// given is a detector that returns three given strengths.
type given struct{ controller, substrate, stylo float64 }

func (g given) Detect(e gate.Evidence, p gate.Policy) (gate.Findings, error) {
	return gate.FindingsFromStrengths(p, e.Parent, g.controller, g.substrate, g.stylo), nil
}

type manifestVector struct {
	ParentID     identity.ID              `json:"parent_id"`
	ChildID      identity.ID              `json:"child_id"`
	BirthPath    composite.BirthPath      `json:"birth_path"`
	Closed       bool                     `json:"closed_by_default"`
	Inherited    []string                 `json:"tool_whitelist_inherited"`
	Added        []string                 `json:"tool_whitelist_added"`
	Removed      []string                 `json:"tool_whitelist_removed"`
	Reachability composite.Reachability   `json:"endpoint_reachability"`
	Outbound     composite.OutboundPolicy `json:"outbound_policy"`
	Schema       composite.SchemaVersion  `json:"schema_version"`
	Parent       string                   `json:"signature_parent"`
	Child        string                   `json:"signature_child"`
}

func (m *manifestVector) manifest(t testing.TB) composite.Manifest {
	t.Helper()
	return composite.Manifest{
		ParentID: m.ParentID, ChildID: m.ChildID, BirthPath: m.BirthPath, ClosedByDefault: m.Closed,
		InheritedTools: m.Inherited, AddedTools: m.Added, RemovedTools: m.Removed, Reachability: m.Reachability, OutboundPolicy: m.Outbound,
		SchemaVersion: m.Schema, SignatureParent: unhex(t, m.Parent), SignatureChild: unhex(t, m.Child),
	}
}

type graduationVector struct {
	Name  string
	Input struct {
		ParentSeed string `json:"parent_seed"`
		ChildSeed  string `json:"child_seed"`
		Manifest   manifestVector
		Request    struct {
			ParentID   identity.ID `json:"parent_id"`
			ChildID    identity.ID `json:"child_id"`
			Capability string      `json:"capability_text"`
			Parent     string      `json:"parent_signature"`
			Child      string      `json:"child_signature"`
		}
		Signals struct {
			Controller float64 `json:"same_controller"`
			Substrate  float64 `json:"same_substrate"`
			Stylo      float64 `json:"same_stylo"`
		}
		Now time.Time
	}
	Expect struct {
		Manifest *manifestVector
		Log      []struct {
			Kind    string
			Payload map[string]string
		} `json:"parent_log"`
		Refused, Message string
	}
}

func vectors[T any](t testing.TB, name string) []T {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	must(t, err)
	var file struct{ Cases []T }
	must(t, json.Unmarshal(data, &file))
	return file.Cases
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

// adopt hosts a vacant with the key of a seed.
func (h *fixture) adopt(t testing.TB, seed string) identity.ID {
	t.Helper()
	key, err := identity.KeyFromSeed(unhex(t, seed))
	must(t, err)
	r, err := h.vacants.Create(t.Context(), vacants.CreateSpec{Name: fmt.Sprintf("vacant-%d", h.made.Add(1)), Capability: "says what it hears", Substrate: "echo", Key: key})
	must(t, err)
	return r.ID
}

func TestTheVectorsOfGraduationHoldAtAHost(t *testing.T) {
	for _, v := range vectors[graduationVector](t, "graduation.json") {
		t.Run(v.Name, func(t *testing.T) {
			in, s := &v.Input, &v.Input.Signals
			h := newFixture(t, func(c *graduation.Config) { c.Detector = given{s.Controller, s.Substrate, s.Stylo} })
			h.clock.Advance(in.Now.Sub(h.clock.NowFunc(0)()))
			h.adopt(t, in.ParentSeed)
			h.adopt(t, in.ChildSeed)
			must(t, h.vacants.StoreManifest(t.Context(), in.Manifest.manifest(t)))
			sub := graduation.Submission{Request: composite.GraduationRequest{
				ParentID: in.Request.ParentID, ChildID: in.Request.ChildID, CapabilityText: in.Request.Capability,
				SignatureParent: unhex(t, in.Request.Parent), SignatureChild: unhex(t, in.Request.Child),
			}}
			st, err := h.gate.Submit(t.Context(), sub)
			class, message := outcome(&st, err)
			if v.Expect.Refused == "" && sub.CheckCapability() != nil {
				// The reference accepts any text. These texts cannot be in a card.
				if st.Phase != graduation.Failed || st.Step != gate.StepCommit || st.Refusal.Kind != problem.Malformed.String() {
					t.Errorf("Submit() = %+v, %v, want failed at commit", st.View(), err)
				}
				return
			}
			if class != v.Expect.Refused || message != v.Expect.Message {
				t.Fatalf("Submit() = %s, %s, want %s, %s", class, message, v.Expect.Refused, v.Expect.Message)
			}
			if class == "" {
				h.wantGraduated(t, &v, &st)
			}
		})
	}
}

// outcome is the class and the text of a refusal from either implementation.
func outcome(st *graduation.Status, err error) (class, message string) {
	switch {
	case err != nil:
		return gate.ErrorName(problem.AsError(err).Kind), problem.AsError(err).Text()
	case st.Refusal != nil:
		return st.Refusal.Error, st.Refusal.Detail
	}
	return "", ""
}

func (h *fixture) wantGraduated(t *testing.T, v *graduationVector, st *graduation.Status) {
	t.Helper()
	got, err := composite.ParseManifest(st.Outcome.Manifest)
	must(t, err)
	want := v.Expect.Manifest.manifest(t)
	if v.Input.Manifest.Schema == composite.SchemaV1 {
		// In version 1 the axis is not signed, so it cannot be copied.
		want.OutboundPolicy = composite.NoExternal
		must(t, h.vacants.WithSigner(t.Context(), want.ParentID, func(s identity.Signer) error { return want.SignParent(t.Context(), s) }))
		must(t, h.vacants.WithSigner(t.Context(), want.ChildID, func(s identity.Signer) error { return want.SignChild(t.Context(), s) }))
	}
	sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff(want, got, sorted, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Submit() makes the manifest (-want +got):\n%s", diff)
	}
	for _, id := range []identity.ID{st.Request.ParentID, st.Child} {
		tip, err := h.sound.Tip(t.Context(), store.StreamOf(store.KindLogbook, id))
		must(t, err)
		var e logbook.Entry
		must(t, e.UnmarshalBinary(tip.Data))
		var payload map[string]string
		must(t, json.Unmarshal(e.Payload, &payload))
		if diff := cmp.Diff(v.Expect.Log[0].Payload, payload); diff != "" || e.Kind != v.Expect.Log[0].Kind {
			t.Errorf("Submit() writes %s (-want +got):\n%s", e.Kind, diff)
		}
	}
}

type rateVector struct {
	Name  string
	Input struct {
		ParentID identity.ID `json:"parent_id"`
		Limit    int
	}
	Expect struct {
		Steps []struct {
			TS                         float64
			Consent, Accepted          bool
			Refused, Message, Reviewer string
		}
	}
}

func TestTheVectorsOfTheRateLimitHoldAtAHost(t *testing.T) {
	var nobody identity.ID
	for _, v := range vectors[rateVector](t, "rate_limit.json") {
		if v.Input.ParentID == nobody {
			continue // of reviews
		}
		t.Run(v.Name, func(t *testing.T) {
			h := newFixture(t)
			h.clock.Advance(time.Unix(1_000_000, 0).Sub(h.clock.NowFunc(0)()))
			p := gate.DefaultPolicy()
			p.DailyLimit = v.Input.Limit
			must(t, h.gate.SetPolicy(t.Context(), "", p))
			parent := h.vacant(t)
			children := h.children(t, parent, len(v.Expect.Steps))
			for i, step := range v.Expect.Steps {
				whole, part := math.Modf(step.TS)
				h.clock.Advance(time.Unix(int64(whole), int64(part*1e9)).Sub(h.clock.NowFunc(0)()))
				sub := h.request(t, parent, children[i], "drafts contracts")
				if !step.Consent {
					sub.Request.SignatureChild = nil
				}
				st, err := h.gate.Submit(t.Context(), sub)
				class, message := outcome(&st, err)
				want := anonymous(step.Message, v.Input.ParentID)
				if got := anonymous(message, parent); class != step.Refused || got != want || step.Accepted != (st.Phase == graduation.Accepted) {
					t.Fatalf("step %d: Submit() = %s, %s, want %s, %s", i, class, got, step.Refused, want)
				}
			}
		})
	}
}
