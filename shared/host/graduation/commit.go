package graduation

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// commit makes the child public, or changes nothing. Until the host can plan
// one, every commit fails.
func (s *Service) commit(context.Context, Attempt, *gate.Findings) error {
	return problem.New(problem.Unavailable, "this host cannot commit a graduation")
}
