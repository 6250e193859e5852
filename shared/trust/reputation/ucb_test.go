package reputation

import (
	ordered "cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type ucbVacant struct {
	ID         string  `json:"vacant_id"`
	Text       string  `json:"capability_text"`
	State      string  `json:"state"`
	Level      string  `json:"attestation_level"`
	Stake      float64 `json:"stake_amount"`
	Reputation State   `json:"reputation"`
}

type ucbVector struct {
	Name  string
	Input struct {
		Reputation  State
		Weights     map[string]float64
		Known       int     `json:"n_global"`
		Stake       float64 `json:"stake_amount"`
		Level       string  `json:"attestation_level"`
		Portability float64 `json:"portability_bonus"`
		Vacants     []ucbVacant
		Query       string
		N           int
	}
	Expect struct {
		UCB     float64 `json:"ucb_score"`
		Call    float64 `json:"call_score"`
		Message string
		Ranked  [][2]any
		Scores  map[string]struct{ FLR, All, Empty float64 }
		Winner  *string `json:"dispatch_winner"`
	}
}

func weights(named map[string]float64) Weights {
	w := Weights{}
	for name, v := range named {
		// The reference gives unknown names the weight 0.
		if i := slices.Index(dimensionNames[:], name); i >= 0 {
			w[Dimension(i)] = v
		}
	}
	return w
}

func TestScoresAreTheReferences(t *testing.T) {
	for _, v := range load[ucbVector](t, "ucb.json", 75) {
		if v.Input.Vacants != nil {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			level, err := ParseLevel(v.Input.Level)
			if err != nil {
				t.Fatal(err)
			}
			w := weights(v.Input.Weights)
			got, err := UCB(&v.Input.Reputation, w, v.Input.Known)
			call, callErr := CallScore(&v.Input.Reputation, w, v.Input.Known, Standing{level, v.Input.Stake, v.Input.Portability})
			if v.Expect.Message != "" {
				if problem.AsError(err).Text() != v.Expect.Message || problem.AsError(callErr).Text() != v.Expect.Message {
					t.Errorf("UCB(), CallScore() = %v, %v, want %s", err, callErr, v.Expect.Message)
				}
				return
			}
			if diff := cmp.Diff([]float64{v.Expect.UCB, v.Expect.Call}, []float64{got, call}, near); err != nil || callErr != nil || diff != "" {
				t.Errorf("UCB(), CallScore(): %v, %v (-want +got):\n%s", err, callErr, diff)
			}
		})
	}
}

func TestTheOrderOfChoiceIsTheReferences(t *testing.T) {
	for _, v := range load[ucbVector](t, "ucb.json", 75) {
		if v.Input.Vacants == nil {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			var ranked [][2]any
			winner, best := "", math.Inf(-1)
			for _, one := range v.Input.Vacants {
				s := &one.Reputation
				got := []float64{s.Score(SearchDimensions()...), s.Score(Dimensions()...), s.Score()}
				want := v.Expect.Scores[one.ID]
				if diff := cmp.Diff([]float64{want.FLR, want.All, want.Empty}, got, near); diff != "" {
					t.Errorf("Score() of %s (-want +got):\n%s", one.ID, diff)
				}
				if got[1] > best {
					winner, best = one.ID, got[1]
				}
				if (one.State == "ACTIVE" || one.State == "LOCAL") && strings.Contains(one.Text, v.Input.Query) {
					level, err := ParseLevel(one.Level)
					if err != nil {
						t.Fatal(err)
					}
					score, err := CallScore(s, nil, len(v.Input.Vacants), Standing{Level: level, Stake: one.Stake})
					if err != nil {
						t.Fatal(err)
					}
					ranked = append(ranked, [2]any{one.ID, score})
				}
			}
			slices.SortStableFunc(ranked, func(a, b [2]any) int { return ordered.Compare(b[1].(float64), a[1].(float64)) })
			if diff := cmp.Diff(v.Expect.Ranked, ranked[:min(len(ranked), v.Input.N)], near); diff != "" && len(ranked) > 0 {
				t.Errorf("order (-want +got):\n%s", diff)
			}
			if v.Expect.Winner == nil || winner != *v.Expect.Winner {
				t.Errorf("winner = %s, want %v", winner, v.Expect.Winner)
			}
		})
	}
}

// reviewed returns a state with n reviews of the same signal in each of dims.
func reviewed(t *testing.T, n, signal float64, dims ...Dimension) *State {
	t.Helper()
	at := time.Unix(1_700_000_000, 0)
	s := NewState(at)
	for _, d := range dims {
		var err error
		if s, err = s.Update(d, signal, n, at); err != nil {
			t.Fatal(err)
		}
	}
	return &s
}

func tamed(t *testing.T, s *State, known int) float64 {
	t.Helper()
	got, err := CappedUCB(s, nil, known)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestTamedLetsAProvenVacantWin(t *testing.T) {
	flr := SearchDimensions()
	for _, known := range []int{0, 2, 20, 100} {
		t.Run(fmt.Sprintf("among %d", known), func(t *testing.T) {
			order := []*State{
				reviewed(t, 100, 0.95, flr...),
				reviewed(t, 100, 0.8, flr...),
				nil,
				reviewed(t, 100, 0.7, flr...),
				reviewed(t, 100, 0.2, Dimensions()...),
			}
			scores := make([]float64, len(order))
			for i, s := range order {
				scores[i] = tamed(t, s, known)
			}
			if known == 100 && !slices.IsSortedFunc(scores, func(a, b float64) int { return ordered.Compare(b, a) }) {
				t.Errorf("Tamed() = %v, want the proven before the untried before the mediocre", scores)
			}
			if scores[0] < scores[2] || scores[4] > scores[2] {
				t.Errorf("Tamed() = %v, want 0.95 before the untried before 0.2", scores)
			}
			plain, err := UCB(order[0], nil, max(known, 2))
			if err != nil || plain < 10 {
				t.Fatalf("UCB() = %v, %v: has the reference's no explosion any more?", plain, err)
			}
		})
	}
}

func TestTamedHasNoTopTierForTheUntried(t *testing.T) {
	for _, known := range []int{2, 1_000_000} {
		most := tamed(t, nil, known)
		if most > 1 {
			t.Errorf("Tamed(untried, %d) = %v, want at most 1", known, most)
		}
		trace := tamed(t, reviewed(t, 0.001, 0.5, Factual), known)
		whole := tamed(t, reviewed(t, 1, 0.5, Factual), known)
		if trace-whole > 0.1 {
			t.Errorf("Tamed() of a trace of evidence = %v, of one review %v: want hardly more", trace, whole)
		}
	}
}

func TestTamedOfAnUntouchedStateIsThatOfNone(t *testing.T) {
	s := NewState(time.Unix(1_700_000_000, 0))
	if a, b := tamed(t, &s, 50), tamed(t, nil, 50); a != b {
		t.Errorf("Tamed() = %v, want %v", a, b)
	}
	if _, err := CappedUCB(nil, Weights{Honesty: -1}, 2); !problem.Is(err, problem.Malformed) {
		t.Errorf("Tamed() of a negative weight = %v, want %v", err, problem.Malformed)
	}
	if _, err := UCB(&s, Weights{Honesty: math.NaN()}, 2); !problem.Is(err, problem.Malformed) {
		t.Errorf("UCB() of a weight that is no number = %v, want %v", err, problem.Malformed)
	}
}

func TestALevelIsOneOfFour(t *testing.T) {
	for _, s := range []string{"", "L", "L4", "l1", "L10", "L/"} {
		if got, err := ParseLevel(s); !problem.Is(err, problem.Malformed) {
			t.Errorf("ParseLevel(%q) = %v, %v, want %v", s, got, err, problem.Malformed)
		}
	}
	if _, err := CallScore(&State{}, nil, 2, Standing{Stake: -1}); !problem.Is(err, problem.Malformed) {
		t.Errorf("CallScore() of a negative stake = %v, want %v", err, problem.Malformed)
	}
}
