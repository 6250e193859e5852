package reputation

// Source is the origin of a signal.
type Source string

// The sources. Their weights are in baseWeights.
const (
	GroundTruth   Source = "ground_truth"
	RedTeamProbe  Source = "redteam_probe"
	CallerReview  Source = "caller_review"
	PeerReview    Source = "peer_review"
	AdoptionEvent Source = "adoption_event"
	SelfEval      Source = "self_eval"
)

var baseWeights = map[Source]float64{GroundTruth: 1, RedTeamProbe: 0.8, CallerReview: 0.6, PeerReview: 0.4, AdoptionEvent: 0.3, SelfEval: 0.05}

const (
	sameFamilyWeight   = 0.5
	heavyFamilyWeight  = 0.25
	heavyFamilyReviews = 5 // of a pair; more are weighted by heavyFamilyWeight
	noveltyDecay       = 0.4
	minDiscount        = 0.1
	minCredibility     = 0.3
	truthBoost         = 1.5
)

// Factors determine the weight of a review.
type Factors struct {
	Source     Source
	SameFamily bool    // whether reviewer and target answer by models of one family
	Nth        int64   // number of the reviewer's reviews of the target, with this one
	Similarity float64 // from 0 to 1, of reviewer and target
	// Reviewer is the reviewer's own reputation. It is nil if the reviewer has none.
	Reviewer *State
}

// Weight returns the weight of a review in a dimension. The weight for an unknown source is 0.
func (f *Factors) Weight(d Dimension) float64 {
	w := baseWeights[f.Source]
	switch {
	case f.SameFamily && f.Nth > heavyFamilyReviews:
		w *= heavyFamilyWeight
	case f.SameFamily:
		w *= sameFamilyWeight
	}
	w /= 1 + noveltyDecay*float64(max(f.Nth, 1)-1)
	w *= max(minDiscount, 1-f.Similarity)
	credibility := minCredibility
	if f.Reviewer != nil {
		credibility += (1 - minCredibility) * f.Reviewer.In(d).Mean()
	}
	w *= credibility
	if f.Source == GroundTruth && d == Factual {
		w *= truthBoost
	}
	return w
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
