package collusion_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/collusion"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type said struct {
	Strength  float64
	Fires     bool
	Rationale string
	Error     string
	Message   string
}

type vector struct {
	Name  string
	Input struct {
		A, B       identity.ID
		Declared   bool      `json:"declared_same"`
		Ancestor   bool      `json:"common_ancestor"`
		HeartbeatA []float64 `json:"heartbeat_a"`
		HeartbeatB []float64 `json:"heartbeat_b"`
		BehaviourA []float64 `json:"behavior_a"`
		BehaviourB []float64 `json:"behavior_b"`
		FamilyA    string    `json:"family_a"`
		FamilyB    string    `json:"family_b"`
		EmbeddingA []float64 `json:"embedding_a"`
		EmbeddingB []float64 `json:"embedding_b"`
	}
	Expect struct {
		Controller said `json:"same_controller"`
		Substrate  said `json:"same_substrate"`
		Stylo      said `json:"same_stylo"`
		Max        *float64
		Refused    *bool    `json:"graduation_refused"`
		Discount   *float64 `json:"review_discount"`
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) }

func TestDetectorsSayWhatTheReferencesSay(t *testing.T) {
	data, err := os.ReadFile("testdata/collusion.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []vector }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 110 {
		t.Fatalf("collusion.json has %d cases, want 110", len(file.Cases))
	}
	for _, v := range file.Cases {
		t.Run(v.Name, func(t *testing.T) {
			in := v.Input
			controller, controllerErr := sameController(in.A, in.B, controllerEvidence{
				Declared: in.Declared, Ancestor: in.Ancestor, ActivityA: in.HeartbeatA, ActivityB: in.HeartbeatB,
				BehaviourA: in.BehaviourA, BehaviourB: in.BehaviourB})
			compare(t, "SameController", controller, controllerErr, v.Expect.Controller)
			substrate := collusion.CompareSubstrates(in.A, in.B, in.FamilyA, in.FamilyB)
			compare(t, "CompareSubstrates", substrate, nil, v.Expect.Substrate)
			stylo, styloErr := sameStylo(in.A, in.B, in.EmbeddingA, in.EmbeddingB)
			compare(t, "SameStylo", stylo, styloErr, v.Expect.Stylo)
			if v.Expect.Max == nil {
				return
			}
			strongest := max(controller.Strength, substrate.Strength, stylo.Strength)
			if !near(strongest, *v.Expect.Max) || (strongest >= 0.6) != *v.Expect.Refused {
				t.Errorf("max = %v, want %v, refused %v", strongest, *v.Expect.Max, *v.Expect.Refused)
			}
			if got := discount(controller, substrate, stylo); !near(got, *v.Expect.Discount) {
				t.Errorf("Discount() = %v, want %v", got, *v.Expect.Discount)
			}
		})
	}
}

func compare(t *testing.T, op string, got collusion.Signal, err error, want said) {
	t.Helper()
	if want.Error != "" {
		if !problem.Is(err, problem.Damaged) || problem.AsError(err).Text() != want.Message {
			t.Errorf("%s() = %v, want %s", op, err, want.Message)
		}
		return
	}
	if err != nil || !near(got.Strength, want.Strength) || (got.Strength > 0) != want.Fires || got.Reason != want.Rationale {
		t.Errorf("%s() = %+v, %v, want %+v", op, got, err, want)
	}
}

func TestTheReferencePointsOfTheRamp(t *testing.T) {
	for _, c := range []struct{ v, threshold, want float64 }{
		{0.75, 0.70, 1.0 / 6}, {0.85, 0.70, 0.5}, {0.88, 0.70, 0.6}, {0.9, 0.70, 2.0 / 3}, {0.70, 0.70, 0}, {-1, 0.70, 0}, {1, 0.70, 1},
		{0.90, 0.88, 1.0 / 6}, {0.94, 0.88, 0.5}, {0.952, 0.88, 0.6}, {0.96, 0.88, 2.0 / 3}, {1 + 1e-12, 0.88, 1}, {2, 1, 1},
	} {
		if got := collusion.Strength(c.v, c.threshold); !near(got, c.want) {
			t.Errorf("Ramp(%v, %v) = %v, want %v", c.v, c.threshold, got, c.want)
		}
	}
}

func TestNonFiniteNumbersAreRefused(t *testing.T) {
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		x, y := []float64{1, bad}, []float64{1, 2}
		if got, err := collusion.Cosine(x, y); !problem.Is(err, problem.Damaged) || got != 0 {
			t.Errorf("Cosine(%v) = %v, %v, want a refusal", x, got, err)
		}
		if got, err := collusion.Pearson(y, x); !problem.Is(err, problem.Damaged) || got != 0 {
			t.Errorf("Pearson(%v) = %v, %v, want a refusal", x, got, err)
		}
	}
	huge := []float64{math.MaxFloat64, math.MaxFloat64}
	if got, err := collusion.Cosine(huge, huge); err == nil || got != 0 {
		t.Errorf("Cosine() that overflows = %v, %v, want a refusal", got, err)
	}
	if got, err := collusion.Pearson([]float64{-math.MaxFloat64, math.MaxFloat64}, []float64{1, 2}); err == nil || got != 0 {
		t.Errorf("Pearson() that overflows = %v, %v, want a refusal", got, err)
	}
}
