package vacants

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// CheckText is the message of CheckAgent.
const CheckText = "Are you there? Your host asks this once, when a vacant is made or changed, and keeps no answer."

// checkTime bounds CheckAgent, so that it fits an operator's request.
const checkTime = 10 * time.Second

// CheckAgent asks the agent at the URL of id's substrate one question, as if id
// asked itself. The error says why a call would fail now (substrate.Substrate).
// Vacants without such an agent pass.
func (v *Directory) CheckAgent(ctx context.Context, id identity.ID) error {
	r, err := v.get(ctx, id)
	if err != nil {
		return err
	}
	spec, err := substrate.Parse(r.Substrate)
	if err != nil {
		return err
	}
	s, _, err := v.openAgent(ctx, &r, nil)
	if err != nil || spec.Endpoint() == "" {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	_, err = substrate.Fold(s.Infer(ctx, substrate.Ask(id, id, CheckText)))
	if _, _, ok := spec.Model(); ok && problem.Is(err, problem.Deadline) {
		return nil // it is there: a model is loaded for the first question, which may take long
	}
	return err
}
