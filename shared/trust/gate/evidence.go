package gate

import (
	"math"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Role string

const (
	RoleParent  Role = "parent"
	RoleSibling Role = "sibling"
)

const MinResponses = 50

const ActivityHours = 7 * 24

// Observation is a host's own evidence about a vacant. If the evidence for a signal is missing,
// MissingReasons contains the reason. Missing evidence must never look like a similarity of zero.
type Observation struct {
	ID             identity.ID
	Closed         bool // called only from within its tree
	Tenant, Owner  string
	Families       []string  // distinct substrate families; "unknown" and "composite" are not evidence
	Activity       []float64 // calls per hour from outside the tree
	Responses      int
	Style          []float64 // not centred
	MissingReasons map[SignalName]string
}

// Pair is a child together with a vacant that it is compared with.
type Pair struct {
	OtherID      identity.ID
	Role         Role
	Child, Other Observation
	// HasCommonAncestor ignores the relation between the child and its parent.
	HasCommonAncestor bool
}

type Evidence struct {
	Child, Parent identity.ID
	Pairs         []Pair
}

type SignalName string

// The first four signals form the strength same_controller of the Python reference implementation.
const (
	Declared  SignalName = "declared"
	Ancestor  SignalName = "ancestor"
	Activity  SignalName = "activity"
	Behaviour SignalName = "behaviour"
	Substrate SignalName = "substrate"
	Style     SignalName = "style"
)

type SignalState string

const (
	SignalObserved SignalState = "observed"
	SignalMissing  SignalState = "missing"  // refuses in ModeStrict if CanRefuse is true
	SignalExcluded SignalState = "excluded" // not used by the policy
)

type Inputs struct {
	Similarity    float64   `json:"similarity,omitempty"`
	ChildFamilies string    `json:"a,omitempty"`
	OtherFamilies string    `json:"b,omitempty"`
	ChildSamples  int       `json:"samples_a,omitempty"`
	OtherSamples  int       `json:"samples_b,omitempty"`
	ChildStyle    []float64 `json:"style_a,omitempty"`
	OtherStyle    []float64 `json:"style_b,omitempty"`
}

type Signal struct {
	Name      SignalName  `json:"name"`
	State     SignalState `json:"state"`
	Strength  float64     `json:"strength"`
	CanRefuse bool        `json:"blocks"` // whether the signal can refuse
	Reason    string      `json:"why,omitempty"`
	Inputs    *Inputs     `json:"inputs,omitempty"`
}

// Finding is a detector's result for one pair.
type Finding struct {
	OtherID identity.ID `json:"with"`
	Role    Role        `json:"role"`
	Signals []Signal    `json:"signals"`
}

type Findings struct {
	Policy       Policy    `json:"policy"`
	PairFindings []Finding `json:"pairs"`
}

func FindingsFromStrengths(p Policy, parent identity.ID, controller, substrate, style float64) Findings {
	return Findings{Policy: p, PairFindings: []Finding{{OtherID: parent, Role: RoleParent, Signals: []Signal{
		{Name: Declared, State: SignalObserved, Strength: controller, CanRefuse: true},
		{Name: Substrate, State: SignalObserved, Strength: substrate, CanRefuse: true},
		{Name: Style, State: SignalObserved, Strength: style, CanRefuse: true},
	}}}}
}

func (f Findings) Check() error {
	if err := f.Policy.Check(); err != nil {
		return problem.Wrap(problem.Damaged, err, "findings: %s", problem.AsError(err).Text())
	}
	for _, pair := range f.PairFindings {
		for _, s := range pair.Signals {
			if math.IsNaN(s.Strength) || s.Strength < 0 || s.Strength > 1 {
				return problem.New(problem.Damaged, "signal %s against %s: expected 0 to 1, got %s", s.Name, pair.OtherID.Short(), strconv.FormatFloat(s.Strength, 'g', -1, 64))
			}
			switch s.State {
			case SignalObserved, SignalMissing, SignalExcluded:
			default:
				return problem.New(problem.Damaged, "signal %s against %s: expected a state, got %.20q", s.Name, pair.OtherID.Short(), string(s.State))
			}
		}
	}
	return nil
}

type strengths struct{ controller, substrate, style float64 }

func (s strengths) max() float64 { return max(s.controller, s.substrate, s.style) }

func (f *Finding) strengths() (s strengths) {
	for _, signal := range f.Signals {
		if !signal.CanRefuse || signal.State != SignalObserved {
			continue
		}
		switch signal.Name {
		case Substrate:
			s.substrate = max(s.substrate, signal.Strength)
		case Style:
			s.style = max(s.style, signal.Strength)
		default:
			s.controller = max(s.controller, signal.Strength)
		}
	}
	return s
}

// CheckCollusion returns an error of kind CollusionFound if the most similar pair reaches the
// threshold, or in ModeStrict if evidence is missing.
func (f Findings) CheckCollusion() error {
	if err := f.Check(); err != nil {
		return err
	}
	if len(f.PairFindings) == 0 {
		return problem.New(problem.Damaged, "findings: expected a finding about the parent, got none")
	}
	strongest := 0
	for i := range f.PairFindings {
		if f.PairFindings[i].strengths().max() > f.PairFindings[strongest].strengths().max() {
			strongest = i
		}
	}
	if s := f.PairFindings[strongest].strengths(); s.max() >= f.Policy.Threshold {
		sibling := ""
		if f.PairFindings[strongest].Role == RoleSibling {
			sibling = " against sibling " + f.PairFindings[strongest].OtherID.Short()
		}
		return problem.New(problem.CollusionFound, "collusion signals too high for graduation: controller=%.2f, substrate=%.2f, stylo=%.2f (threshold %s)%s",
			s.controller, s.substrate, s.style, canon.AppendFloat(nil, f.Policy.Threshold), sibling)
	}
	if f.Policy.Mode != ModeStrict {
		return nil
	}
	for _, pair := range f.PairFindings {
		for _, s := range pair.Signals {
			if s.State == SignalMissing && s.CanRefuse {
				reason := ""
				if s.Reason != "" {
					reason = " (" + s.Reason + ")"
				}
				return problem.New(problem.CollusionFound, "evidence is missing for graduation: %s against %s %s%s", s.Name, pair.Role, pair.OtherID.Short(), reason)
			}
		}
	}
	return nil
}
