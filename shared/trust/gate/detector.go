package gate

import (
	"fmt"
	"math"
	"slices"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/collusion"
)

// Detector compares a child with other vacants. It must be safe for concurrent use and must not
// retain the evidence.
type Detector interface {
	// Detect returns an error of kind Damaged if the evidence is invalid.
	Detect(Evidence, Policy) (Findings, error)
}

func NewDetector(p Policy) (Detector, error) {
	switch p.Detector {
	case DetectorObserved:
		return ObservationDetector{}, nil
	case DetectorZeros:
		return ZeroDetector{}, nil
	}
	return nil, problem.Invalid("detector", "observed or zeros", fmt.Sprintf("%.20q", p.Detector))
}

// ZeroDetector finds no similarity, like the Python reference implementation by default.
type ZeroDetector struct{}

func (ZeroDetector) Detect(e Evidence, p Policy) (Findings, error) {
	return FindingsFromStrengths(p, e.Parent, 0, 0, 0), nil
}

// ObservationDetector compares the host's own observations. In ModeReference, it ignores siblings.
type ObservationDetector struct{}

func (ObservationDetector) Detect(e Evidence, p Policy) (Findings, error) {
	f := Findings{Policy: p}
	for _, pair := range e.Pairs {
		if p.Mode == ModeReference && pair.Role != RoleParent {
			continue
		}
		if pair.Child.ID != e.Child || pair.Other.ID != pair.OtherID || pair.OtherID == e.Child {
			return Findings{}, problem.New(problem.Damaged, "evidence of %s: expected the child %s and another vacant, got %s and %s",
				e.Child.Short(), e.Child.Short(), pair.Child.ID.Short(), pair.Other.ID.Short())
		}
		finding, err := comparePair(&pair, p.Mode)
		if err != nil {
			return Findings{}, err
		}
		f.PairFindings = append(f.PairFindings, finding)
	}
	return f, nil
}

func comparePair(p *Pair, m Mode) (Finding, error) {
	activity, err := p.activitySignal(m)
	if err != nil {
		return Finding{}, err
	}
	style, err := p.styleSignal(m)
	if err != nil {
		return Finding{}, err
	}
	signals := []Signal{p.declaredSignal(m), p.ancestorSignal(m), activity, p.substrateSignal(m), style}
	if m == ModeReference {
		// The Python reference implementation also uses the style as a part of same_controller.
		behaviour := style
		behaviour.Name = Behaviour
		signals = append(signals, behaviour)
	}
	return Finding{OtherID: p.OtherID, Role: p.Role, Signals: signals}, nil
}

func (p *Pair) declaredSignal(m Mode) Signal {
	s := Signal{Name: Declared, State: SignalObserved, CanRefuse: m != ModeDefault}
	hasTenants, hasOwners := p.Child.Tenant != "" && p.Other.Tenant != "", p.Child.Owner != "" && p.Other.Owner != ""
	switch {
	case hasTenants && p.Child.Tenant == p.Other.Tenant:
		s.Strength, s.Reason = 1, "both vacants have the same tenant"
	case hasOwners && p.Child.Owner == p.Other.Owner:
		s.Strength, s.Reason = 1, "both listings name the same owner"
	case hasTenants || hasOwners:
		s.Reason = "different tenants or owners"
	default:
		return p.markMissing(s, "neither the tenants nor the owners of both vacants are known")
	}
	return s
}

// ancestorSignal ignores the relation of parent and child, because graduation ends it.
func (p *Pair) ancestorSignal(m Mode) Signal {
	s := Signal{Name: Ancestor, State: SignalObserved, CanRefuse: m == ModeReference}
	switch {
	case p.Role == RoleSibling:
		s.Strength, s.Reason = 1, "siblings"
	case p.HasCommonAncestor:
		s.Strength, s.Reason = 1, "both vacants have a common ancestor"
	default:
		s.State, s.Reason = SignalExcluded, "the relation of parent and child is not evidence"
	}
	return s
}

func (p *Pair) activitySignal(m Mode) (Signal, error) {
	s := Signal{Name: Activity, State: SignalObserved, CanRefuse: true}
	if p.Child.Activity == nil || p.Other.Activity == nil {
		if m != ModeReference && (p.Child.Closed && p.Child.Activity == nil || p.Other.Closed && p.Other.Activity == nil) {
			s.State, s.Reason = SignalExcluded, "a closed child is not called from outside its tree"
			return s, nil
		}
		return p.markMissing(s, "fewer than seven days of activity of both vacants are known"), nil
	}
	for _, o := range []Observation{p.Child, p.Other} {
		if len(o.Activity) != ActivityHours {
			return Signal{}, p.damagedError(Activity, problem.New(problem.Damaged, "expected %d hours of %s, got %d", ActivityHours, o.ID.Short(), len(o.Activity)))
		}
	}
	correlation, err := collusion.Pearson(p.Child.Activity, p.Other.Activity)
	if err != nil {
		return Signal{}, p.damagedError(Activity, err)
	}
	s.Strength = collusion.Strength(correlation, collusion.ActivityThreshold)
	s.Inputs = &Inputs{Similarity: correlation, ChildSamples: len(p.Child.Activity), OtherSamples: len(p.Other.Activity)}
	return s, nil
}

func (p *Pair) substrateSignal(m Mode) Signal {
	s := Signal{Name: Substrate, State: SignalObserved, CanRefuse: p.Role == RoleParent || m == ModeStrict}
	a, b := p.Child.knownFamilies(), p.Other.knownFamilies()
	if i := slices.IndexFunc(a, func(f string) bool { return slices.Contains(b, f) }); i >= 0 {
		a, b = a[i:i+1], a[i:i+1]
	} else if len(a) == 0 || len(b) == 0 || p.Child.MissingReasons[Substrate] != "" || p.Other.MissingReasons[Substrate] != "" {
		return p.markMissing(s, "the substrate families of both vacants are not known")
	}
	s.Strength = collusion.CompareSubstrates(p.Child.ID, p.Other.ID, a[0], b[0]).Strength
	s.Inputs = &Inputs{ChildFamilies: summarizeFamilies(a), OtherFamilies: summarizeFamilies(b)}
	return s
}

func (o *Observation) knownFamilies() []string {
	// A composite answers in the words of its children, so its family is not evidence.
	return slices.DeleteFunc(slices.Clone(o.Families), func(f string) bool { return f == "" || f == "unknown" || f == "composite" })
}

func summarizeFamilies(families []string) string {
	if n := len(families) - 1; n > 0 {
		return fmt.Sprintf("%s and %d more", families[0], n)
	}
	return families[0]
}

func (p *Pair) styleSignal(m Mode) (Signal, error) {
	s := Signal{Name: Style, State: SignalObserved, CanRefuse: true}
	if p.Child.Style == nil || p.Other.Style == nil || min(p.Child.Responses, p.Other.Responses) < MinResponses {
		s.Inputs = &Inputs{ChildSamples: p.Child.Responses, OtherSamples: p.Other.Responses}
		return p.markMissing(s, fmt.Sprintf("fewer than %d responses of both vacants are known", MinResponses)), nil
	}
	a, b := p.Child.Style, p.Other.Style
	if m != ModeReference {
		var err error
		if a, err = collusion.CentreStyle(a); err != nil {
			return Signal{}, p.damagedError(Style, err)
		}
		if b, err = collusion.CentreStyle(b); err != nil {
			return Signal{}, p.damagedError(Style, err)
		}
	}
	similarity, err := collusion.Cosine(a, b)
	if err != nil {
		return Signal{}, p.damagedError(Style, err)
	}
	s.Strength = collusion.Strength(similarity, collusion.StyleThreshold)
	s.Inputs = &Inputs{Similarity: similarity, ChildSamples: p.Child.Responses, OtherSamples: p.Other.Responses, ChildStyle: roundAll(p.Child.Style), OtherStyle: roundAll(p.Other.Style)}
	return s, nil
}

func roundAll(v []float64) []float64 {
	out := make([]float64, len(v))
	for i, f := range v {
		out[i] = math.Round(f*1e4) / 1e4
	}
	return out
}

func (p *Pair) markMissing(s Signal, defaultReason string) Signal {
	s.State, s.Strength, s.Reason = SignalMissing, 0, defaultReason
	for _, o := range []Observation{p.Child, p.Other} {
		if reason := o.MissingReasons[s.Name]; reason != "" {
			s.Reason = o.ID.Short() + ": " + reason
			break
		}
	}
	return s
}

func (p *Pair) damagedError(n SignalName, err error) error {
	return problem.Wrap(problem.Damaged, err, "signal %s against %s: %s", n, p.OtherID.Short(), problem.AsError(err).Text())
}
