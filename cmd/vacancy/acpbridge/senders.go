package acpbridge

import (
	"context"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Message is a prompt for the agent. Mode, Model and Servers apply only to dispatched tasks.
type Message struct {
	ID, Context, Text string
	QuestionTask      string // task whose question the message answers, or ""
	Mode, Model       string
	Servers           []task.Server
}

// Sender sends a message, and passes the agent's answers to yield until yield returns false or the
// turn ends. Implementations other than SignedSender may return after yield has received a task,
// because the bridge then follows the task.
type Sender interface {
	Send(ctx context.Context, m Message, yield func(a2awire.Answer) bool) error
}

// UnsignedSender sends messages without a signature.
type UnsignedSender struct{ Agent *agents.Agent }

// Send implements Sender.
func (p UnsignedSender) Send(ctx context.Context, m Message, yield func(a2awire.Answer) bool) error {
	return sendMessage(ctx, p.Agent, task.Message{
		ID: m.ID, Context: m.Context, Task: m.QuestionTask, Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: m.Text}},
	}, yield)
}

func sendMessage(ctx context.Context, agent *agents.Agent, m task.Message, yield func(a2awire.Answer) bool) error {
	q := a2awire.SendRequest{OutputModes: []string{"text/plain"}, Message: m}
	if agent.Card.Streaming {
		return agent.Stream(ctx, q, yield)
	}
	answer, err := agent.Send(ctx, q)
	if err == nil {
		yield(answer)
	}
	return err
}

// Dispatcher dispatches messages as tasks of an account to its own agent.
type Dispatcher struct {
	Client   op.Client
	AgentRef string // name or id
	Logf     func(format string, args ...any)
}

// Send implements Sender.
func (d Dispatcher) Send(ctx context.Context, m Message, yield func(a2awire.Answer) bool) (err error) {
	id := m.QuestionTask
	if id != "" {
		_, err = teamapi.AnswerTask.Key.Call(ctx, d.Client, teamapi.AnswerRequest{TaskRef: teamapi.TaskRef{ID: id}, Key: m.ID, Body: teamapi.Answer{Text: m.Text}})
	} else {
		var started team.Started
		started, err = teamapi.Dispatch.Key.Call(ctx, d.Client, teamapi.DispatchRequest{Key: m.ID, Body: teamapi.NewTask{Agent: d.AgentRef, Task: m.Text, Mode: m.Mode, Model: m.Model, MCPServers: m.Servers}})
		id = started.TaskID
		for _, w := range started.Warnings {
			d.Logf("warning: %s", w)
		}
	}
	if err == nil {
		yield(a2awire.Answer{Event: task.Event{Task: &task.Task{ID: id, Status: task.Status{State: task.Submitted}}}})
	}
	return err
}

// SignedSender signs messages, and verifies their answers.
type SignedSender struct {
	Agent  *agents.Agent
	Caller *dispatch.Caller
	Target dispatch.Target
}

const (
	outcomeTimeout = 10 * time.Second
	outcomePause   = time.Second
)

// fetchOutcomes fetches the outcomes of earlier calls, because the next call is linked to them in a
// hash chain. The outcome of a canceled call may still be pending, so fetchOutcomes retries.
func (s SignedSender) fetchOutcomes(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, outcomeTimeout)
	defer cancel()
	for {
		_, err := s.Caller.Ask(ctx, s.Target)
		if !problem.Is(err, problem.Pending) || retry.Sleep(ctx, outcomePause) != nil {
			return err
		}
	}
}

// Send implements Sender. It verifies a signed answer before it passes the end of the turn to
// yield.
func (s SignedSender) Send(ctx context.Context, m Message, yield func(a2awire.Answer) bool) error {
	if err := s.fetchOutcomes(ctx); err != nil {
		return err
	}
	_, res, err := s.Caller.SignRequest(ctx, s.Target, envelope.Message{Role: envelope.RoleUser, Parts: []string{m.Text}, MessageID: &m.ID, ContextID: &m.Context})
	if err != nil {
		return err
	}
	requestHash, message := res.RequestHash, a2awire.EnvelopeMessage(&res.Request)
	message.Task = m.QuestionTask
	var t task.Task
	var finalAnswer a2awire.Answer
	err = sendMessage(ctx, s.Agent, message, func(a a2awire.Answer) bool {
		t.Apply(a.Event)
		if a.Message != nil || endsTurn(t.Status.State) {
			finalAnswer = a
			return false
		}
		return yield(a)
	})
	answer := t.Status.Message
	if finalAnswer.Message != nil {
		answer = finalAnswer.Message
	}
	var reply *envelope.Envelope
	if answer != nil {
		reply, _ = a2awire.ParseEnvelope(answer) // if it is nil, the next Send asks for the outcome of this call
	}
	if reply == nil {
		if err == nil {
			yield(finalAnswer)
		}
		return err
	}
	acceptCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outcomeTimeout)
	defer cancel()
	var streamedText *string
	if finalAnswer.Message == nil {
		streamedText = new(answerText(&t))
	}
	if _, err = s.Caller.AcceptStream(acceptCtx, s.Target, requestHash, reply, streamedText); err == nil {
		yield(finalAnswer)
	}
	return err
}
