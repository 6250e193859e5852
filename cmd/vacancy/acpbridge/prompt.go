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
	// cancelTimeout limits the request that cancels a task, and the wait for the task id of a
	// canceled prompt.
	cancelTimeout = 10 * time.Second
	// maxFailures limits the failed attempts in a row to follow a task.
	followPause = time.Second
	maxFailures = 60
	stepPause   = 2 * time.Second
)

// turn is a running prompt. The session's lock guards its fields.
type turn struct {
	cancelRun     context.CancelFunc
	canceled      bool
	task          task.Task
	sentText      string // part of the answer that the client already has
	sentStepCount int
	toolCallIDs   map[string]acp.ToolCallId // the client's ids, keyed by the agent's ids
}

func busyError(sessionID string) error {
	return problem.New(problem.Conflict, "a prompt of session %s is running; wait until it ends, or cancel it", sessionID)
}

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

func (b *Bridge) handlePrompt(ctx context.Context, q *acp.PromptRequest) (r acp.PromptResponse, err error) {
	s, err := b.findSession(string(q.SessionId))
	if err != nil {
		return r, err
	}
	text := promptText(q.Prompt)
	if strings.TrimSpace(text) == "" {
		return r, problem.Invalid("prompt", "a block with a text", "none")
	}
	runCtx, cancelRun := context.WithCancel(ctx)
	defer cancelRun()
	t, m, err := b.beginTurn(ctx, s, text, cancelRun)
	if err != nil {
		return r, err
	}
	err = b.runTurn(runCtx, s, t, m)
	r.StopReason, err = b.endTurn(ctx, s, t, text, err)
	return r, err
}

func (b *Bridge) beginTurn(ctx context.Context, s *session, text string, cancelRun context.CancelFunc) (*turn, Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		return nil, Message{}, busyError(s.id)
	}
	s.lastPromptNumber++
	m := Message{ID: fmt.Sprintf("%s.%d.%s", s.id, s.lastPromptNumber, rand.Text()[:10]), Context: s.contextID, QuestionTask: s.waitingTask, Text: text, Mode: s.mode, Model: s.model, Servers: s.servers}
	t := &turn{cancelRun: cancelRun, toolCallIDs: map[string]acp.ToolCallId{}}
	if m.QuestionTask != "" {
		t.sentStepCount = s.sentStepCount
	} else {
		m.Text = prependHistory(s.pendingHistory, text)
	}
	if s.pendingNotice != "" {
		if err := b.sendUpdate(ctx, s, acp.UpdateAgentThoughtText(s.pendingNotice)); err != nil {
			return nil, m, err
		}
	}
	s.pendingNotice, s.turn = "", t
	return t, m, nil
}

// runTurn sends a message, and follows its task to the end of the turn. A lost connection does not end the turn.
func (b *Bridge) runTurn(ctx context.Context, s *session, t *turn, m Message) error {
	yield := func(a a2awire.Answer) bool { return b.applyAnswer(ctx, s, t, a) }
	turnState := func() (id string, done bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return t.task.ID, t.canceled || endsTurn(t.task.Status.State) || ctx.Err() != nil
	}
	err := b.Send(ctx, m, yield)
	id, done := turnState()
	if d, ok := b.Sender.(Dispatcher); ok && id != "" {
		watchCtx, stopWatching := context.WithCancel(ctx)
		var watcher sync.WaitGroup
		watcher.Go(func() {
			for retry.Sleep(watchCtx, stepPause) == nil {
				b.sendSteps(watchCtx, d, s, t, id)
			}
		})
		defer func() {
			stopWatching()
			watcher.Wait()
			b.sendSteps(ctx, d, s, t, id)
		}()
	}
	if _, isSigned := b.Sender.(SignedSender); done || id == "" || isSigned { // a signed answer must come through Send, which verifies it
		return err
	}
	for failures := 0; ; {
		_ = b.Agent.Subscribe(ctx, id, yield) // fails if the task has ended; Get then returns the task
		if _, done := turnState(); done {
			return nil
		}
		latest, err := b.Agent.GetTask(ctx, id)
		if err == nil {
			failures = 0
			yield(a2awire.Answer{Event: task.Event{Task: &latest}})
		} else if failures++; ctx.Err() == nil && (failures > maxFailures || !problem.Is(err, problem.Unavailable) && !problem.Is(err, problem.DeadlineExceeded) && !problem.Is(err, problem.TooManyRequests)) {
			return err
		}
		if _, done := turnState(); done || retry.Sleep(ctx, followPause) != nil {
			return nil
		}
	}
}

// sendSteps sends new steps of a dispatched task. If the request fails, the next call sends the
// missing steps.
func (b *Bridge) sendSteps(ctx context.Context, d Dispatcher, s *session, t *turn, taskID string) {
	latest, err := teamapi.ShowTask.Key.Call(ctx, d.Client, teamapi.ShowTaskRequest{TaskRef: teamapi.TaskRef{ID: taskID}, Steps: true})
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; err == nil && t.sentStepCount < len(latest.Steps) && !t.canceled; t.sentStepCount++ {
		err = b.sendUpdate(ctx, s, t.stepUpdate(&latest.Steps[t.sentStepCount]))
	}
}

// stepUpdate returns the update for the next step. Its tool call id contains the step number,
// because a model may reuse ids.
func (t *turn) stepUpdate(e *task.TraceEntry) acp.SessionUpdate {
	c := e.Tool
	switch {
	case c == nil:
		return acp.UpdateAgentThoughtText(e.Thought)
	case c.Outcome == "":
		id := acp.ToolCallId(fmt.Sprintf("%s.%d", c.ID, t.sentStepCount))
		t.toolCallIDs[c.ID] = id
		return acp.StartToolCall(id, c.Name, acp.WithStartStatus(acp.ToolCallStatusPending), acp.WithStartRawInput(c.Arguments))
	}
	status := acp.ToolCallStatusFailed
	if c.Outcome == call.ToolOK {
		status = acp.ToolCallStatusCompleted
	}
	return acp.UpdateToolCall(cmp.Or(t.toolCallIDs[c.ID], acp.ToolCallId(c.ID)), acp.WithUpdateTitle(c.Name), acp.WithUpdateStatus(status), acp.WithUpdateRawOutput(string(c.Outcome)))
}

func endsTurn(s task.State) bool { return s.IsTerminal() || s.AwaitsMessage() }

// applyAnswer sends the new text of an answer to the client. It returns false to end the stream.
func (b *Bridge) applyAnswer(ctx context.Context, s *session, t *turn, a a2awire.Answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.Message != nil {
		t.task.Status = task.Status{State: task.Completed, Message: a.Message, Time: b.Now()}
		t.task.Context = cmp.Or(t.task.Context, a.Message.Context)
	}
	t.task.Apply(a.Event)
	t.task.ID, t.task.Context = cmp.Or(t.task.ID, a.TaskID), cmp.Or(t.task.Context, a.Context)
	state := t.task.Status.State
	if t.canceled { // endTurn needs the task id to cancel the task
		return t.task.ID == "" && a.Message == nil
	}
	text := answerText(&t.task)
	newText, ok := strings.CutPrefix(text, t.sentText)
	if !ok && endsTurn(state) && text != "" { // the final answer differs from the streamed text
		newText, ok = "\n\n"+text, true
	}
	if ok && newText != "" && state != task.Failed && state != task.Rejected {
		t.sentText = text
		if b.sendUpdate(ctx, s, acp.UpdateAgentMessageText(newText)) != nil { // the client no longer reads
			t.cancelRun()
			return false
		}
	}
	return !endsTurn(state)
}

func joinText(parts []task.Part) (text string) {
	for i := range parts {
		if parts[i].Kind == task.Text {
			text += parts[i].Text
		}
	}
	return text
}

// answerText returns the text of the answer so far. A question, or a final answer without artifacts,
// is in the status message.
func answerText(t *task.Task) (text string) {
	for i := range t.Artifacts {
		text += joinText(t.Artifacts[i].Parts)
	}
	if m := t.Status.Message; m != nil && (t.Status.State.AwaitsMessage() || text == "" && t.Status.State.IsTerminal()) {
		text = joinText(m.Parts)
	}
	return text
}

func (b *Bridge) endTurn(ctx context.Context, s *session, t *turn, prompt string, err error) (acp.StopReason, error) {
	s.mu.Lock()
	t.canceled = t.canceled || ctx.Err() != nil && !b.isDisconnected() // the client canceled its request
	id, mustCancel := t.task.ID, t.canceled && !endsTurn(t.task.Status.State)
	s.mu.Unlock()
	if mustCancel && id != "" {
		cancelCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
		defer stop()
		// If this request fails, the task continues at the host.
		if _, err := b.Agent.CancelTask(cancelCtx, id); err != nil {
			b.Logf("task %s was not canceled at its host: %s", id, problem.AsError(err).Text())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.turn, s.waitingTask = nil, ""
	if b.IsGuest {
		s.contextID = cmp.Or(t.task.Context, s.contextID)
	}
	state, answer := t.task.Status.State, t.task.Status.Message
	if t.task.ID != "" || answer != nil { // the agent's host has the message
		history := s.pendingHistory
		if s.pendingHistory = ""; b.OwnedAgent != nil { // dispatched tasks do not share a context
			s.pendingHistory = appendHistory(history, transcriptEntry{task.User, prompt}, transcriptEntry{task.Agent, t.sentText})
		}
	}
	failure, reason := "", acp.StopReasonEndTurn
	switch {
	case t.canceled:
		return acp.StopReasonCancelled, nil
	case b.isDisconnected():
		return "", problem.New(problem.Canceled, "the client has disconnected; the task continues at the agent's host")
	case err != nil:
		failure, reason = problem.AsError(err).Text(), acp.StopReasonRefusal
	case state == task.Canceled:
		return acp.StopReasonCancelled, nil
	case state == task.Failed, state == task.Rejected:
		failure, reason = cmp.Or(answerText(&t.task), "the agent failed"), acp.StopReasonRefusal
		if strings.Contains(failure, "max_turns") {
			reason = acp.StopReasonMaxTurnRequests
		}
	}
	if failure != "" {
		if t.sentText != "" {
			failure = "\n\n" + failure
		}
		return reason, b.sendUpdate(ctx, s, acp.UpdateAgentMessageText(failure))
	}
	s.lastAnswer = answer
	if state.AwaitsMessage() {
		s.waitingTask, s.sentStepCount = t.task.ID, t.sentStepCount
	}
	if answer != nil {
		switch a2awire.CutReason(answer) {
		case "length", "budget":
			reason = acp.StopReasonMaxTokens
		case "canceled":
			reason = acp.StopReasonCancelled
		}
	}
	updatedAt := b.Now().UTC().Format(time.RFC3339)
	return reason, b.sendUpdate(ctx, s, acp.SessionUpdate{SessionInfoUpdate: &acp.SessionSessionInfoUpdate{
		UpdatedAt: &updatedAt, Meta: map[string]any{"result": "Result: " + truncate(t.sentText, 100)},
	}})
}

func (b *Bridge) cancelPrompt(_ context.Context, q *acp.CancelNotification) (empty struct{}, err error) {
	s, err := b.findSession(string(q.SessionId))
	if err != nil {
		return empty, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.turn; t != nil {
		t.canceled = true
		if t.task.ID != "" {
			t.cancelRun()
		} else { // the task id is needed to cancel the task
			time.AfterFunc(cancelTimeout, t.cancelRun)
		}
	}
	return empty, nil
}

// sendUpdate sends an update of a session. The caller holds s.mu.
func (b *Bridge) sendUpdate(ctx context.Context, s *session, u acp.SessionUpdate) error {
	if update, err := json.Marshal(u); err == nil {
		s.log.WriteUpdate(update)
	}
	return b.conn.SendNotification(ctx, acp.ClientMethodSessionUpdate, acp.SessionNotification{SessionId: acp.SessionId(s.id), Update: u})
}
