package answer

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/answer/delegation"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (a *Answerer) Delegate(ctx context.Context, calls *call.Host, credential call.Credential, parent, child identity.ID, task string) (delegation.DelegatedAnswer, error) {
	return a.delegationRunner.Delegate(ctx, a.vacants, calls, credential, parent, child, task)
}
