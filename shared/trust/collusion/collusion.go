// Package collusion measures the similarity of two vacants: the times of their activity, the model
// families of their substrates, and their style of writing. [Strength] converts a similarity to a
// number in [0, 1].
package collusion

import (
	"fmt"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	ActivityThreshold = 0.70 // threshold for Pearson
	StyleThreshold    = 0.88 // threshold for Cosine
)

// Cosine returns the cosine of the angle between x and y, or 0 if one of them is zero.
func Cosine(x, y []float64) (float64, error) {
	if err := checkNumbers("vector", x, y); err != nil {
		return 0, err
	}
	var xy, xx, yy float64
	for i := range x {
		xy += x[i] * y[i]
		xx += x[i] * x[i]
		yy += y[i] * y[i]
	}
	return quotient(xy, math.Sqrt(xx), math.Sqrt(yy))
}

// Pearson returns the correlation of x and y, or 0 if one of them is empty or constant.
func Pearson(x, y []float64) (float64, error) {
	if err := checkNumbers("series", x, y); err != nil {
		return 0, err
	}
	if len(x) == 0 {
		return 0, nil
	}
	mx, my := mean(x), mean(y)
	var xy, xx, yy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xy += dx * dy
		xx += dx * dx
		yy += dy * dy
	}
	return quotient(xy, math.Sqrt(xx), math.Sqrt(yy))
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}

func checkNumbers(name string, x, y []float64) error {
	if len(x) != len(y) {
		return problem.New(problem.Damaged, "%s dim mismatch: %d vs %d", name, len(x), len(y))
	}
	for _, values := range [][]float64{x, y} {
		for i, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return problem.New(problem.Damaged, "%s[%d]: expected a number, got %v", name, i, v)
			}
		}
	}
	return nil
}

// quotient returns 0 if a norm is 0, and an error if a sum has overflowed.
func quotient(dotProduct, normX, normY float64) (float64, error) {
	if normX == 0 || normY == 0 {
		return 0, nil
	}
	q := dotProduct / normX / normY
	if math.IsNaN(q) || math.IsInf(normX, 0) || math.IsInf(normY, 0) {
		return 0, problem.New(problem.Damaged, "similarity: expected numbers whose squares have a finite sum")
	}
	return min(max(q, -1), 1), nil
}

// Strength rises linearly from 0 at v = threshold to 1 at v = 1.
func Strength(v, threshold float64) float64 {
	if v <= threshold {
		return 0
	}
	return min(max((v-threshold)/max(1-threshold, 1e-9), 0), 1)
}

// Signal is a detector's result for one pair of vacants.
type Signal struct {
	Strength float64
	Reason   string // explanation for the operator
}

// CompareSubstrates compares model families. The caller must handle unknown families.
func CompareSubstrates(a, b identity.ID, familyA, familyB string) Signal {
	switch {
	case a == b:
		return selfPairSignal()
	case familyA == familyB:
		return Signal{1, "shared base_model_family " + canon.PythonReprString(familyA, 0)}
	}
	return Signal{0, fmt.Sprintf("distinct families (%s vs %s)", familyA, familyB)}
}

func selfPairSignal() Signal { return Signal{0, "self-pair (a == b)"} }
