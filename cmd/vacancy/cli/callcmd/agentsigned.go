package callcmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// streamSigned makes a signed call as a stream. The printed text is valid only after the signed
// answer at the end has confirmed it.
func streamSigned(a *kit.App, ctx context.Context, f callFlags, agent *agents.Agent, httpClient *dispatch.HTTP, address string, words []string) error {
	target, err := dispatch.FetchTarget(ctx, httpClient, address)
	switch {
	case err != nil:
		return kit.NotVacantError{Cause: err}
	case target.ID != agent.Card.VacantID:
		return problem.New(problem.Untrusted, "the agent card at %s names vacant %s, but the vacant's own card at this URL names %s", address, agent.Card.VacantID.Short(), target.ID.Short())
	}
	self, err := a.ChooseSigner(ctx, f.identityName)
	if err != nil {
		return err
	}
	msg, thread, err := callMessage(a, f, words, f.thread != "", target.HasMemory)
	if err != nil {
		return err
	}
	if err := checkText(msg.Text()); err != nil {
		return err
	}
	caller := a.NewDispatcher(self, httpClient, f.timeout)
	caller.Thread = thread
	_, res, err := caller.SignRequest(ctx, target, msg)
	if err != nil {
		return showCall(a, NewCallResult(self, target, res), err, nil)
	}
	requestHash := res.RequestHash
	t, messageAnswer, hasPrinted, err := streamMessage(a, ctx, agent, a2awire.SendRequest{OutputModes: []string{"text/plain"}, Message: a2awire.EnvelopeMessage(&res.Request)})
	if err != nil {
		return addStoredCallHint(f.agent.quotedTarget, addKeyHint(a, ctx, err, f, address))
	}
	answer := t.Status.Message
	if messageAnswer != nil {
		answer = messageAnswer.Message
	}
	var reply *envelope.Envelope
	if answer != nil {
		if reply, err = a2awire.ParseEnvelope(answer); err != nil {
			return problem.New(problem.Untrusted, "the envelope of the answer does not decode: %s", problem.AsError(err).Text())
		}
	}
	var streamedText *string
	if hasPrinted {
		streamedText = new("")
		for i := range t.Artifacts {
			for _, p := range t.Artifacts[i].Parts {
				*streamedText += p.Text
			}
		}
	}
	switch {
	case reply != nil:
		res, err = caller.AcceptStream(ctx, target, requestHash, reply, streamedText)
	case messageAnswer == nil && !t.Status.State.IsTerminal():
		return addStoredCallHint(f.agent.quotedTarget, problem.New(problem.Unavailable, "the stream ended while task %s was %s", kit.EscapeLine(t.ID), kit.EscapeLine(string(t.Status.State))))
	default:
		// The task has no signed answer, so a signed request asks for the outcome.
		if res, err = caller.Ask(ctx, target); err == nil {
			err = problem.New(problem.BehaviourFailed, "task %s is %s without a signed answer", kit.EscapeLine(t.ID), kit.EscapeLine(string(t.Status.State)))
		}
	}
	if answer != nil && res.CutReason == "" {
		res.CutReason = a2awire.CutReason(answer)
	}
	result := NewCallResult(self, target, res)
	result.hasNewThread = thread == dispatch.NewThread && result.Text != nil
	printResult := answerPrinter(a, result)
	if hasPrinted {
		printResult = func(w io.Writer) { fmt.Fprintln(w) }
	}
	return showCall(a, result, err, printResult)
}

func addStoredCallHint(targetArgument string, err error) error {
	var rpcErr *a2awire.RPCError
	if h := new(kit.HintedError); errors.As(err, &h) {
		return err
	}
	if errors.As(err, &rpcErr) {
		return kit.WithHint(err, "vacancy call %s --ask, or the same command without --stream", targetArgument)
	}
	err = problem.Wrap(problem.Pending, err, "the stream ended without an answer, but the signed call is stored: %s", problem.AsError(err).Text())
	return kit.WithHint(err, "vacancy call %s --ask, or the same command again", targetArgument)
}
