package collusion_test

import (
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/shared/trust/collusion"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// These functions are the reference's detectors, built from the measures of this package, so that the
// reference's vectors test the measures. The gate combines the same measures differently.

// controllerEvidence is the input of sameController. A layer with a nil list is skipped.
type controllerEvidence struct {
	Declared               bool // whether both declare the same controller
	Ancestor               bool // whether they have a common ancestor
	ActivityA, ActivityB   []float64
	BehaviourA, BehaviourB []float64
}

// sameController returns how likely it is that a and b have one controller, by declaration, common
// ancestor, hours of activity or behaviour. The strongest of these layers decides.
func sameController(a, b identity.ID, e controllerEvidence) (collusion.Signal, error) {
	if a == b {
		return collusion.Signal{Strength: 0, Reason: "self-pair (a == b)"}, nil
	}
	var layers []collusion.Signal
	if e.Declared {
		layers = append(layers, collusion.Signal{Strength: 1, Reason: "declared controller_id match"})
	}
	if e.Ancestor {
		layers = append(layers, collusion.Signal{Strength: 1, Reason: "common parent_id ancestor"})
	}
	if e.ActivityA != nil && e.ActivityB != nil {
		r, err := collusion.Pearson(e.ActivityA, e.ActivityB)
		if err != nil {
			return collusion.Signal{}, err
		}
		layers = append(layers, collusion.Signal{Strength: collusion.Strength(r, collusion.ActivityThreshold), Reason: fmt.Sprintf("heartbeat corr %.2f > %.2f", r, collusion.ActivityThreshold)})
	}
	if e.BehaviourA != nil && e.BehaviourB != nil {
		c, err := collusion.Cosine(e.BehaviourA, e.BehaviourB)
		if err != nil {
			return collusion.Signal{}, err
		}
		layers = append(layers, collusion.Signal{Strength: collusion.Strength(c, collusion.StyleThreshold), Reason: fmt.Sprintf("behaviour sim %.2f > %.2f", c, collusion.StyleThreshold)})
	}
	return strongest(layers), nil
}

// strongest returns the strength of the strongest layer, with the reasons of all layers whose
// strength is not 0.
func strongest(layers []collusion.Signal) collusion.Signal {
	var all collusion.Signal
	var why []string
	for _, s := range layers {
		if s.Strength > 0 {
			all.Strength, why = max(all.Strength, s.Strength), append(why, s.Reason)
		}
	}
	if all.Reason = strings.Join(why, " + "); len(why) == 0 {
		all.Reason = "no signal"
	}
	return all
}

// sameStylo returns the similarity of the styles of a and b.
func sameStylo(a, b identity.ID, styleA, styleB []float64) (collusion.Signal, error) {
	if a == b {
		return collusion.Signal{Strength: 0, Reason: "self-pair (a == b)"}, nil
	}
	c, err := collusion.Cosine(styleA, styleB)
	if err != nil {
		return collusion.Signal{}, err
	}
	if s := collusion.Strength(c, collusion.StyleThreshold); s > 0 {
		return collusion.Signal{Strength: s, Reason: fmt.Sprintf("STYLO sim %.2f > %.2f", c, collusion.StyleThreshold)}, nil
	}
	return collusion.Signal{Strength: 0, Reason: fmt.Sprintf("sim %.2f <= %.2f", c, collusion.StyleThreshold)}, nil
}

// discount returns the remaining weight of a review between two vacants with these signals.
func discount(signals ...collusion.Signal) float64 {
	if len(signals) == 0 {
		return 1
	}
	strength := 0.0
	for _, s := range signals {
		strength = max(strength, s.Strength)
	}
	return max(0.1, 1-strength)
}
