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
	// cancelTime limits the wait for the id of a canceled prompt's task, and the request that cancels the task at the
	// agent's host.
	cancelTime = 10 * time.Second
	// followPause is the time between two attempts to follow a task, and maxFailures limits the failures in a row.
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
	said     string                    // part of the answer that the client already has
	steps    int                       // number of steps that were sent
	calls    map[string]acp.ToolCallId // the client's ids of tool calls, keyed by the agent's ids
}

func busy(id string) error {
	return problem.New(problem.Conflict, "a prompt of session %s is running; wait until it ends, or cancel it", id)
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

// begin starts the turn of a prompt, and returns the message to send. It returns an error if the session already has a
// running turn.
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
			b.sendSteps(ctx, d, s, t, id) // the last steps of the task
		}()
	}
	if _, signs := b.Sender.(Signed); done || id == "" || signs { // a signed answer must come through Send, which verifies it
		return err
	}
	for failures := 0; ; {
		_ = b.Agent.Subscribe(ctx, id, take) // fails if the task has ended; Get then returns the task
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

// sendSteps sends the steps of a dispatched task that the client does not have yet. It ignores a failed request, because
// the next call sends the missing steps.
func (b *Bridge) sendSteps(ctx context.Context, d Dispatcher, s *session, t *turn, id string) {
	now, err := teamapi.ShowTask.Key.Call(ctx, d.Client, teamapi.Waiting{OneTask: teamapi.OneTask{ID: id}, Steps: true})
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; err == nil && t.steps < len(now.Steps) && !t.canceled; t.steps++ {
		err = b.notify(ctx, s, t.stepUpdate(&now.Steps[t.steps]))
	}
}

// stepUpdate returns the update for the next step. A model may reuse the id of a tool call that has ended, so the client
// gets an id that also contains the number of the step.
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
	if t.canceled { // continue only until the task has an id, which end needs to cancel the task
		return t.task.ID == "" && a.Message == nil
	}
	text := answerText(&t.task)
	rest, ok := strings.CutPrefix(text, t.said)
	if !ok && isEnd(state) && text != "" { // the final answer does not begin with the text that was sent
		rest, ok = "\n\n"+text, true
	}
	if ok && rest != "" && state != task.Failed && state != task.Rejected {
		t.said = text
		if b.notify(ctx, s, acp.UpdateAgentMessageText(rest)) != nil { // the client no longer reads
			t.stop()
			return false
		}
	}
	return !isEnd(state)
}

func textOf(parts []task.Part) (text string) {
	for i := range parts {
		if parts[i].Kind == task.Text {
			text += parts[i].Text
		}
	}
	return text
}

// answerText returns the text of the answer so far. This is the text of the artifacts, or of the status message if the
// task waits for an answer or has ended without such text.
func answerText(t *task.Task) (text string) {
	for i := range t.Artifacts {
		text += textOf(t.Artifacts[i].Parts)
	}
	if m := t.Status.Message; m != nil && (t.Status.State.Waits() || text == "" && t.Status.State.Terminal()) {
		text = textOf(m.Parts)
	}
	return text
}

func (b *Bridge) end(ctx context.Context, s *session, t *turn, text string, err error) (acp.StopReason, error) {
	s.mu.Lock()
	t.canceled = t.canceled || ctx.Err() != nil && !b.isOver() // the client canceled its request
	id, cancels := t.task.ID, t.canceled && !isEnd(t.task.Status.State)
	s.mu.Unlock()
	if cancels && id != "" {
		canceling, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer stop()
		// If this request fails, the task continues at the host, but the client does not get its result.
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
		if s.carried = ""; b.Own != nil { // the next dispatched task has a new context, so its message carries the history
			s.carried = render(before, exchange{task.User, text}, exchange{task.Agent, t.said})
		}
	}
	failure, reason := "", acp.StopReasonEndTurn
	switch {
	case t.canceled:
		return acp.StopReasonCancelled, nil
	case b.isOver():
		return "", problem.New(problem.Canceled, "the client has disconnected; the task continues at the agent's host")
	case err != nil:
		failure, reason = problem.AsError(err).Text(), acp.StopReasonRefusal
	case state == task.Canceled:
		return acp.StopReasonCancelled, nil
	case state == task.Failed, state == task.Rejected:
		failure, reason = cmp.Or(answerText(&t.task), "the agent failed"), acp.StopReasonRefusal
		if strings.Contains(failure, "max_turns") { // the model has reached its limit of turns
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
		} else { // the task continues without the connection, so keep reading until its id is known
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
