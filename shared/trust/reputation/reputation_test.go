package reputation

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func load[T any](t testing.TB, file string, want int) []T {
	t.Helper()
	b, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var v struct{ Cases []T }
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Cases) != want {
		t.Fatalf("%s has %d cases, want %d", file, len(v.Cases), want)
	}
	return v.Cases
}

// near compares numbers with the tolerance of the vectors.
var near = cmpopts.EquateApprox(1e-9, 1e-12)

func instant(seconds float64) time.Time { return time.UnixMicro(int64(math.Round(seconds * 1e6))) }

// outcome is either a posterior with its derived values or the message of an error.
type outcome struct {
	Posterior
	Mean, Variance float64
	Message        string
}

func dimension(t *testing.T, name string) Dimension {
	t.Helper()
	i := slices.Index(dimensionNames[:], name)
	if i < 0 {
		t.Fatalf("the vectors have the dimension %q", name)
	}
	return Dimension(i)
}

func outcomeOf(p Posterior) outcome {
	return outcome{Posterior: p, Mean: p.Mean(), Variance: p.Variance()}
}

func TestPosteriorsMoveAndFadeAsTheReferences(t *testing.T) {
	type vector struct {
		Name  string
		Input struct {
			Dim     string
			StartTS float64 `json:"start_ts"`
			Updates []struct{ Signal, Weight, TS float64 }
			DecayTo float64 `json:"decay_to"`
		}
		Expect struct {
			After   []outcome
			Decayed outcome
		}
	}
	for _, v := range load[vector](t, "posterior.json", 110) {
		t.Run(v.Name, func(t *testing.T) {
			d := dimension(t, v.Input.Dim)
			s := NewState(instant(v.Input.StartTS))
			var got []outcome
			for _, u := range v.Input.Updates {
				next, err := s.Update(d, u.Signal, u.Weight, instant(u.TS))
				if err != nil {
					if next != s {
						t.Fatal("Update() changed a state that it refused to")
					}
					got = append(got, outcome{Message: problem.AsError(err).Text()})
					continue
				}
				s = next
				got = append(got, outcomeOf(s.Posterior(d)))
			}
			if diff := cmp.Diff(v.Expect.After, got, near, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Update() (-want +got):\n%s", diff)
			}
			faded := s.Decay(instant(v.Input.DecayTo))
			if diff := cmp.Diff(v.Expect.Decayed, outcomeOf(faded.Posterior(d)), near); diff != "" {
				t.Errorf("Decay() (-want +got):\n%s", diff)
			}
			if err := faded.Check(); err != nil {
				t.Errorf("Check() = %v, want nil", err)
			}
		})
	}
}

func TestInvalidSignalIsRefused(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	s := NewState(at)
	for name, c := range map[string]struct {
		dim            Dimension
		signal, weight float64
	}{
		"a signal that is no number":  {Factual, math.NaN(), 1},
		"a weight that is no number":  {Factual, 1, math.NaN()},
		"an endless weight":           {Factual, 1, math.Inf(1)},
		"a dimension that is no such": {Dimension(5), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.Update(c.dim, c.signal, c.weight, at)
			if !problem.Is(err, problem.Malformed) || got != s {
				t.Errorf("Update() = %v, want a refusal that changes nothing", err)
			}
		})
	}
}

func TestAStateThatNoReviewsMakeIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Posterior){
		"no number":            func(p *Posterior) { p.Alpha = math.NaN() },
		"endless evidence":     func(p *Posterior) { p.Evidence = math.Inf(1) },
		"below the prior":      func(p *Posterior) { p.Beta = -0.5 },
		"a prior of nothing":   func(p *Posterior) { p.Alpha0 = 0 },
		"negative evidence":    func(p *Posterior) { p.Evidence = -1 },
		"a half-life of zero":  func(p *Posterior) { p.HalfLifeDays = 0 },
		"a time that is none":  func(p *Posterior) { p.UpdatedUnix = math.Inf(-1) },
		"an endless half-life": func(p *Posterior) { p.HalfLifeDays = math.Inf(1) },
	} {
		t.Run(name, func(t *testing.T) {
			s := NewState(time.Unix(1_700_000_000, 0))
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			spoil(&s.Honesty)
			if err := s.Check(); !problem.Is(err, problem.Malformed) {
				t.Errorf("Check() = %v, want %v", err, problem.Malformed)
			}
		})
	}
	var empty State
	if err := empty.Check(); err == nil {
		t.Error("Check() of an empty state = nil, want a refusal")
	}
}

func TestAStateKeepsTheNamesOfTheReference(t *testing.T) {
	s := NewState(time.UnixMicro(1_700_000_000_250_000))
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]map[string]float64
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"alpha": 2, "beta": 1, "alpha0": 2, "beta0": 1, "n_eff": 0, "last_update_ts": 1_700_000_000.25, "half_life_days": 30}
	if diff := cmp.Diff(want, got["honesty"]); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	var back State
	if err := json.Unmarshal(b, &back); err != nil || back != s {
		t.Errorf("the state read again = %v, %v, want %v", back, err, s)
	}
}

func TestUnreviewedVacantScoresZero(t *testing.T) {
	var none *State
	prior := NewState(time.Unix(1_700_000_000, 0))
	if a, b := none.Score(), prior.Score(SearchDimensions()...); a != 0 || b != 0 {
		t.Errorf("Score() = %v and %v, want 0", a, b)
	}
	one, err := prior.Update(Adoption, 1, 1, time.Unix(1_700_000_000, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got := one.Score(SearchDimensions()...); got != 0.5 {
		t.Errorf("Score() = %v, want that of the priors, 0.5", got)
	}
}
