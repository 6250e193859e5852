package gate_test

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func load[C any](t *testing.T, name string, want int) []C {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []C }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != want {
		t.Fatalf("%s has %d cases, want %d", name, len(file.Cases), want)
	}
	return file.Cases
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type graduation struct {
	Name  string
	Input struct {
		Manifest *struct {
			ParentID identity.ID `json:"parent_id"`
			ChildID  identity.ID `json:"child_id"`
			Closed   bool        `json:"closed_by_default"`
		}
		Request struct {
			ParentID   identity.ID `json:"parent_id"`
			ChildID    identity.ID `json:"child_id"`
			Capability string      `json:"capability_text"`
			SigParent  string      `json:"parent_signature"`
			SigChild   string      `json:"child_signature"`
		}
		Signals struct {
			Controller float64 `json:"same_controller"`
			Substrate  float64 `json:"same_substrate"`
			Stylo      float64 `json:"same_stylo"`
		}
	}
	Expect struct{ Refused, Message string }
}

// walk runs the checks in the order of the steps.
func walk(r *composite.GraduationRequest, m *composite.Manifest, w gate.Window, now time.Time, p gate.Policy, f gate.Findings) error {
	if err := gate.CheckConsent(r, m); err != nil {
		return err
	}
	if err := gate.CheckRateLimit(r.ParentID, w, now, p); err != nil {
		return err
	}
	if err := gate.CheckStillClosed(m); err != nil {
		return err
	}
	return f.CheckCollusion()
}

func refusal(err error) (name, text string) {
	if err == nil {
		return "", ""
	}
	return gate.ErrorName(problem.AsError(err).Kind), problem.AsError(err).Text()
}

func TestTheGateRefusesWhatTheReferenceRefuses(t *testing.T) {
	for _, v := range load[graduation](t, "graduation.json", 40) {
		t.Run(v.Name, func(t *testing.T) {
			in := v.Input
			r := composite.GraduationRequest{ParentID: in.Request.ParentID, ChildID: in.Request.ChildID, CapabilityText: in.Request.Capability,
				SignatureParent: unhex(t, in.Request.SigParent), SignatureChild: unhex(t, in.Request.SigChild)}
			var m *composite.Manifest
			if in.Manifest != nil && !strings.HasPrefix(v.Name, "unknown child") {
				m = &composite.Manifest{ParentID: in.Manifest.ParentID, ChildID: in.Manifest.ChildID, ClosedByDefault: in.Manifest.Closed}
			}
			p := gate.DefaultPolicy()
			err := walk(&r, m, nil, time.Now(), p, gate.FindingsFromStrengths(p, r.ParentID, in.Signals.Controller, in.Signals.Substrate, in.Signals.Stylo))
			if name, text := refusal(err); name != v.Expect.Refused || text != v.Expect.Message {
				t.Errorf("walk() = %s %q, want %s %q", name, text, v.Expect.Refused, v.Expect.Message)
			}
		})
	}
}

type rates struct {
	Name  string
	Input struct {
		ParentID identity.ID `json:"parent_id"`
		Limit    int
	}
	Expect struct {
		Steps []struct {
			TS       float64
			Consent  bool
			Accepted bool
			Refused  string
			Message  string
		}
	}
}

func TestTheWindowOfAParentIsTheReferences(t *testing.T) {
	seen := 0
	for _, v := range load[rates](t, "rate_limit.json", 48) {
		if !strings.HasPrefix(v.Name, "graduations") {
			continue // the other vectors are about reviews
		}
		seen++
		t.Run(v.Name, func(t *testing.T) {
			p := gate.DefaultPolicy()
			p.DailyLimit = v.Input.Limit
			var w gate.Window
			for i, s := range v.Expect.Steps {
				now := time.UnixMicro(int64(math.Round(s.TS * 1e6)))
				err := error(nil)
				if !s.Consent {
					err = problem.New(problem.ConsentRequired, "graduation request signatures did not verify")
				} else if err = gate.CheckRateLimit(v.Input.ParentID, w, now, p); err == nil {
					w = w.Add(now)
				}
				if name, text := refusal(err); name != s.Refused || text != s.Message || s.Accepted != (err == nil) {
					t.Fatalf("attempt %d = %s %q, want %s %q", i, name, text, s.Refused, s.Message)
				}
				if err := w.Check(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if seen != 24 {
		t.Errorf("%d windows of graduations, want 24", seen)
	}
}
