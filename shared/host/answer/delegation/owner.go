package delegation

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type DelegatedAnswer struct {
	Text           string
	Request, Reply identity.Hash // hashes of the envelopes
}

// Delegate lets parent's owner delegate a task to a child. The account in credential pays for the
// calls that answer the task.
func (r *Runner) Delegate(ctx context.Context, v Vacants, calls *call.Host, credential call.Credential, parent, child identity.ID, task string) (DelegatedAnswer, error) {
	ctx, path := extendDelegationPath(ctx, parent)
	paid := &paidCalls{pipeline: calls, credential: credential}
	parentRun := &run{Runner: r, host: host{v, paid}, path: path, question: substrate.Request{Vacant: parent}}
	res, err := parentRun.delegate(ctx, &plan.Delegation{Child: child.String(), Task: task}, task)
	return DelegatedAnswer{res.cutReason.AppendRemark(res.text), paid.request, paid.reply}, asDeadlineError(ctx, err)
}

type paidCalls struct {
	pipeline       *call.Host
	credential     call.Credential
	request, reply identity.Hash
}

func (p *paidCalls) Send(ctx context.Context, route identity.ID, e *envelope.Envelope) call.Outcome {
	out := p.pipeline.SendWith(ctx, route, e, call.Options{Credential: p.credential})
	p.request, p.reply = out.Hash, identity.Hash{}
	if out.Reply != nil {
		p.reply = out.Reply.Hash()
	}
	return out
}
