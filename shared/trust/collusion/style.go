package collusion

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// The constants are the indexes of a style vector.
const (
	featureTokenCount = iota // tokens per response, in thousands
	featureTypeTokenRatio
	featureEntropy // evenness of the ten most frequent tokens
	featureSentenceCount
	featureSentenceLength
	featurePunctuation
	featureQuestions
	featureListItems
	featureCode
	featureHedges
	featureRefusals
	featureConfidenceMean
	featureConfidenceSpread
	featureLatencyMedian // in units of 5 s
	featureLatencyP95    // in units of 10 s
	featureToolCalls     // always 0, because a host cannot see tool calls
	// FeatureCount is the length of a style vector.
	FeatureCount
)

const MaxResponses = 50

type Response struct {
	Text       string
	Latency    time.Duration
	Confidence *float64 // nil if the vacant has not stated a confidence
}

// StyleVector returns the style vector of at most the last MaxResponses responses, or nil if there
// are no responses.
func StyleVector(responses []Response) ([]float64, error) {
	if len(responses) == 0 {
		return nil, nil
	}
	responses = responses[max(0, len(responses)-MaxResponses):]
	v := make([]float64, FeatureCount)
	var latencies, confidences []float64
	for i := range responses {
		r := &responses[i]
		features := measureText(r.Text)
		for j, f := range features {
			v[j] = clamp(v[j] + f/float64(len(responses))) // because of rounding, the sum can exceed 1
		}
		latencies = append(latencies, r.Latency.Seconds())
		if c := r.Confidence; c != nil {
			if math.IsNaN(*c) || math.IsInf(*c, 0) {
				return nil, problem.New(problem.Damaged, "confidence of response %d: expected a number, got %v", i, *c)
			}
			confidences = append(confidences, clamp(*c))
		}
	}
	v[featureConfidenceMean], v[featureConfidenceSpread] = meanAndDeviation(confidences)
	slices.Sort(latencies)
	v[featureLatencyMedian] = clamp(percentile(latencies, 0.50) / 5)
	v[featureLatencyP95] = clamp(percentile(latencies, 0.95) / 10)
	return v, nil
}

func clamp(f float64) float64 { return min(max(f, 0), 1) }

func meanAndDeviation(values []float64) (m, deviation float64) {
	if len(values) == 0 {
		return 0, 0
	}
	m = mean(values)
	for _, f := range values {
		deviation += (f - m) * (f - m)
	}
	return m, math.Sqrt(deviation / float64(len(values)))
}

func percentile(sorted []float64, p float64) float64 {
	return sorted[int(math.Ceil(p*float64(len(sorted))))-1]
}

// styleBaseline returns the mean and the scale of the square root of each feature in ordinary
// answers.
func styleBaseline() (means, scales [FeatureCount]float64) {
	return [FeatureCount]float64{
			featureTokenCount: 0.35, featureTypeTokenRatio: 0.65, featureEntropy: 0.92, featureSentenceCount: 0.55, featureSentenceLength: 0.35, featurePunctuation: 0.30, featureQuestions: 0.25,
			featureListItems: 0.30, featureCode: 0.20, featureHedges: 0.30, featureRefusals: 0.10, featureConfidenceMean: 0.85, featureConfidenceSpread: 0.28, featureLatencyMedian: 0.43, featureLatencyP95: 0.43,
		}, [FeatureCount]float64{
			featureTokenCount: 0.20, featureTypeTokenRatio: 0.16, featureEntropy: 0.04, featureSentenceCount: 0.25, featureSentenceLength: 0.12, featurePunctuation: 0.07, featureQuestions: 0.25,
			featureListItems: 0.35, featureCode: 0.27, featureHedges: 0.28, featureRefusals: 0.20, featureConfidenceMean: 0.12, featureConfidenceSpread: 0.12, featureLatencyMedian: 0.40, featureLatencyP95: 0.40,
		}
}

// maxDeviation limits the distance from the mean, in scales. Otherwise one extreme feature would
// make two vectors similar.
const maxDeviation = 2

// CentreStyle returns the difference between a style and the style of ordinary answers. Uncentred
// vectors all point in similar directions.
//
// In measurements with synthetic authors, 95 % of the pairs by one author and at most 0.3 % of the
// pairs by different authors reached the default threshold.
func CentreStyle(v []float64) ([]float64, error) {
	if len(v) != FeatureCount {
		return nil, problem.New(problem.Damaged, "style: expected %d features, got %d", FeatureCount, len(v))
	}
	means, scales := styleBaseline()
	out := make([]float64, FeatureCount)
	noConfidence := v[featureConfidenceMean] == 0 && v[featureConfidenceSpread] == 0
	for i, f := range v {
		if math.IsNaN(f) || f < 0 || f > 1 {
			return nil, problem.New(problem.Damaged, "style[%d]: expected 0 to 1, got %s", i, fmt.Sprint(f))
		}
		if scales[i] == 0 || noConfidence && (i == featureConfidenceMean || i == featureConfidenceSpread) {
			continue
		}
		out[i] = min(max((math.Sqrt(f)-means[i])/scales[i], -maxDeviation), maxDeviation)
	}
	return out, nil
}
