package acpbridge

import (
	"context"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/team"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Message is a prompt for the agent. Mode and Model, if not empty, are settings of a dispatched task.
type Message struct {
	ID, Context, Text string
	Task              string // task whose question the message answers, or ""
	Mode, Model       string
}

// Sender sends messages. Send passes the agent's answers to take until take returns false, the turn ends or the
// connection breaks off; at the least it passes on the task that answers.
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
}

// Send implements Sender.
func (d Dispatcher) Send(ctx context.Context, m Message, take func(a2awire.Answer) bool) error {
	id, err := m.Task, error(nil)
	if id != "" {
		_, err = teamapi.AnswerTask.Key.Call(ctx, d.Client, teamapi.Answering{OneTask: teamapi.OneTask{ID: id}, Key: m.ID, Body: teamapi.Answer{Text: m.Text}})
	} else {
		var started team.Started
		started, err = teamapi.Dispatch.Key.Call(ctx, d.Client, teamapi.Dispatching{Key: m.ID, Body: teamapi.NewTask{Agent: d.Agent, Task: m.Text, Mode: m.Mode, Model: m.Model}})
		id = started.TaskID
	}
	if err == nil {
		take(a2awire.Answer{Event: task.Event{Task: &task.Task{ID: id, Status: task.Status{State: task.Submitted}}}})
	}
	return err
}

// steps returns the thoughts and the calls of tools of a task.
func (d Dispatcher) steps(ctx context.Context, id string) ([]task.TraceEntry, error) {
	t, err := teamapi.ShowTask.Key.Call(ctx, d.Client, teamapi.Waiting{OneTask: teamapi.OneTask{ID: id}, Steps: true})
	return t.Steps, err
}

// Signed signs messages, and verifies their answers.
type Signed struct {
	Agent  *agents.Agent
	Caller *dispatch.Caller
	Target dispatch.Target
}

const (
	settleTime  = 10 * time.Second // limit of the work after the answer
	settleTries = 10
	settlePause = time.Second
)

// settle asks for the fate of earlier calls, because a call continues their chain. A canceled call is decided soon.
func (s Signed) settle(ctx context.Context) (err error) {
	for range settleTries {
		if _, err = s.Caller.Ask(ctx, s.Target); !problem.Is(err, problem.Pending) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(settlePause):
		}
	}
	return err
}

// Send implements Sender. The streamed text counts once the signed answer confirms it.
func (s Signed) Send(ctx context.Context, m Message, take func(a2awire.Answer) bool) error {
	if err := s.settle(ctx); err != nil {
		return err
	}
	_, res, err := s.Caller.Print(ctx, s.Target, envelope.Message{Role: envelope.RoleUser, Parts: []string{m.Text}, MessageID: &m.ID, ContextID: &m.Context})
	if err != nil {
		return err
	}
	sent, message := res.RequestHash, a2awire.SignedMessage(&res.Request)
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
		reply, _ = a2awire.Signed(answer) // without one, the next message asks for the fate of the call
	}
	if reply == nil {
		if err == nil {
			take(last)
		}
		return err
	}
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	res, err = s.Caller.Accept(settling, s.Target, envelope.AppendResponse(nil, nil, reply))
	switch streamed := answerText(&t); {
	case err != nil:
		return err
	case res.RequestHash != sent || res.Reply == nil:
		return problem.New(problem.Untrusted, "the answer belongs to another call of %s", s.Target.ID.Short())
	case last.Message == nil && streamed != res.Reply.Payload.Text():
		return problem.New(problem.Untrusted, "the streamed text differs from the answer that %s signed", s.Target.ID.Short())
	}
	take(last)
	return nil
}

// headers is an agents.HTTP that changes each request.
type headers struct {
	agents.HTTP
	change func(context.Context, *outbound.Request) error
}

// WithHeaders returns h with a change of each request.
func WithHeaders(h agents.HTTP, change func(context.Context, *outbound.Request) error) agents.HTTP {
	return headers{h, change}
}

// Do implements agents.HTTP.
func (h headers) Do(ctx context.Context, r outbound.Request) (outbound.Reply, error) {
	if err := h.change(ctx, &r); err != nil {
		return outbound.Reply{}, err
	}
	return h.HTTP.Do(ctx, r)
}

// Open implements agents.HTTP.
func (h headers) Open(ctx context.Context, r outbound.Request) (*http.Response, error) {
	if err := h.change(ctx, &r); err != nil {
		return nil, err
	}
	return h.HTTP.Open(ctx, r)
}
