package collusion

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// The indexes of a style vector. Each feature is clipped to [0, 1].
const (
	tokens = iota // per response, in thousands
	typeToken
	entropy // of its ten most frequent tokens
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
	latencyMedian // of all responses, in 5 s
	latencyTail   // the 95th percentile, in 10 s
	toolCalls     // always 0: a host cannot see tool calls
	// Features is the length of a style vector.
	Features
)

// LastResponses is the largest number of responses that a style vector is
// computed from.
const LastResponses = 50

// Response is an answer as the host recorded it.
type Response struct {
	Text       string
	Took       time.Duration
	Confidence *float64 // nil if the vacant stated none
}

// StyleVector computes the style vector of the last responses: the mean of each
// feature. It is nil without responses.
func StyleVector(responses []Response) ([]float64, error) {
	if len(responses) == 0 {
		return nil, nil
	}
	responses = responses[max(0, len(responses)-LastResponses):]
	v := make([]float64, Features)
	var took, confidences []float64
	for i := range responses {
		r := &responses[i]
		one := measure(r.Text)
		for j, f := range one {
			v[j] = clip(v[j] + f/float64(len(responses))) // rounding may push a sum of shares above 1
		}
		took = append(took, r.Took.Seconds())
		if c := r.Confidence; c != nil {
			if math.IsNaN(*c) || math.IsInf(*c, 0) {
				return nil, problem.New(problem.Damaged, "confidence of response %d: expected a number, got %v", i, *c)
			}
			confidences = append(confidences, clip(*c))
		}
	}
	v[confidenceMean], v[confidenceSpread] = spread(confidences)
	slices.Sort(took)
	v[latencyMedian] = clip(percentile(took, 0.50) / 5)
	v[latencyTail] = clip(percentile(took, 0.95) / 10)
	return v, nil
}

func clip(f float64) float64 { return min(max(f, 0), 1) }

// spread returns the mean and the standard deviation.
func spread(list []float64) (m, deviation float64) {
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

// baseline holds the mean and scale of each feature's square root over ordinary
// answers. Square roots are used because most features are rates near 0. A
// scale of 0 excludes the feature.
func baseline() (means, scales [Features]float64) {
	return [Features]float64{
			tokens: 0.35, typeToken: 0.65, entropy: 0.92, sentences: 0.55, sentenceLength: 0.35, punctuation: 0.30, questions: 0.25,
			lists: 0.30, code: 0.20, hedges: 0.30, refusals: 0.10, confidenceMean: 0.85, confidenceSpread: 0.28, latencyMedian: 0.43, latencyTail: 0.43,
		}, [Features]float64{
			tokens: 0.20, typeToken: 0.16, entropy: 0.04, sentences: 0.25, sentenceLength: 0.12, punctuation: 0.07, questions: 0.25,
			lists: 0.35, code: 0.27, hedges: 0.28, refusals: 0.20, confidenceMean: 0.12, confidenceSpread: 0.12, latencyMedian: 0.40, latencyTail: 0.40,
		}
}

// farthest clips a centred feature, in scales from the mean. Without the clip,
// one extreme feature shared by two vectors would make them similar whatever
// their other features are.
const farthest = 2

// Centre returns the difference between a style and the style of ordinary
// answers. Vectors without negative components all point in similar directions;
// centred vectors do not. Measured on synthetic authors: of unrelated pairs,
// 0.1 to 2 % exceed StyleThreshold (9 to 48 % without centring) and at most 0.3
// % reach the default refusal strength; of pairs by one author, 95 % do. A
// missing confidence counts as no difference.
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
		out[i] = min(max((math.Sqrt(f)-means[i])/scales[i], -farthest), farthest)
	}
	return out, nil
}
