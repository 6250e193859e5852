package delegation

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/loop"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const toolPrefix = "vacant__"

const messageSchema = `{"type":"object","properties":{"message":{"type":"string","description":"what to ask or tell it"}},"required":["message"],"additionalProperties":false}`

// VacantTools returns a tool for each asked vacant that the agent of asker may ask now. In the
// returned context, the calls of the tools count as delegations.
func (r *Runner) VacantTools(ctx context.Context, v Vacants, c Calls, asker identity.ID, asked []identity.ID) (context.Context, loop.Offer, error) {
	ctx, path := extendDelegationPath(ctx, asker)
	toolRun := &run{Runner: r, host: host{v, c}, path: path, question: substrate.Request{Vacant: asker}}
	var offer loop.Offer
	for _, id := range asked {
		callee, ok, err := v.FindAskable(ctx, asker, id)
		if err != nil {
			return ctx, loop.Offer{}, err
		}
		if !ok {
			offer.OmittedTools.Add(call.OmittedTool{Name: loop.SanitizeName(toolPrefix + id.Short()), Reason: "the vacant does not accept calls now, or not from this agent", Remedy: "vacants without it"})
			continue
		}
		if err := toolRun.checkReach(ctx, &callee); err != nil {
			// A failure of this host ends the call. A refusal only omits the tool.
			if problem.AsError(err).Kind.Forms().HTTPStatus >= http.StatusInternalServerError {
				return ctx, loop.Offer{}, err
			}
			offer.OmittedTools.Add(call.OmittedTool{Name: loop.SanitizeName(toolPrefix + callee.Name), Reason: "the agent may not reach the vacant: " + substrate.Excerpt([]byte(problem.AsError(err).Text())), Remedy: "vacants without it"})
			continue
		}
		offer.Tools = append(offer.Tools, loop.Tool{
			Tool:   substrate.Tool{Name: toolPrefix + callee.Name, Description: "Asks the agent " + callee.Name + ": " + callee.Capability, Schema: json.RawMessage(messageSchema)},
			Spends: true,
			Run: func(ctx context.Context, _ *substrate.Request, arguments json.RawMessage) (string, error) {
				limits := canon.DefaultLimits()
				limits.Depth, limits.Lenient = 2, true
				var asked struct {
					Message string `json:"message" canon:"required"`
				}
				err := canon.Unmarshal(arguments, &asked, limits)
				if err == nil && asked.Message == "" {
					err = problem.Invalid("message", "a text", "none")
				}
				if err != nil {
					return "", err
				}
				text, err := toolRun.askVacant(ctx, id, asked.Message)
				if err != nil {
					return "", problem.WithPlace(problem.AsError(err).Kind, callee.Name, err)
				}
				return text, nil
			},
		})
	}
	loop.MakeNamesUnique(offer.Tools)
	return ctx, offer, nil
}

func (r *run) askVacant(ctx context.Context, id identity.ID, message string) (string, error) {
	// In a dispatched task, a vacant that waits for this answer must not be asked.
	if slices.Contains(r.path.ids, id) && task.IsDispatched(ctx) {
		return "", problem.New(problem.Conflict, "it is waiting for this answer: agents cannot ask each other in a circle")
	}
	if err := r.path.checkDepth(); err != nil {
		return "", err
	}
	if err := r.path.countDelegation(); err != nil {
		return "", err
	}
	callee, err := r.loadIfTimeRemains(ctx, id)
	if err != nil {
		return "", err
	}
	if err := r.checkReach(ctx, &callee); err != nil {
		return "", err
	}
	text, cutReason, err := r.ask(ctx, id, message)
	return cutReason.AppendRemark(text), err
}

func (r *run) checkReach(ctx context.Context, callee *vacants.Record) error {
	if r.Guard == nil || callee.Parent != nil && *callee.Parent == r.question.Vacant {
		return nil
	}
	c, err := card.Parse(callee.Card)
	if err != nil {
		return err
	}
	return r.Guard(ctx, outbound.VacantActor(r.question.Vacant, outbound.Stranger).WithCallee(&c), c.Endpoint)
}
