package reputation

import (
	"fmt"
	"strings"
)

const (
	SourceCallerReview = "caller_review"
	SourceGroundTruth  = "ground_truth"
)

var baseWeights = map[string]float64{SourceGroundTruth: 1, "redteam_probe": 0.8, SourceCallerReview: 0.6, "peer_review": 0.4, "adoption_event": 0.3, "self_eval": 0.05}

type Factors struct {
	Source       string
	SameFamily   bool
	ReviewNumber int64 // 1 for the first review by the same party
	Similarity   float64
	Reviewer     *State // may be nil
}

// Weight returns the weight of a review in a dimension, as in the Python reference implementation.
func (f *Factors) Weight(d Dimension) float64 {
	w := baseWeights[f.Source] * max(0.1, 1-f.Similarity)
	switch {
	case f.SameFamily && f.ReviewNumber > 5:
		w *= 0.25
	case f.SameFamily:
		w *= 0.5
	}
	w /= 1 + 0.4*float64(max(f.ReviewNumber, 1)-1)
	credibility := 0.3
	if f.Reviewer != nil {
		credibility += 0.7 * f.Reviewer.Posterior(d).Mean()
	}
	if f.Source == SourceGroundTruth && d == Factual {
		w *= 1.5
	}
	return w * credibility
}

const halfEvidence = 10

// Evidence returns the harmonic mean of Posterior.Evidence in SearchDimensions, or 0 if s is nil.
func (s *State) Evidence() float64 {
	if s == nil {
		return 0
	}
	var inverseSum float64
	for _, d := range SearchDimensions() {
		inverseSum += 1 / s.Posterior(d).Evidence
	}
	return float64(len(SearchDimensions())) / inverseSum
}

// EarnedScore returns the score by which hosts rank vacants.
func (s *State) EarnedScore() float64 {
	n := s.Evidence()
	return s.Score(SearchDimensions()...) * n / (n + halfEvidence)
}

func (s *State) Text() string {
	var parts []string
	for _, d := range Dimensions() {
		if p := s.Posterior(d); p.Evidence > 0 {
			parts = append(parts, fmt.Sprintf("%s %.2f (evidence %.2f)", d, p.Mean(), p.Evidence))
		}
	}
	return strings.Join(parts, ", ")
}
