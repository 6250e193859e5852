package gate

import (
	"fmt"
	"math"
	"strconv"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Role is what the other of a pair is to the child.
type Role string

// The roles.
const (
	Parent  Role = "parent"
	Sibling Role = "sibling"
)

// MinResponses is how many responses of each a comparison of style asks for.
const MinResponses = 50

// Buckets is how many hours of activity a comparison asks for: seven days.
const Buckets = 7 * 24

// Observation is what a host itself has seen of a vacant. What it has not seen
// is empty or nil, and Why says, by the name of the signal, for what reason. With
// families Why says that there are others, which are not known.
type Observation struct {
	ID            identity.ID
	Closed        bool            // a closed child, whom nobody outside its tree calls
	Tenant, Owner string          // whom it is hosted for; whom its signed listing names
	Families      []string        // what serves it, each once; "unknown" and "composite" are missing
	Activity      []float64       // Buckets hourly counts of calls from outside the tree
	Responses     int             // how many Style is made of
	Style         []float64       // collusion.Vec16, not centred
	Why           map[Name]string // of what is missing
}

// Pair is a child beside one other.
type Pair struct {
	With identity.ID
	Role Role
	A, B Observation // the child, the other
	// Ancestor says that their lineages meet elsewhere than in the edge between
	// parent and child.
	Ancestor bool
}

// Evidence is all that a detector gets.
type Evidence struct {
	Child, Parent identity.ID
	Pairs         []Pair
}

// Name is the name of a signal.
type Name string

// The signals. Declared, Ancestor, Activity and Behaviour are layers of
// same_controller.
const (
	Declared  Name = "declared"
	Ancestor  Name = "ancestor"
	Activity  Name = "activity"
	Behaviour Name = "behaviour"
	Substrate Name = "substrate"
	Style     Name = "style"
)

// SignalState says whether a signal was there to be seen.
type SignalState string

// The states of a signal.
const (
	SignalObserved SignalState = "observed"
	SignalMissing  SignalState = "missing"  // strict refuses on it where it could block
	SignalExcluded SignalState = "excluded" // the policy does not ask for it
)

// Inputs are what a signal was computed from, as far as numbers and words go.
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

// Signal is one likeness of a pair.
type Signal struct {
	Name     Name        `json:"name"`
	State    SignalState `json:"state"`
	Strength float64     `json:"strength"`
	Blocks   bool        `json:"blocks"` // under this policy it may refuse
	Why      string      `json:"why,omitempty"`
	Inputs   *Inputs     `json:"inputs,omitempty"`
}

// Finding is what was found of one pair.
type Finding struct {
	With    identity.ID `json:"with"`
	Role    Role        `json:"role"`
	Signals []Signal    `json:"signals"`
}

// Findings is what a detector found, and under which policy.
type Findings struct {
	Policy Policy    `json:"policy"`
	Pairs  []Finding `json:"pairs"`
}

// Given is the findings of a detector that says no more than the three
// strengths of the reference's interface.
func Given(p Policy, parent identity.ID, controller, substrate, stylo float64) Findings {
	return Findings{Policy: p, Pairs: []Finding{{With: parent, Role: Parent, Signals: []Signal{
		{Name: Declared, State: SignalObserved, Strength: controller, Blocks: true},
		{Name: Substrate, State: SignalObserved, Strength: substrate, Blocks: true},
		{Name: Style, State: SignalObserved, Strength: stylo, Blocks: true},
	}}}}
}

// Check says whether f can be judged: nil, or Damaged, naming the signal that
// is no strength.
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

// strengths are the three that the reference has names for.
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

// Judge is the third check: nil, a refusal of kind Collusion in the words of
// the reference for the pair that is most alike, or Damaged for findings that
// cannot be judged. In strict mode evidence that is missing refuses too, and is
// named.
func (f Findings) Judge() error {
	if err := f.Check(); err != nil {
		return err
	}
	if len(f.Pairs) == 0 {
		return problem.New(problem.Damaged, "findings: expected those of the parent, got none")
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
				return problem.New(problem.Collusion, "evidence is missing for graduation: %s against %s %s%s", s.Name, pair.Role, pair.With.Short(), because(s.Why))
			}
		}
	}
	return nil
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return fmt.Sprintf(" (%s)", why)
}
