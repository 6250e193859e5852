package reputation

import (
	"fmt"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Weights are the relative weights of the dimensions. If Weights is nil or all weights are zero,
// all dimensions have the same weight.
type Weights map[Dimension]float64

func (w Weights) normalize() ([dimensionCount]float64, error) {
	var normalized [dimensionCount]float64
	var sum float64
	for _, d := range Dimensions() {
		v := w[d]
		if !(v >= 0) || math.IsInf(v, 1) {
			return normalized, problem.New(problem.Malformed, "weight for %s must be >= 0; got %s", d, formatFloat(v))
		}
		normalized[d] = v
		sum += v
	}
	for d := range normalized {
		if sum == 0 {
			normalized[d] = 1.0 / dimensionCount
		} else {
			normalized[d] /= sum
		}
	}
	return normalized, nil
}

const (
	deviationWeight      = 1.0   // weight of the standard deviation
	explorationWeight    = 0.5   // weight of the exploration term
	negligibleWeight     = 0.05  // dimensions up to this weight do not affect the combined evidence
	minDimensionEvidence = 1e-6  // lower bound of a dimension's evidence
	minEvidence          = 0.001 // lower bound of the combined evidence
)

func combinePosteriors(s *State, w [dimensionCount]float64) (mean, deviation float64) {
	for _, d := range Dimensions() {
		p := s.Posterior(d)
		mean += w[d] * p.Mean()
		deviation += w[d] * w[d] * p.Variance()
	}
	return mean, math.Sqrt(deviation)
}

func combineEvidence(s *State, w [dimensionCount]float64) float64 {
	var n, inverseSum float64
	for _, d := range Dimensions() {
		if w[d] > negligibleWeight {
			n++
			inverseSum += 1 / math.Max(s.Posterior(d).Evidence, minDimensionEvidence)
		}
	}
	return n / inverseSum
}

func explorationBonus(n float64, vacantCount int) float64 {
	return explorationWeight * math.Sqrt(math.Log(math.Max(float64(vacantCount), 2))/n)
}

// UCB returns the upper confidence bound of the reference: the sum of the mean, the uncertainty of
// the mean, and an exploration bonus, which is larger for more vacants and for less evidence. If
// one weighted dimension has no evidence, the bonus is 13.2 for two vacants and 22 for seven,
// although means are at most 1. A vacant without evidence in one dimension then beats all vacants
// with reviews in all dimensions. To choose a vacant, use [CappedUCB].
func UCB(s *State, w Weights, vacantCount int) (float64, error) {
	weights, err := w.normalize()
	if err != nil {
		return 0, err
	}
	mean, deviation := combinePosteriors(s, weights)
	n := math.Max(combineEvidence(s, weights), minEvidence)
	return mean + deviationWeight*deviation + explorationBonus(n, vacantCount), nil
}

// MaxExploration limits the exploration bonus of CappedUCB. A vacant without reviews then scores
// 0.85 and gets its first calls. Among a hundred vacants, it beats a vacant with 100 reviews and a
// mean of 0.7, but not one with 100 reviews and a mean of 0.8. A bonus without a limit would grow
// with the number of vacants, so the party that creates the most vacants would win.
const MaxExploration = 0.25

// CappedUCB computes UCB with three changes:
//
//   - Dimensions without evidence are ignored. One such dimension would dominate the bonus of UCB,
//     and nearly all vacants lack evidence in adoption. If all dimensions lack evidence, all of
//     them are used with their priors.
//   - The exploration bonus is computed from [State.Evidence], like EarnedScore. Evidence below 1 is
//     raised to 1, so that a trace of evidence does not earn a larger bonus than a complete review.
//   - The exploration bonus is at most MaxExploration.
//
// If s is nil, the vacant has no reviews.
func CappedUCB(s *State, w Weights, vacantCount int) (float64, error) {
	weights, err := w.normalize()
	if err != nil {
		return 0, err
	}
	if s == nil {
		s = priorState()
	}
	weightsWithEvidence := make(Weights, dimensionCount)
	for _, d := range Dimensions() {
		if s.Posterior(d).Evidence > 0 && weights[d] > 0 {
			weightsWithEvidence[d] = weights[d]
		}
	}
	if len(weightsWithEvidence) > 0 {
		if weights, err = weightsWithEvidence.normalize(); err != nil {
			return 0, err
		}
	}
	mean, deviation := combinePosteriors(s, weights)
	return mean + deviationWeight*deviation + s.CappedExploration(vacantCount), nil
}

func (s *State) CappedExploration(vacantCount int) float64 {
	return math.Min(explorationBonus(math.Max(s.Evidence(), 1), vacantCount), MaxExploration)
}

func priorState() *State {
	var s State
	for _, d := range Dimensions() {
		p := priors[d]
		*s.posteriorPtr(d) = Posterior{Alpha: p.alpha, Beta: p.beta, Alpha0: p.alpha, Beta0: p.beta, HalfLifeDays: p.halfLife}
	}
	return &s
}

// Level is a vacant's attestation level, L0 to L3.
type Level uint8

func ParseLevel(s string) (Level, error) {
	if len(s) != 2 || s[0] != 'L' || s[1] < '0' || s[1] > '3' {
		return 0, problem.Invalid("attestation_level", "L0, L1, L2 or L3", fmt.Sprintf("%.40q", s))
	}
	return Level(s[1] - '0'), nil
}

// Standing contains the facts about a vacant, other than its reviews, that raise its CallScore.
type Standing struct {
	Level       Level
	Stake       float64
	Portability float64 // the reference's portability_bonus, which the caller computes
}

// maxPortability limits the part of Portability that CallScore adds.
const maxPortability = 0.10

// CallScore returns UCB plus a bonus for the vacant's standing. The reference ranks candidates by
// this score.
func CallScore(s *State, w Weights, vacantCount int, standing Standing) (float64, error) {
	score, err := UCB(s, w, vacantCount)
	if err != nil {
		return 0, err
	}
	if !(standing.Stake >= 0) {
		return 0, problem.Invalid("stake_amount", "0 or more", formatFloat(standing.Stake))
	}
	return score + 0.1*math.Log1p(standing.Stake/100) + 0.05*float64(standing.Level) + math.Min(standing.Portability, maxPortability), nil
}
