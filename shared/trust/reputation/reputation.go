// Package reputation turns reviews of a vacant into scores: five Beta
// posteriors, one for each dimension, that decay with time.
//
// Invariants: a posterior is never below its prior and never worth more than
// its evidence; a refused update changes nothing; a vacant without reviews
// scores 0, even after its reputation was read.
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

// The dimensions.
const (
	Factual Dimension = iota
	Logical
	Relevance
	Honesty
	Adoption
	dimensions = iota
)

var words = [dimensions]string{"factual", "logical", "relevance", "honesty", "adoption"}

// String is the name of d in reviews and answers.
func (d Dimension) String() string {
	if int(d) < len(words) {
		return words[d]
	}
	return fmt.Sprintf("dimension %d", uint8(d))
}

// ParseDimension parses the name of a dimension.
func ParseDimension(word string) (Dimension, error) {
	for i, w := range words {
		if w == word {
			return Dimension(i), nil
		}
	}
	return 0, problem.Invalid("dimension", "factual, logical, relevance, honesty or adoption", fmt.Sprintf("%.40q", word))
}

// All lists the five dimensions. Clients rank by all of them.
func All() []Dimension { return []Dimension{Factual, Logical, Relevance, Honesty, Adoption} }

// Searched lists the three dimensions that a registry ranks search results by.
// The other two describe conduct, not the quality of answers.
func Searched() []Dimension { return []Dimension{Factual, Logical, Relevance} }

// priors holds, for each dimension, the parameters before the first review and
// the half-life of evidence in days.
var priors = [dimensions]struct{ alpha, beta, halfLife float64 }{
	{1, 1, 90}, {1, 1, 180}, {1, 1, 60}, {2, 1, 30}, {1, 3, 90},
}

// State is the reputation of one vacant in all dimensions. Its JSON has the
// reference's names.
type State struct {
	Factual   Posterior `json:"factual"`
	Logical   Posterior `json:"logical"`
	Relevance Posterior `json:"relevance"`
	Honesty   Posterior `json:"honesty"`
	Adoption  Posterior `json:"adoption"`
}

// NewState is the state of a vacant without reviews.
func NewState(at time.Time) State {
	var s State
	for _, d := range All() {
		*s.in(d) = Prior(d, at)
	}
	return s
}

func (s *State) in(d Dimension) *Posterior {
	return [dimensions]*Posterior{&s.Factual, &s.Logical, &s.Relevance, &s.Honesty, &s.Adoption}[d]
}

// In is the posterior of one dimension.
func (s *State) In(d Dimension) Posterior { return *s.in(d) }

// Update returns s after a signal in one dimension.
func (s State) Update(d Dimension, signal, weight float64, at time.Time) (State, error) {
	if int(d) >= dimensions {
		return s, problem.Invalid("dimension", "one of the five", d.String())
	}
	p, err := s.In(d).Update(signal, weight, at)
	if err != nil {
		return s, err
	}
	*s.in(d) = p
	return s, nil
}

// At returns s decayed to the time at.
func (s State) At(at time.Time) State {
	for _, d := range All() {
		*s.in(d) = s.In(d).Decay(at)
	}
	return s
}

// Check refuses a state that no reviews can produce. Call it on a state from
// outside or from a document that may be damaged.
func (s *State) Check() error {
	for _, d := range All() {
		if err := s.In(d).check(d); err != nil {
			return err
		}
	}
	return nil
}

// Reviewed reports whether there is evidence in any dimension.
func (s *State) Reviewed() bool {
	for _, d := range All() {
		if s.In(d).Evidence > 0 {
			return true
		}
	}
	return false
}

// Score is the mean of the posterior means of dims, or of all five dimensions
// if dims is empty: the reference's score(). It is 0 for a nil state and
// without reviews. The reference's score instead rises from 0 to the prior's
// mean once somebody reads the vacant's reputation.
func (s *State) Score(dims ...Dimension) float64 {
	if s == nil || !s.Reviewed() {
		return 0
	}
	if len(dims) == 0 {
		dims = All()
	}
	var sum float64
	for _, d := range dims {
		sum += s.In(d).Mean()
	}
	return sum / float64(len(dims))
}

// finite reports whether f is neither NaN nor infinite.
func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// number formats f as the reference prints it.
func number(f float64) string { return string(canon.AppendFloat(nil, f)) }
