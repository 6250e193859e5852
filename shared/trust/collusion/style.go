package collusion

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// The constants are the indexes of a style vector. Each feature is clipped to [0, 1].
const (
	tokens    = iota // tokens per response, in thousands
	typeToken        // distinct tokens per token
	entropy          // evenness of the ten most frequent tokens
	sentences
	sentenceLength
	punctuation
	questions
	lists
	code
	hedges
	refusals
	confidenceMean
	confidenceSpread
	latencyMedian // median latency, in units of 5 s
	latencyTail   // 95th percentile of the latency, in units of 10 s
	toolCalls     // always 0, because a host cannot see tool calls
	// Features is the length of a style vector.
	Features
)

// MaxResponses limits the responses that a style vector is computed from.
const MaxResponses = 50

// Response is an answer as the host has recorded it.
type Response struct {
	Text       string
	Took       time.Duration
	Confidence *float64 // nil if the vacant has not stated a confidence
}

// StyleVector returns the style vector of the last responses, or nil if there are no responses. The
// features of the text are means over the responses.
func StyleVector(responses []Response) ([]float64, error) {
	if len(responses) == 0 {
		return nil, nil
	}
	responses = responses[max(0, len(responses)-MaxResponses):]
	v := make([]float64, Features)
	var took, confidences []float64
	for i := range responses {
		r := &responses[i]
		measures := measure(r.Text)
		for j, f := range measures {
			v[j] = clip(v[j] + f/float64(len(responses))) // because of rounding, the sum can exceed 1
		}
		took = append(took, r.Took.Seconds())
		if c := r.Confidence; c != nil {
			if math.IsNaN(*c) || math.IsInf(*c, 0) {
				return nil, problem.New(problem.Damaged, "confidence of response %d: expected a number, got %v", i, *c)
			}
			confidences = append(confidences, clip(*c))
		}
	}
	v[confidenceMean], v[confidenceSpread] = meanAndDeviation(confidences)
	slices.Sort(took)
	v[latencyMedian] = clip(percentile(took, 0.50) / 5)
	v[latencyTail] = clip(percentile(took, 0.95) / 10)
	return v, nil
}

func clip(f float64) float64 { return min(max(f, 0), 1) }

func meanAndDeviation(list []float64) (m, deviation float64) {
	if len(list) == 0 {
		return 0, 0
	}
	m = mean(list)
	for _, f := range list {
		deviation += (f - m) * (f - m)
	}
	return m, math.Sqrt(deviation / float64(len(list)))
}

func percentile(sorted []float64, p float64) float64 {
	return sorted[int(math.Ceil(p*float64(len(sorted))))-1]
}

// baseline returns the mean and the scale of each feature's square root in ordinary answers. It uses square
// roots because most features are rates near 0. A feature with a scale of 0 is not used.
func baseline() (means, scales [Features]float64) {
	return [Features]float64{
			tokens: 0.35, typeToken: 0.65, entropy: 0.92, sentences: 0.55, sentenceLength: 0.35, punctuation: 0.30, questions: 0.25,
			lists: 0.30, code: 0.20, hedges: 0.30, refusals: 0.10, confidenceMean: 0.85, confidenceSpread: 0.28, latencyMedian: 0.43, latencyTail: 0.43,
		}, [Features]float64{
			tokens: 0.20, typeToken: 0.16, entropy: 0.04, sentences: 0.25, sentenceLength: 0.12, punctuation: 0.07, questions: 0.25,
			lists: 0.35, code: 0.27, hedges: 0.28, refusals: 0.20, confidenceMean: 0.12, confidenceSpread: 0.12, latencyMedian: 0.40, latencyTail: 0.40,
		}
}

// maxDeviation limits the distance of a centred feature from the mean, in scales. Otherwise one extreme
// feature that two vectors share would make them similar whatever their other features are.
const maxDeviation = 2

// Centre returns the difference between a style and the style of ordinary answers. Vectors without
// negative components all point in similar directions, but centred vectors do not. If no response
// states a confidence, the two confidence features are 0 and stay 0.
//
// Figures for synthetic authors: 0.1 to 2 % of the pairs of different authors exceed StyleThreshold
// (9 to 48 % without centring), and at most 0.3 % reach the strength that refuses by default. 95 %
// of the pairs by one author reach that strength.
func Centre(v []float64) ([]float64, error) {
	if len(v) != Features {
		return nil, problem.New(problem.Damaged, "style: expected %d features, got %d", Features, len(v))
	}
	means, scales := baseline()
	out := make([]float64, Features)
	untold := v[confidenceMean] == 0 && v[confidenceSpread] == 0
	for i, f := range v {
		if math.IsNaN(f) || f < 0 || f > 1 {
			return nil, problem.New(problem.Damaged, "style[%d]: expected 0 to 1, got %s", i, fmt.Sprint(f))
		}
		if scales[i] == 0 || untold && (i == confidenceMean || i == confidenceSpread) {
			continue
		}
		out[i] = min(max((math.Sqrt(f)-means[i])/scales[i], -maxDeviation), maxDeviation)
	}
	return out, nil
}
