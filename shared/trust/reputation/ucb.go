package reputation

import (
	"fmt"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Weights say how much each dimension counts. Nil, and nothing but zeros, is
// all the same.
type Weights map[Dimension]float64

// normal is w made to sum to 1.
func (w Weights) normal() ([dimensions]float64, error) {
	var out [dimensions]float64
	var sum float64
	for _, d := range All() {
		v := w[d]
		if !(v >= 0) || math.IsInf(v, 1) {
			return out, problem.New(problem.Malformed, "weight for %s must be >= 0; got %s", d, number(v))
		}
		out[d] = v
		sum += v
	}
	for d := range out {
		if sum == 0 {
			out[d] = 1.0 / dimensions
		} else {
			out[d] /= sum
		}
	}
	return out, nil
}

const (
	exploit = 1.0   // of one standard deviation
	explore = 0.5   // of the exploration term
	counted = 0.05  // a dimension below this weight does not bound the evidence
	least   = 1e-6  // evidence of a dimension that has none
	floor   = 0.001 // evidence of them all together
)

// belief is the weighted mean and standard deviation of s.
func belief(s *State, w [dimensions]float64) (mean, deviation float64) {
	for _, d := range All() {
		p := s.In(d)
		mean += w[d] * p.Mean()
		deviation += w[d] * w[d] * p.Variance()
	}
	return mean, math.Sqrt(deviation)
}

// evidence is the harmonic mean of the evidence in the dimensions that count,
// none below min.
func evidence(s *State, w [dimensions]float64, min float64) float64 {
	var n, inverse float64
	for _, d := range All() {
		if w[d] > counted {
			n++
			inverse += 1 / math.Max(s.In(d).Evidence, min)
		}
	}
	return n / inverse
}

func exploration(n float64, known int) float64 {
	return explore * math.Sqrt(math.Log(math.Max(float64(known), 2))/n)
}

// UCB is the upper confidence bound of the reference: what is believed of a
// vacant, plus how unsure that is, plus a bonus for what is little tried among
// the known vacants. One weighted dimension without evidence makes that bonus
// so large (22 and more) that no proven vacant can win: choose by Tamed.
func UCB(s *State, w Weights, known int) (float64, error) {
	weights, err := w.normal()
	if err != nil {
		return 0, err
	}
	mean, deviation := belief(s, weights)
	n := math.Max(evidence(s, weights, least), floor)
	return mean + exploit*deviation + exploration(n, known), nil
}

// MaxExploration is the most that Tamed gives to a vacant for being untried.
// With it a vacant that nobody reviewed stands at 0.85: among a hundred it comes
// before those of 100 reviews at 0.7, which is how it gets its first calls, and
// after those of 100 at 0.8. Without it the bonus grows with the number of
// vacants, and whoever makes the most of them wins.
const MaxExploration = 0.25

// CappedUCB is UCB without its explosion:
//
//   - only dimensions with evidence are weighted (nearly nobody has any in
//     adoption, and one empty dimension bounds them all); without any evidence
//     they all are, at their priors
//   - a dimension counts as one review at least, so a trace of evidence is
//     worth no more exploration than a whole one
//   - the bonus for the untried is at most MaxExploration
//
// A nil state is one that nobody reviewed.
func CappedUCB(s *State, w Weights, known int) (float64, error) {
	weights, err := w.normal()
	if err != nil {
		return 0, err
	}
	if s == nil {
		s = unreviewed()
	}
	live := make(Weights, dimensions)
	for _, d := range All() {
		if s.In(d).Evidence > 0 && weights[d] > 0 {
			live[d] = weights[d]
		}
	}
	if len(live) > 0 {
		if weights, err = live.normal(); err != nil {
			return 0, err
		}
	}
	mean, deviation := belief(s, weights)
	n := evidence(s, weights, 1)
	return mean + exploit*deviation + math.Min(exploration(n, known), MaxExploration), nil
}

func unreviewed() *State {
	var s State
	for _, d := range All() {
		p := priors[d]
		*s.in(d) = Posterior{Alpha: p.alpha, Beta: p.beta, Alpha0: p.alpha, Beta0: p.beta, HalfLife: p.halfLife}
	}
	return &s
}

// Level is how well a vacant is attested.
type Level uint8

// ParseLevel reads L0 to L3.
func ParseLevel(s string) (Level, error) {
	if len(s) != 2 || s[0] != 'L' || s[1] < '0' || s[1] > '3' {
		return 0, problem.Invalid("attestation_level", "L0, L1, L2 or L3", fmt.Sprintf("%.40q", s))
	}
	return Level(s[1] - '0'), nil
}

// Standing is what backs a vacant beside its reviews.
type Standing struct {
	Level       Level
	Stake       float64
	Portability float64 // 0.10 at most counts
}

const maxPortability = 0.10

// CallScore is UCB with what backs the vacant: the reference's order of choice.
func CallScore(s *State, w Weights, known int, b Standing) (float64, error) {
	score, err := UCB(s, w, known)
	if err != nil {
		return 0, err
	}
	if !(b.Stake >= 0) {
		return 0, problem.Invalid("stake_amount", "0 or more", number(b.Stake))
	}
	return score + 0.1*math.Log1p(b.Stake/100) + 0.05*float64(b.Level) + math.Min(b.Portability, maxPortability), nil
}
