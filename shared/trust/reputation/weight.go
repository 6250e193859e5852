package reputation

import (
	"fmt"
	"strings"
)

// CallerReview and GroundTruth are origins of signals.
const (
	CallerReview = "caller_review"
	GroundTruth  = "ground_truth"
)

var baseWeights = map[string]float64{GroundTruth: 1, "redteam_probe": 0.8, CallerReview: 0.6, "peer_review": 0.4, "adoption_event": 0.3, "self_eval": 0.05}

// Factors determine the weight of a review.
type Factors struct {
	Source     string  // a key of baseWeights
	SameFamily bool    // whether reviewer and target answer by models of one family
	Nth        int64   // number of the reviewer's reviews of the target, with this one
	Similarity float64 // from 0 to 1, of reviewer and target
	Reviewer   *State  // The reviewer's own reputation. It may be nil.
}

// Weight returns the weight of a review in a dimension, as the reference does. The weight for an
// unknown source is 0.
func (f *Factors) Weight(d Dimension) float64 {
	w := baseWeights[f.Source] * max(0.1, 1-f.Similarity)
	switch {
	case f.SameFamily && f.Nth > 5:
		w *= 0.25
	case f.SameFamily:
		w *= 0.5
	}
	w /= 1 + 0.4*float64(max(f.Nth, 1)-1)
	credibility := 0.3
	if f.Reviewer != nil {
		credibility += 0.7 * f.Reviewer.In(d).Mean()
	}
	if f.Source == GroundTruth && d == Factual {
		w *= 1.5
	}
	return w * credibility
}

// fullEvidence is the evidence at which Earned is half of the mean.
const fullEvidence = 10

// Evidence returns the harmonic mean of the evidence in the dimensions of Searched, so that one
// dimension without evidence makes it 0. It is 0 for a nil state.
func (s *State) Evidence() float64 {
	if s == nil {
		return 0
	}
	var inverse float64
	for _, d := range Searched() {
		inverse += 1 / s.In(d).Evidence
	}
	return float64(len(Searched())) / inverse
}

// Earned returns the score by which hosts rank: the mean of the dimensions of Searched × n/(n+10),
// where n is the Evidence. It rises from 0 with each good review, so a few reviews are worth little.
func (s *State) Earned() float64 {
	n := s.Evidence()
	return s.Score(Searched()...) * n / (n + fullEvidence)
}

// Text lists the means of the reviewed dimensions with their evidence.
func (s *State) Text() string {
	var all []string
	for _, d := range All() {
		if p := s.In(d); p.Evidence > 0 {
			all = append(all, fmt.Sprintf("%s %.2f by %.2f", d, p.Mean(), p.Evidence))
		}
	}
	return strings.Join(all, ", ")
}
