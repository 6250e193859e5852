// Package reputation turns the reviews of a vacant into scores: five Beta posteriors, one for each
// dimension, that decay with time.
//
// Alpha and Beta of a posterior are never below the values of its prior. A review adds its weight
// to the sum of Alpha and Beta, and an invalid update changes neither. A vacant without reviews
// scores 0. Comments call the Python reference implementation "the reference".
package reputation

import (
	"fmt"
	"math"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Dimension is one of the five qualities that a review rates.
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

// SearchDimensions returns the dimensions by which a registry ranks search results. The other two
// describe conduct, not the quality of answers. Clients rank by all dimensions.
func SearchDimensions() []Dimension { return []Dimension{Factual, Logical, Relevance} }

// priors contains the parameters of each dimension before the first review, and the half-life of
// its evidence in days.
var priors = [dimensionCount]struct{ alpha, beta, halfLife float64 }{
	{1, 1, 90}, {1, 1, 180}, {1, 1, 60}, {2, 1, 30}, {1, 3, 90},
}

// State is the reputation of one vacant in all dimensions. Its JSON members are named as in the
// reference.
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

// Check returns an error if a posterior of s is invalid. Callers must check states from other hosts
// and from documents that may be damaged.
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
// s is nil or has no evidence, the score is 0. The reference also returns 0 at first, but returns
// the mean of the prior once the reputation has been read.
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

func formatFloat(f float64) string { return string(canon.AppendFloat(nil, f)) } // the reference prints floats in this form
