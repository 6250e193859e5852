// Package collusion says how much two vacants look like one: by who controls
// them, by what they run on and by how they write.
//
// Pure layer 2: it imports canon, identity and problem. The invariants: a strength
// is in [0, 1]; evidence of unequal length is an error and never a strength; a
// number that is none (NaN, infinite) is refused wherever it comes in.
package collusion

import (
	"fmt"
	"math"
	"strings"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// The thresholds above which a likeness counts, and the least that is left of
// a review after its discount.
const (
	ActivityThreshold = 0.70 // of Pearson
	StyleThreshold    = 0.88 // of Cosine
	DiscountFloor     = 0.1
)

// Cosine is the cosine of the angle between x and y; 0 if either is zero.
func Cosine(x, y []float64) (float64, error) {
	if err := sameLength("vector", x, y); err != nil {
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

// Pearson is the correlation of x and y at lag 0; 0 if there is none, since one
// of them is empty or does not vary.
func Pearson(x, y []float64) (float64, error) {
	if err := sameLength("series", x, y); err != nil {
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

func sameLength(what string, x, y []float64) error {
	if len(x) != len(y) {
		return problem.New(problem.Damaged, "%s dim mismatch: %d vs %d", what, len(x), len(y))
	}
	for _, list := range [][]float64{x, y} {
		for i, v := range list {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return problem.New(problem.Damaged, "%s[%d]: expected a number, got %v", what, i, v)
			}
		}
	}
	return nil
}

// quotient is xy / (x·y), 0 where x or y is, within [-1, 1]. Sums that have
// left the range of numbers say nothing.
func quotient(xy, x, y float64) (float64, error) {
	if x == 0 || y == 0 {
		return 0, nil
	}
	q := xy / x / y
	if math.IsNaN(q) || math.IsInf(x, 0) || math.IsInf(y, 0) {
		return 0, problem.New(problem.Damaged, "similarity: expected numbers whose squares can be added")
	}
	return min(max(q, -1), 1), nil
}

// Ramp is 0 up to the threshold and rises from there to 1 at 1.
func Ramp(v, threshold float64) float64 {
	if v <= threshold {
		return 0
	}
	return min(max((v-threshold)/max(1-threshold, 1e-9), 0), 1)
}

// Signal is what a detector says of a pair.
type Signal struct {
	Strength float64 // in [0, 1]
	Why      string  // for a person
}

// Fires reports whether s says anything.
func (s Signal) Fires() bool { return s.Strength > 0 }

// ControllerEvidence is what SameController looks at. A nil list is missing
// and skips its layer.
type ControllerEvidence struct {
	Declared               bool // both name the same controller
	Ancestor               bool // their lineages meet
	ActivityA, ActivityB   []float64
	BehaviourA, BehaviourB []float64
}

// SameController is how much a and b look controlled by one: by declaration,
// by a common ancestor, by when they are active or by how they behave. Any
// layer alone suffices.
func SameController(a, b identity.ID, e ControllerEvidence) (Signal, error) {
	if a == b {
		return self(), nil
	}
	var layers []Signal
	if e.Declared {
		layers = append(layers, Signal{1, "declared controller_id match"})
	}
	if e.Ancestor {
		layers = append(layers, Signal{1, "common parent_id ancestor"})
	}
	if e.ActivityA != nil && e.ActivityB != nil {
		r, err := Pearson(e.ActivityA, e.ActivityB)
		if err != nil {
			return Signal{}, err
		}
		layers = append(layers, Signal{Ramp(r, ActivityThreshold), fmt.Sprintf("heartbeat corr %.2f > %.2f", r, ActivityThreshold)})
	}
	if e.BehaviourA != nil && e.BehaviourB != nil {
		c, err := Cosine(e.BehaviourA, e.BehaviourB)
		if err != nil {
			return Signal{}, err
		}
		layers = append(layers, Signal{Ramp(c, StyleThreshold), fmt.Sprintf("behaviour sim %.2f > %.2f", c, StyleThreshold)})
	}
	return strongest(layers), nil
}

// strongest is as strong as the strongest layer, for the reasons of all that
// say anything.
func strongest(layers []Signal) Signal {
	var all Signal
	var why []string
	for _, s := range layers {
		if s.Fires() {
			all.Strength, why = max(all.Strength, s.Strength), append(why, s.Why)
		}
	}
	if all.Why = strings.Join(why, " + "); len(why) == 0 {
		all.Why = "no signal"
	}
	return all
}

// SameSubstrate is whether a and b run on one family of models. What an
// unknown family means is for the caller to say: here it equals itself.
func SameSubstrate(a, b identity.ID, familyA, familyB string) Signal {
	switch {
	case a == b:
		return self()
	case familyA == familyB:
		return Signal{1, "shared base_model_family " + canon.PythonString(familyA, 0)}
	}
	return Signal{0, fmt.Sprintf("distinct families (%s vs %s)", familyA, familyB)}
}

// SameStylo is how much a and b write alike.
func SameStylo(a, b identity.ID, styleA, styleB []float64) (Signal, error) {
	if a == b {
		return self(), nil
	}
	c, err := Cosine(styleA, styleB)
	if err != nil {
		return Signal{}, err
	}
	if s := Ramp(c, StyleThreshold); s > 0 {
		return Signal{s, fmt.Sprintf("STYLO sim %.2f > %.2f", c, StyleThreshold)}, nil
	}
	return Signal{0, fmt.Sprintf("sim %.2f <= %.2f", c, StyleThreshold)}, nil
}

func self() Signal { return Signal{0, "self-pair (a == b)"} }

// Discount is what is left of a review between two that show these signals.
func Discount(signals ...Signal) float64 {
	if len(signals) == 0 {
		return 1
	}
	strength := 0.0
	for _, s := range signals {
		strength = max(strength, s.Strength)
	}
	return max(DiscountFloor, 1-strength)
}
