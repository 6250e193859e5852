// Package reputation turns the reviews of a vacant into scores. A [State] has five Beta posteriors
// that decay towards their priors. A [Book] computes the state from the rows of a vacant's reviews.
// [CappedUCB] ranks vacants for calls.
package reputation

import (
	"fmt"
	"math"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

type Dimension uint8

const (
	Factual Dimension = iota
	Logical
	Relevance
	Honesty
	Adoption
	dimensionCount = iota
)

var dimensionNames = [dimensionCount]string{"factual", "logical", "relevance", "honesty", "adoption"}

func (d Dimension) String() string {
	if int(d) < len(dimensionNames) {
		return dimensionNames[d]
	}
	return fmt.Sprintf("dimension %d", uint8(d))
}

func Dimensions() []Dimension { return []Dimension{Factual, Logical, Relevance, Honesty, Adoption} }

// SearchDimensions returns the dimensions that rate the quality of answers.
func SearchDimensions() []Dimension { return []Dimension{Factual, Logical, Relevance} }

var priors = [dimensionCount]struct{ alpha, beta, halfLife float64 }{
	{1, 1, 90}, {1, 1, 180}, {1, 1, 60}, {2, 1, 30}, {1, 3, 90},
}

type State struct {
	Factual   Posterior `json:"factual"`
	Logical   Posterior `json:"logical"`
	Relevance Posterior `json:"relevance"`
	Honesty   Posterior `json:"honesty"`
	Adoption  Posterior `json:"adoption"`
}

func NewState(t time.Time) State {
	var s State
	for _, d := range Dimensions() {
		*s.posteriorPtr(d) = NewPosterior(d, t)
	}
	return s
}

func (s *State) posteriorPtr(d Dimension) *Posterior {
	return [dimensionCount]*Posterior{&s.Factual, &s.Logical, &s.Relevance, &s.Honesty, &s.Adoption}[d]
}

func (s *State) Posterior(d Dimension) Posterior { return *s.posteriorPtr(d) }

func (s State) Update(d Dimension, signal, weight float64, t time.Time) (State, error) {
	if int(d) >= dimensionCount {
		return s, problem.Invalid("dimension", "one of the five", d.String())
	}
	p, err := s.Posterior(d).Update(signal, weight, t)
	if err != nil {
		return s, err
	}
	*s.posteriorPtr(d) = p
	return s, nil
}

func (s State) Decay(t time.Time) State {
	for _, d := range Dimensions() {
		*s.posteriorPtr(d) = s.Posterior(d).Decay(t)
	}
	return s
}

// Check returns an error if s is invalid. Callers must check states from other hosts.
func (s *State) Check() error {
	for _, d := range Dimensions() {
		if err := s.Posterior(d).check(d); err != nil {
			return err
		}
	}
	return nil
}

func (s *State) HasEvidence() bool {
	for _, d := range Dimensions() {
		if s.Posterior(d).Evidence > 0 {
			return true
		}
	}
	return false
}

// Score returns the mean of the posterior means of dims, or of all dimensions if dims is empty. If
// s is nil or has no evidence, Score returns 0.
func (s *State) Score(dims ...Dimension) float64 {
	if s == nil || !s.HasEvidence() {
		return 0
	}
	if len(dims) == 0 {
		dims = Dimensions()
	}
	var sum float64
	for _, d := range dims {
		sum += s.Posterior(d).Mean()
	}
	return sum / float64(len(dims))
}

func isFinite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

func formatFloat(f float64) string { return string(canon.AppendFloat(nil, f)) }
