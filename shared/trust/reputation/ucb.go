package reputation

import (
	"fmt"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Weights are relative weights. If all weights are zero, all dimensions have the same weight.
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
	deviationWeight      = 1.0
	explorationWeight    = 0.5
	negligibleWeight     = 0.05
	minDimensionEvidence = 1e-6
	minEvidence          = 0.001
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

// UCB returns the upper confidence bound of the Python reference implementation. If a weighted
// dimension has no evidence, the bonus is at least 13. Use [CappedUCB] to choose a vacant.
func UCB(s *State, w Weights, vacantCount int) (float64, error) {
	weights, err := w.normalize()
	if err != nil {
		return 0, err
	}
	mean, deviation := combinePosteriors(s, weights)
	n := math.Max(combineEvidence(s, weights), minEvidence)
	return mean + deviationWeight*deviation + explorationBonus(n, vacantCount), nil
}

// MaxExploration limits the exploration bonus of CappedUCB. A bonus without a limit would grow with
// the number of vacants and favour a party that creates many.
const MaxExploration = 0.25

// CappedUCB computes UCB from the dimensions with evidence, or from all dimensions if no dimension
// has evidence. The exploration bonus is at most MaxExploration. If s is nil, the vacant has no
// reviews.
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

type Level uint8

func ParseLevel(s string) (Level, error) {
	if len(s) != 2 || s[0] != 'L' || s[1] < '0' || s[1] > '3' {
		return 0, problem.Invalid("attestation_level", "L0, L1, L2 or L3", fmt.Sprintf("%.40q", s))
	}
	return Level(s[1] - '0'), nil
}

type Standing struct {
	Level       Level
	Stake       float64
	Portability float64
}

const maxPortability = 0.10

// CallScore returns the score by which the Python reference implementation ranks candidates.
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
