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

// Message is a prompt for the agent. Mode, Model and Servers, if not empty, are settings of a dispatched task.
type Message struct {
	ID, Context, Text string
	Task              string // task whose question the message answers, or ""
	Mode, Model       string
	Servers           []task.Server
}

// Sender sends messages. Send passes the agent's answers to take until take returns false, the turn ends or the
// connection fails. Except in Signed, Send may return once it has passed a task to take, because the bridge then
// follows the task itself.
type Sender interface {
	Send(ctx context.Context, m Message, take func(a2awire.Answer) bool) error
}

// Plain sends messages without a signature.
type Plain struct{ Agent *agents.Agent }

// Send implements Sender.
func (p Plain) Send(ctx context.Context, m Message, take func(a2awire.Answer) bool) error {
	return deliver(ctx, p.Agent, task.Message{
		ID: m.ID, Context: m.Context, Task: m.Task, Role: task.User, Parts: []task.Part{{Kind: task.Text, Text: m.Text}},
	}, take)
}

func deliver(ctx context.Context, agent *agents.Agent, m task.Message, take func(a2awire.Answer) bool) error {
	q := a2awire.SendRequest{OutputModes: []string{"text/plain"}, Message: m}
	if agent.Card.Streaming {
		return agent.Stream(ctx, q, take)
	}
	answer, err := agent.Send(ctx, q)
	if err == nil {
		take(answer)
	}
	return err
}

// Dispatcher dispatches messages as tasks of an account to its own agent.
type Dispatcher struct {
	Client op.Client
	Agent  string // name or id
	Note   func(format string, args ...any)
}

// Send implements Sender.
func (d Dispatcher) Send(ctx context.Context, m Message, take func(a2awire.Answer) bool) (err error) {
	id := m.Task
	if id != "" {
		_, err = teamapi.AnswerTask.Key.Call(ctx, d.Client, teamapi.Answering{OneTask: teamapi.OneTask{ID: id}, Key: m.ID, Body: teamapi.Answer{Text: m.Text}})
	} else {
		var started team.Started
		started, err = teamapi.Dispatch.Key.Call(ctx, d.Client, teamapi.Dispatching{Key: m.ID, Body: teamapi.NewTask{Agent: d.Agent, Task: m.Text, Mode: m.Mode, Model: m.Model, MCPServers: m.Servers}})
		id = started.TaskID
		for _, w := range started.Warnings {
			d.Note("warning: %s", w)
		}
	}
	if err == nil {
		take(a2awire.Answer{Event: task.Event{Task: &task.Task{ID: id, Status: task.Status{State: task.Submitted}}}})
	}
	return err
}

// Signed signs messages, and verifies their answers.
type Signed struct {
	Agent  *agents.Agent
	Caller *dispatch.Caller
	Target dispatch.Target
}

// Limits on the requests before and after a signed message.
const (
	settleTime  = 10 * time.Second
	settlePause = time.Second
)

// settle fetches the outcomes of earlier calls, because the next call is linked to them in a hash chain. It retries while
// an outcome is pending, because the host soon decides a call that the client has canceled.
func (s Signed) settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for {
		_, err := s.Caller.Ask(ctx, s.Target)
		if !problem.Is(err, problem.Pending) || retry.Sleep(ctx, settlePause) != nil {
			return err
		}
	}
}

// Send implements Sender. If the turn ends with a signed answer, Send verifies the answer and compares it with the
// streamed text before it passes on the end of the turn.
func (s Signed) Send(ctx context.Context, m Message, take func(a2awire.Answer) bool) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	_, res, err := s.Caller.SignRequest(ctx, s.Target, envelope.Message{Role: envelope.RoleUser, Parts: []string{m.Text}, MessageID: &m.ID, ContextID: &m.Context})
	if err != nil {
		return err
	}
	sent, message := res.RequestHash, a2awire.EnvelopeMessage(&res.Request)
	message.Task = m.Task
	var t task.Task
	var last a2awire.Answer // end of the turn, which is passed on once it is verified
	err = deliver(ctx, s.Agent, message, func(a a2awire.Answer) bool {
		t.Apply(a.Event)
		if a.Message != nil || isEnd(t.Status.State) {
			last = a
			return false
		}
		return take(a)
	})
	answer := t.Status.Message
	if last.Message != nil {
		answer = last.Message
	}
	var reply *envelope.Envelope
	if answer != nil {
		reply, _ = a2awire.ParseEnvelope(answer) // if it is nil, the next Send asks for the outcome of this call
	}
	if reply == nil {
		if err == nil {
			take(last)
		}
		return err
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	var streamed *string
	if last.Message == nil {
		streamed = new(answerText(&t))
	}
	if _, err = s.Caller.AcceptStream(settling, s.Target, sent, reply, streamed); err == nil {
		take(last)
	}
	return err
}
