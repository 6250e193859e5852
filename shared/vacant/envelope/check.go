package envelope

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	MaxParts   = 64
	MaxIDBytes = 512 // contextId, messageId and idempotency key
)

// Check returns an error if the recipient's strict decoder would refuse m.
func (m Message) Check() error {
	if err := m.Role.check(); err != nil {
		return err
	}
	if len(m.Parts) > MaxParts {
		return problem.Invalid("parts", fmt.Sprintf("at most %d parts", MaxParts), fmt.Sprint(len(m.Parts)))
	}
	for i, p := range m.Parts {
		if !utf8.ValidString(p) {
			return problem.Invalid(fmt.Sprintf("parts[%d].text", i), "UTF-8", "other bytes")
		}
	}
	if m.ContextID != nil {
		if err := checkID("contextId", *m.ContextID); err != nil {
			return err
		}
	}
	if m.MessageID != nil {
		if err := checkID("messageId", *m.MessageID); err != nil {
			return err
		}
	}
	if s := m.SelfEval; s != nil {
		for _, f := range []float64{s.Adoption, s.Confidence, s.Factual, s.Honesty, s.Logical, s.Relevance} {
			if math.IsNaN(f) || f < 0 || f > 1 {
				return problem.Invalid("selfEval", "six numbers from 0 to 1", fmt.Sprint(f))
			}
		}
	}
	return nil
}

func (r Role) check() error {
	switch r {
	case RoleUser, RoleAgent, RoleTool:
		return nil
	}
	return problem.Invalid("role", "ROLE_USER, ROLE_AGENT or ROLE_TOOL", fmt.Sprintf("%.40q", string(r)))
}

func checkID(field, s string) error {
	switch {
	case !utf8.ValidString(s):
		return problem.Invalid(field, "UTF-8", "other bytes")
	case len(s) > MaxIDBytes:
		return problem.Invalid(field, fmt.Sprintf("at most %d bytes", MaxIDBytes), fmt.Sprint(len(s)))
	}
	return nil
}
