package gate

import (
	"math"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Role is the relation of a compared vacant to the child.
type Role string

// The roles.
const (
	Parent  Role = "parent"
	Sibling Role = "sibling"
)

// MinResponses is the number of responses by each vacant below which styles are
// not compared.
const MinResponses = 50

// Buckets is the number of hours of activity that a comparison needs: seven
// days.
const Buckets = 7 * 24

// Observation is a host's own evidence about a vacant. A missing part is empty,
// and Why tells, by signal, why it is missing. A reason for Substrate beside
// Families means that the list of families is incomplete.
type Observation struct {
	ID            identity.ID
	Closed        bool            // a closed child, which nobody outside its tree calls
	Tenant, Owner string          // tenant that it is hosted for; owner in its signed listing
	Families      []string        // of its substrates, distinct; "unknown" and "composite" are missing evidence
	Activity      []float64       // hourly counts of calls from outside the tree, Buckets in all
	Responses     int             // number of responses that Style was computed from
	Style         []float64       // collusion.StyleVector, not centred
	Why           map[Name]string // reasons for missing parts
}

// Pair is a child and a vacant compared with it.
type Pair struct {
	With identity.ID
	Role Role
	A, B Observation // of the child and of the other
	// Ancestor means that the two have a common ancestor even without the edge
	// between parent and child.
	Ancestor bool
}

// Evidence is a detector's input.
type Evidence struct {
	Child, Parent identity.ID
	Pairs         []Pair
}

// Name names a signal.
type Name string

// The signals. The first four together form the strength that the reference calls
// same_controller.
const (
	Declared  Name = "declared"
	Ancestor  Name = "ancestor"
	Activity  Name = "activity"
	Behaviour Name = "behaviour"
	Substrate Name = "substrate"
	Style     Name = "style"
)

// SignalState tells whether a signal has evidence.
type SignalState string

// The states of a signal.
const (
	SignalObserved SignalState = "observed"
	SignalMissing  SignalState = "missing"  // refused in strict mode if the signal could block
	SignalExcluded SignalState = "excluded" // not part of the policy
)

// Inputs are the values that a signal was computed from.
type Inputs struct {
	Similarity float64 `json:"similarity,omitempty"` // before the threshold
	A          string  `json:"a,omitempty"`          // of the child
	B          string  `json:"b,omitempty"`          // of the other
	SamplesA   int     `json:"samples_a,omitempty"`
	SamplesB   int     `json:"samples_b,omitempty"`
	// StyleA and StyleB are rounded to four digits.
	StyleA []float64 `json:"style_a,omitempty"`
	StyleB []float64 `json:"style_b,omitempty"`
}

// Signal is one similarity of a pair.
type Signal struct {
	Name     Name        `json:"name"`
	State    SignalState `json:"state"`
	Strength float64     `json:"strength"`
	Blocks   bool        `json:"blocks"` // it may refuse under this policy
	Why      string      `json:"why,omitempty"`
	Inputs   *Inputs     `json:"inputs,omitempty"`
}

// Finding is the result for one pair.
type Finding struct {
	With    identity.ID `json:"with"`
	Role    Role        `json:"role"`
	Signals []Signal    `json:"signals"`
}

// Findings are a detector's results, with the policy.
type Findings struct {
	Policy Policy    `json:"policy"`
	Pairs  []Finding `json:"pairs"`
}

// FromStrengths returns the findings of a detector that has only the three strengths of
// the reference's interface.
func FromStrengths(p Policy, parent identity.ID, controller, substrate, stylo float64) Findings {
	return Findings{Policy: p, Pairs: []Finding{{With: parent, Role: Parent, Signals: []Signal{
		{Name: Declared, State: SignalObserved, Strength: controller, Blocks: true},
		{Name: Substrate, State: SignalObserved, Strength: substrate, Blocks: true},
		{Name: Style, State: SignalObserved, Strength: stylo, Blocks: true},
	}}}}
}

// Check returns a Damaged error that names the first signal with an invalid
// strength or state.
func (f Findings) Check() error {
	if err := f.Policy.Check(); err != nil {
		return problem.Wrap(problem.Damaged, err, "findings: %s", problem.Of(err).Text())
	}
	for _, pair := range f.Pairs {
		for _, s := range pair.Signals {
			if math.IsNaN(s.Strength) || s.Strength < 0 || s.Strength > 1 {
				return problem.New(problem.Damaged, "signal %s against %s: expected 0 to 1, got %s", s.Name, pair.With.Short(), strconv.FormatFloat(s.Strength, 'g', -1, 64))
			}
			switch s.State {
			case SignalObserved, SignalMissing, SignalExcluded:
			default:
				return problem.New(problem.Damaged, "signal %s against %s: expected a state, got %.20q", s.Name, pair.With.Short(), string(s.State))
			}
		}
	}
	return nil
}

// strengths are the three numbers of the reference's interface.
type strengths struct{ controller, substrate, stylo float64 }

func (s strengths) max() float64 { return max(s.controller, s.substrate, s.stylo) }

func (f *Finding) strengths() (s strengths) {
	for _, g := range f.Signals {
		if !g.Blocks || g.State != SignalObserved {
			continue
		}
		switch g.Name {
		case Substrate:
			s.substrate = max(s.substrate, g.Strength)
		case Style:
			s.stylo = max(s.stylo, g.Strength)
		default:
			s.controller = max(s.controller, g.Strength)
		}
	}
	return s
}

// Judge is the collusion check, the third of the gate. It refuses with kind Collusion, in the reference's
// wording, if the most similar pair reaches the threshold. In strict mode it
// also refuses missing evidence, and names the signal. Invalid findings are
// Damaged.
func (f Findings) Judge() error {
	if err := f.Check(); err != nil {
		return err
	}
	if len(f.Pairs) == 0 {
		return problem.New(problem.Damaged, "findings: expected the parent's, got none")
	}
	worst := 0
	for i := range f.Pairs {
		if f.Pairs[i].strengths().max() > f.Pairs[worst].strengths().max() {
			worst = i
		}
	}
	if s := f.Pairs[worst].strengths(); s.max() >= f.Policy.Threshold {
		against := ""
		if f.Pairs[worst].Role == Sibling {
			against = " against sibling " + f.Pairs[worst].With.Short()
		}
		return problem.New(problem.Collusion, "collusion signals too high for graduation: controller=%.2f, substrate=%.2f, stylo=%.2f (threshold %s)%s",
			s.controller, s.substrate, s.stylo, canon.AppendFloat(nil, f.Policy.Threshold), against)
	}
	if f.Policy.Mode != Strict {
		return nil
	}
	for _, pair := range f.Pairs {
		for _, s := range pair.Signals {
			if s.State == SignalMissing && s.Blocks {
				because := ""
				if s.Why != "" {
					because = " (" + s.Why + ")"
				}
				return problem.New(problem.Collusion, "evidence is missing for graduation: %s against %s %s%s", s.Name, pair.Role, pair.With.Short(), because)
			}
		}
	}
	return nil
}
