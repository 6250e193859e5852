package acpbridge

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"

	"github.com/vacancy-host/vacancy/shared/front/teamapi"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
)

const (
	// cancelTime limits the wait for the task of a canceled prompt, and its cancellation at the agent's host.
	cancelTime = 10 * time.Second
	// followPause is the time between two tries to follow a task, and maxFailures limits the tries in a row that fail.
	followPause = time.Second
	maxFailures = 60
	// stepPause is the time between two requests for the steps of a dispatched task.
	stepPause = 2 * time.Second
)

// turn is a running prompt. The session's lock guards its fields.
type turn struct {
	stop     context.CancelFunc
	canceled bool
	task     task.Task
	said     string // text of the answer that was sent
	steps    int    // number of steps that were sent
	calls    map[string]acp.ToolCallId
}

func busy(id string) error {
	return problem.New(problem.Conflict, "a prompt of session %s is running; wait for its end, or cancel it", id)
}

// promptText joins the texts of blocks. A block without a text is ignored.
func promptText(blocks []acp.ContentBlock) string {
	var texts []string
	for _, c := range blocks {
		switch {
		case c.Text != nil:
			texts = append(texts, c.Text.Text)
		case c.ResourceLink != nil:
			texts = append(texts, c.ResourceLink.Uri)
		case c.Resource != nil && c.Resource.Resource.TextResourceContents != nil:
			r := c.Resource.Resource.TextResourceContents
			texts = append(texts, r.Uri+":", r.Text)
		}
	}
	return strings.Join(texts, "\n")
}

func (b *Bridge) prompt(ctx context.Context, q *acp.PromptRequest) (r acp.PromptResponse, err error) {
	s, err := b.find(string(q.SessionId))
	if err != nil {
		return r, err
	}
	text := promptText(q.Prompt)
	if strings.TrimSpace(text) == "" {
		return r, problem.Invalid("prompt", "a block with a text", "none")
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	t, m, err := b.begin(ctx, s, text, stop)
	if err != nil {
		return r, err
	}
	err = b.run(running, s, t, m)
	r.StopReason, err = b.end(ctx, s, t, text, err)
	return r, err
}

// begin makes a prompt the running one of its session.
func (b *Bridge) begin(ctx context.Context, s *session, text string, stop context.CancelFunc) (*turn, Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		return nil, Message{}, busy(s.id)
	}
	s.turns++
	m := Message{ID: fmt.Sprintf("%s.%d.%s", s.id, s.turns, rand.Text()[:10]), Context: s.context, Task: s.waiting, Text: text, Mode: s.mode, Model: s.model, Servers: s.servers}
	t := &turn{stop: stop, calls: map[string]acp.ToolCallId{}}
	if m.Task != "" {
		t.steps = s.steps
	} else {
		m.Text = carry(s.carried, text)
	}
	if s.once != "" {
		if err := b.notify(ctx, s, acp.UpdateAgentThoughtText(s.once)); err != nil {
			return nil, m, err
		}
	}
	s.once, s.turn = "", t
	return t, m, nil
}

// run sends a message, and follows its task to the end of the turn. A lost connection does not end the turn.
func (b *Bridge) run(ctx context.Context, s *session, t *turn, m Message) error {
	take := func(a a2awire.Answer) bool { return b.take(ctx, s, t, a) }
	isDone := func() (id string, done bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return t.task.ID, t.canceled || isEnd(t.task.Status.State) || ctx.Err() != nil
	}
	err := b.Send(ctx, m, take)
	id, done := isDone()
	if d, ok := b.Sender.(Dispatcher); ok && id != "" {
		watching, stop := context.WithCancel(ctx)
		var watch sync.WaitGroup
		watch.Go(func() {
			for retry.Sleep(watching, stepPause) == nil {
				b.sendSteps(watching, d, s, t, id)
			}
		})
		defer func() {
			stop()
			watch.Wait()
			b.sendSteps(ctx, d, s, t, id) // those that were stored at the end
		}()
	}
	if _, signs := b.Sender.(Signed); done || id == "" || signs { // a signed answer counts only with its signature
		return err
	}
	for failures := 0; ; {
		_ = b.Agent.Subscribe(ctx, id, take) // an ended task cannot be subscribed to
		if _, done := isDone(); done {
			return nil
		}
		now, err := b.Agent.Get(ctx, id)
		if err == nil {
			failures = 0
			take(a2awire.Answer{Event: task.Event{Task: &now}})
		} else if failures++; ctx.Err() == nil && (failures > maxFailures || !problem.Is(err, problem.Unavailable) && !problem.Is(err, problem.Deadline) && !problem.Is(err, problem.TooMany)) {
			return err
		}
		if _, done := isDone(); done || retry.Sleep(ctx, followPause) != nil {
			return nil
		}
	}
}

// sendSteps sends the steps of a dispatched task that were not sent. If the host does not answer, a later request
// gets them.
func (b *Bridge) sendSteps(ctx context.Context, d Dispatcher, s *session, t *turn, id string) {
	now, err := teamapi.ShowTask.Key.Call(ctx, d.Client, teamapi.Waiting{OneTask: teamapi.OneTask{ID: id}, Steps: true})
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; err == nil && t.steps < len(now.Steps) && !t.canceled; t.steps++ {
		err = b.notify(ctx, s, t.stepUpdate(&now.Steps[t.steps]))
	}
}

// stepUpdate returns the update for the next step. A model may use the id of a call of a tool again after its end, so
// a later call has another id for the client.
func (t *turn) stepUpdate(e *task.TraceEntry) acp.SessionUpdate {
	c := e.Tool
	switch {
	case c == nil:
		return acp.UpdateAgentThoughtText(e.Thought)
	case c.Outcome == "":
		id := acp.ToolCallId(fmt.Sprintf("%s.%d", c.ID, t.steps))
		t.calls[c.ID] = id
		return acp.StartToolCall(id, c.Name, acp.WithStartStatus(acp.ToolCallStatusPending), acp.WithStartRawInput(c.Arguments))
	}
	status := acp.ToolCallStatusFailed
	if c.Outcome == call.ToolOK {
		status = acp.ToolCallStatusCompleted
	}
	return acp.UpdateToolCall(cmp.Or(t.calls[c.ID], acp.ToolCallId(c.ID)), acp.WithUpdateTitle(c.Name), acp.WithUpdateStatus(status), acp.WithUpdateRawOutput(string(c.Outcome)))
}

// isEnd reports whether a turn is over in a state.
func isEnd(s task.State) bool { return s.Terminal() || s.Waits() }

// take applies an answer to the task of a turn, and sends the new text to the client. It returns false to end the stream.
func (b *Bridge) take(ctx context.Context, s *session, t *turn, a a2awire.Answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Message != nil {
		t.task.Status = task.Status{State: task.Completed, Message: a.Message, Time: b.Now()}
		t.task.Context = cmp.Or(t.task.Context, a.Message.Context)
	}
	t.task.Apply(a.Event)
	t.task.ID, t.task.Context = cmp.Or(t.task.ID, a.TaskID), cmp.Or(t.task.Context, a.Context)
	state := t.task.Status.State
	if t.canceled { // the stream is read on until the task that is to be canceled is known
		return t.task.ID == "" && a.Message == nil
	}
	text := answerText(&t.task)
	rest, ok := strings.CutPrefix(text, t.said)
	if !ok && isEnd(state) && text != "" { // the agent has taken back what it said
		rest, ok = "\n\n"+text, true
	}
	if ok && rest != "" && state != task.Failed && state != task.Rejected {
		t.said = text
		if b.notify(ctx, s, acp.UpdateAgentMessageText(rest)) != nil { // the client reads no more
			t.stop()
			return false
		}
	}
	return !isEnd(state)
}

// textOf joins the texts of parts.
func textOf(parts []task.Part) (text string) {
	for i := range parts {
		if parts[i].Kind == task.Text {
			text += parts[i].Text
		}
	}
	return text
}

// answerText returns the text of the answer so far: the artifacts, or the message of the last status of a turn that has
// ended without them.
func answerText(t *task.Task) (text string) {
	for i := range t.Artifacts {
		text += textOf(t.Artifacts[i].Parts)
	}
	if m := t.Status.Message; m != nil && (t.Status.State.Waits() || text == "" && t.Status.State.Terminal()) {
		text = textOf(m.Parts)
	}
	return text
}

// end ends the running prompt of a session. err is the error of run.
func (b *Bridge) end(ctx context.Context, s *session, t *turn, text string, err error) (acp.StopReason, error) {
	s.mu.Lock()
	t.canceled = t.canceled || ctx.Err() != nil && !b.isOver() // the client canceled its request
	id, cancels := t.task.ID, t.canceled && !isEnd(t.task.Status.State)
	s.mu.Unlock()
	if cancels && id != "" {
		canceling, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer stop()
		// If the host does not answer, the task ends by itself. The client does not get its result.
		if _, err := b.Agent.Cancel(canceling, id); err != nil {
			b.Note("task %s was not canceled at its host: %s", id, problem.AsError(err).Text())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn, s.waiting = nil, ""
	if b.Guest {
		s.context = cmp.Or(t.task.Context, s.context)
	}
	state, answer := t.task.Status.State, t.task.Status.Message
	if t.task.ID != "" || answer != nil { // the agent's host has the message
		before := s.carried
		if s.carried = ""; b.Own != nil { // each dispatched task has a context of its own
			s.carried = render(before, exchange{task.User, text}, exchange{task.Agent, t.said})
		}
	}
	failure, reason := "", acp.StopReasonEndTurn
	switch {
	case t.canceled:
		return acp.StopReasonCancelled, nil
	case b.isOver():
		return "", problem.New(problem.Canceled, "the client has gone; the task goes on at the agent's host")
	case err != nil:
		failure, reason = problem.AsError(err).Text(), acp.StopReasonRefusal
	case state == task.Canceled:
		return acp.StopReasonCancelled, nil
	case state == task.Failed, state == task.Rejected:
		failure, reason = cmp.Or(answerText(&t.task), "the agent failed"), acp.StopReasonRefusal
		if strings.Contains(failure, "max_turns") { // its model may take no more turns
			reason = acp.StopReasonMaxTurnRequests
		}
	}
	if failure != "" {
		if t.said != "" {
			failure = "\n\n" + failure
		}
		return reason, b.notify(ctx, s, acp.UpdateAgentMessageText(failure))
	}
	s.answer = answer
	if state.Waits() {
		s.waiting, s.steps = t.task.ID, t.steps
	}
	if answer != nil {
		switch a2awire.IncompleteReason(answer) {
		case "length", "budget":
			reason = acp.StopReasonMaxTokens
		case "canceled":
			reason = acp.StopReasonCancelled
		}
	}
	updatedAt := b.Now().UTC().Format(time.RFC3339)
	return reason, b.notify(ctx, s, acp.SessionUpdate{SessionInfoUpdate: &acp.SessionSessionInfoUpdate{
		UpdatedAt: &updatedAt, Meta: map[string]any{"result": "Result: " + clip(t.said, 100)},
	}})
}

// cancel cancels the running prompt of a session, if there is one.
func (b *Bridge) cancel(_ context.Context, q *acp.CancelNotification) (none struct{}, err error) {
	s, err := b.find(string(q.SessionId))
	if err != nil {
		return none, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.turn; t != nil {
		t.canceled = true
		if t.task.ID != "" {
			t.stop()
		} else { // the agent's host runs the task even if the connection ends, so its id is needed
			time.AfterFunc(cancelTime, t.stop)
		}
	}
	return none, nil
}

// notify sends an update of a session. The caller holds s.mu.
func (b *Bridge) notify(ctx context.Context, s *session, u acp.SessionUpdate) error {
	if update, err := json.Marshal(u); err == nil {
		s.log.Update(update)
	}
	return b.conn.SendNotification(ctx, acp.ClientMethodSessionUpdate, acp.SessionNotification{SessionId: acp.SessionId(s.id), Update: u})
}
