package acpbridge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/coder/acp-go-sdk"

	"github.com/vacancy-host/vacancy/cmd/vacancy/sessionlog"
	"github.com/vacancy-host/vacancy/shared/host/a2a/a2awire"
	"github.com/vacancy-host/vacancy/shared/host/a2a/task"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
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
	thought  string // thoughts that were sent
	steps    int    // number of steps that were sent
	calls    int    // number of tool calls that were sent
	tools    map[string]tool
	progress map[string]bool // ids of messages of progress that were sent
}

// tool is a tool call that was sent.
type tool struct {
	id    acp.ToolCallId
	title string
	ended bool
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
	s, err := b.find(ctx, string(q.SessionId))
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
	if r.StopReason, err = b.end(ctx, s, t, text, err); err != nil {
		return r, err
	}
	return r, nil
}

// begin makes a prompt the running one of its session.
func (b *Bridge) begin(ctx context.Context, s *session, text string, stop context.CancelFunc) (*turn, Message, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turn != nil {
		return nil, Message{}, busy(s.id)
	}
	s.turns++
	m := Message{ID: fmt.Sprintf("%s.%d.%s", s.id, s.turns, rand.Text()[:10]), Context: s.context, Task: s.waiting, Text: text, Mode: s.mode, Model: s.model}
	if m.Task == "" {
		m.Text = carry(s.carried, text)
	}
	if s.once != "" {
		if err := b.notify(ctx, s, acp.UpdateAgentThoughtText(s.once)); err != nil {
			return nil, m, err
		}
		s.once = ""
	}
	s.turn = &turn{stop: stop, tools: map[string]tool{}, progress: map[string]bool{}}
	if m.Task != "" {
		s.turn.steps = s.steps
	}
	return s.turn, m, nil
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
		watch.Go(func() { b.watch(watching, d, s, t, id) })
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
		switch {
		case err == nil:
			failures = 0
			take(a2awire.Answer{Event: task.Event{Task: &now}})
		case ctx.Err() != nil:
		case !problem.Is(err, problem.Unavailable) && !problem.Is(err, problem.Deadline) && !problem.Is(err, problem.TooMany):
			return err
		default:
			if failures++; failures > maxFailures {
				return err
			}
		}
		if _, done := isDone(); done {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(followPause):
		}
	}
}

// watch sends the steps of a dispatched task until ctx ends.
func (b *Bridge) watch(ctx context.Context, d Dispatcher, s *session, t *turn, id string) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(stepPause):
			b.sendSteps(ctx, d, s, t, id)
		}
	}
}

// sendSteps sends the steps of a dispatched task that were not sent. Without an answer of the host, a later request
// gets them.
func (b *Bridge) sendSteps(ctx context.Context, d Dispatcher, s *session, t *turn, id string) {
	all, err := d.steps(ctx, id)
	s.mu.Lock()
	defer s.mu.Unlock()
	for ; err == nil && t.steps < len(all) && !t.canceled; t.steps++ {
		e := &all[t.steps]
		u := acp.UpdateAgentThoughtText(e.Thought)
		switch {
		case e.Tool != nil && e.Tool.Outcome == "":
			u = t.beginTool(e.Tool.ID, e.Tool.Name, e.Tool.Arguments)
		case e.Tool != nil:
			u = t.endTool(e.Tool.ID, e.Tool.Outcome == call.ToolOK, string(e.Tool.Outcome))
		}
		err = b.notify(ctx, s, u)
	}
}

// isEnd reports whether a turn is over in a state.
func isEnd(s task.State) bool { return s.Terminal() || s.Waits() }

// take applies an answer to the task of a turn, and sends what is new to the client. take returns false to end the
// stream.
func (b *Bridge) take(ctx context.Context, s *session, t *turn, a a2awire.Answer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	cloneAnswer(&a)
	if a.Message != nil {
		t.task.Status = task.Status{State: task.Completed, Message: a.Message, Time: b.Now()}
		t.task.Context = cmp.Or(t.task.Context, a.Message.Context)
	}
	t.task.Apply(a.Event)
	t.task.ID, t.task.Context = cmp.Or(t.task.ID, a.TaskID), cmp.Or(t.task.Context, a.Context)
	if t.canceled { // the stream is read on until the task that is to be canceled is known
		return t.task.ID == "" && a.Message == nil
	}
	for _, u := range t.updates() {
		if b.notify(ctx, s, u) != nil { // the client reads no more
			t.stop()
			return false
		}
	}
	return !isEnd(t.task.Status.State)
}

// cloneAnswer copies the metadata and data of an answer. In a stream, the next event overwrites their bytes.
func cloneAnswer(a *a2awire.Answer) {
	parts := func(all []task.Part) {
		for i := range all {
			all[i].Metadata, all[i].Data = bytes.Clone(all[i].Metadata), bytes.Clone(all[i].Data)
		}
	}
	message := func(m *task.Message) {
		if m != nil {
			m.Metadata = bytes.Clone(m.Metadata)
			parts(m.Parts)
		}
	}
	message(a.Message)
	if a.Status != nil {
		message(a.Status.Message)
	}
	if a.Artifact != nil {
		parts(a.Artifact.Artifact.Parts)
	}
	if a.Task != nil {
		message(a.Task.Status.Message)
		for i := range a.Task.Artifacts {
			parts(a.Task.Artifacts[i].Parts)
		}
	}
}

// updates returns what the client has not been sent of the task.
func (t *turn) updates() (all []acp.SessionUpdate) {
	thoughts := ""
	for i := range t.task.Artifacts {
		for j := range t.task.Artifacts[i].Parts {
			p := &t.task.Artifacts[i].Parts[j]
			if u, ok := t.toolUpdate(p); ok {
				all = append(all, u)
			} else if p.Kind == task.Text && isThought(p) {
				thoughts += p.Text
			}
		}
	}
	if rest, ok := strings.CutPrefix(thoughts, t.thought); ok && rest != "" {
		all = append(all, acp.UpdateAgentThoughtText(rest))
		t.thought = thoughts
	}
	if m := t.task.Status.Message; m != nil && t.task.Status.State.Active() && !t.progress[m.ID] {
		t.progress[m.ID] = true
		for i := range m.Parts {
			if u, ok := t.toolUpdate(&m.Parts[i]); ok {
				all = append(all, u)
			} else if p := &m.Parts[i]; p.Kind == task.Text && p.Text != "" {
				all = append(all, acp.UpdateAgentThoughtText(p.Text))
			}
		}
	}
	text := answerText(&t.task)
	rest, ok := strings.CutPrefix(text, t.said)
	if !ok && isEnd(t.task.Status.State) && text != "" { // the agent has taken back what it said
		rest, ok = "\n\n"+text, true
	}
	if ok && rest != "" && t.task.Status.State != task.Failed && t.task.Status.State != task.Rejected {
		all = append(all, acp.UpdateAgentMessageText(rest))
		t.said = text
	}
	return all
}

// hint is a member of the metadata of a part, in the names of Google's Agent Development Kit and without its prefix.
func hint(p *task.Part, name string) any {
	var m map[string]any
	if json.Unmarshal(p.Metadata, &m) != nil {
		return nil
	}
	if value, ok := m["adk_"+name]; ok {
		return value
	}
	return m[name]
}

func isThought(p *task.Part) bool {
	if p.Metadata == nil {
		return false
	}
	is, _ := hint(p, "thought").(bool)
	return is
}

// toolUpdate returns the update for a part that reports a tool call or its result, once for each.
func (t *turn) toolUpdate(p *task.Part) (u acp.SessionUpdate, ok bool) {
	if p.Kind != task.Data || p.Metadata == nil {
		return u, false
	}
	var d struct {
		ID, Name string
		Args     any
		Response any
	}
	kind, _ := hint(p, "type").(string)
	if json.Unmarshal(p.Data, &d) != nil || kind != "function_call" && kind != "function_response" {
		return u, false
	}
	id := cmp.Or(d.ID, d.Name)
	known, isKnown := t.tools[id]
	switch {
	case kind == "function_call" && !isKnown:
		return t.beginTool(id, d.Name, d.Args), true
	case kind == "function_response" && !known.ended:
		r, _ := d.Response.(map[string]any)
		return t.endTool(id, r["error"] == nil && r["isError"] != true, d.Response), true
	}
	return u, false
}

// beginTool returns the update for a tool call. A model may use an id again after the end of the call, so a later call
// has another id for the client.
func (t *turn) beginTool(id, name string, input any) acp.SessionUpdate {
	t.calls++
	own := acp.ToolCallId(id)
	if _, again := t.tools[id]; again {
		own = acp.ToolCallId(fmt.Sprintf("%s-%d", id, t.calls))
	}
	t.tools[id] = tool{id: own, title: name}
	return acp.StartToolCall(own, name, acp.WithStartStatus(acp.ToolCallStatusPending), acp.WithStartRawInput(input))
}

// endTool returns the update for the end of a tool call. The call may be unknown.
func (t *turn) endTool(id string, ok bool, output any) acp.SessionUpdate {
	known := t.tools[id]
	status := acp.ToolCallStatusFailed
	if ok {
		status = acp.ToolCallStatusCompleted
	}
	options := []acp.ToolCallUpdateOpt{acp.WithUpdateStatus(status), acp.WithUpdateRawOutput(output)}
	if known.title != "" {
		options = append(options, acp.WithUpdateTitle(known.title))
	}
	t.tools[id] = tool{id: known.id, title: known.title, ended: true}
	return acp.UpdateToolCall(cmp.Or(known.id, acp.ToolCallId(id)), options...)
}

// textOf joins the texts of parts except thoughts.
func textOf(parts []task.Part) (text string) {
	for i := range parts {
		if p := &parts[i]; p.Kind == task.Text && !isThought(p) {
			text += p.Text
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

// turnsWord is in the text of a task that failed because its model may take no more turns.
const turnsWord = "max_turns"

// end ends the running prompt of a session. err is the error of run.
func (b *Bridge) end(ctx context.Context, s *session, t *turn, text string, err error) (acp.StopReason, error) {
	s.mu.Lock()
	t.canceled = t.canceled || ctx.Err() != nil && !b.isOver() // the client canceled its request
	id, canceled := t.task.ID, t.canceled && !isEnd(t.task.Status.State)
	s.mu.Unlock()
	if canceled && id != "" {
		canceling, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
		defer stop()
		// Without an answer, the task ends by itself. The client gets none of it.
		if _, err := b.Agent.Cancel(canceling, id); err != nil {
			b.Note("task %s was not canceled at its host: %s", id, problem.Of(err).Text())
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
			s.carried = exchange{false, text}.appendTo(before)
			if t.said != "" {
				s.carried = exchange{true, t.said}.appendTo(s.carried)
			}
		}
	}
	said := ""
	reason := acp.StopReasonRefusal
	switch {
	case t.canceled:
		return acp.StopReasonCancelled, nil
	case b.isOver():
		return "", problem.New(problem.Canceled, "the client has gone; the task goes on at the agent's host")
	case err != nil:
		said = problem.Of(err).Text()
	case state == task.Canceled:
		return acp.StopReasonCancelled, nil
	case state == task.Failed, state == task.Rejected:
		if said = answerText(&t.task); strings.Contains(said, turnsWord) {
			reason = acp.StopReasonMaxTurnRequests
		}
	default:
		reason = acp.StopReasonEndTurn
	}
	if said != "" {
		if t.said != "" {
			said = "\n\n" + said
		}
		return reason, b.notify(ctx, s, acp.UpdateAgentMessageText(said))
	}
	s.answer = answer
	if state.Waits() {
		s.waiting, s.steps = t.task.ID, t.steps
	}
	if answer != nil {
		switch a2awire.Cut(answer) {
		case "length", "budget":
			reason = acp.StopReasonMaxTokens
		case "canceled":
			reason = acp.StopReasonCancelled
		}
	}
	at := b.Now().UTC().Format(time.RFC3339)
	return reason, b.notify(ctx, s, acp.SessionUpdate{SessionInfoUpdate: &acp.SessionSessionInfoUpdate{
		UpdatedAt: &at, Meta: map[string]any{"result": "Result: " + clip(t.said, 100)},
	}})
}

func (b *Bridge) cancel(_ context.Context, q *acp.CancelNotification) (struct{}, error) {
	return struct{}{}, b.cancelSession(string(q.SessionId))
}

// cancelSession cancels the running prompt of a session, if there is one.
func (b *Bridge) cancelSession(id string) error {
	s := b.known(id)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t := s.turn; {
	case t == nil:
	case t.task.ID != "":
		t.canceled = true
		t.stop()
	default: // the agent's host runs the task even if the connection ends, so its id is needed
		t.canceled = true
		time.AfterFunc(cancelTime, t.stop)
	}
	return nil
}

// notify sends an update of a session. The caller holds s.mu.
func (b *Bridge) notify(ctx context.Context, s *session, u acp.SessionUpdate) error {
	data := map[string]any{}
	size := 0
	switch {
	case u.UserMessageChunk != nil:
		data["update"], size = "user_message_chunk", len(u.UserMessageChunk.Content.Text.Text)
	case u.AgentMessageChunk != nil:
		data["update"], size = "agent_message_chunk", len(u.AgentMessageChunk.Content.Text.Text)
	case u.AgentThoughtChunk != nil:
		data["update"], size = "agent_thought_chunk", len(u.AgentThoughtChunk.Content.Text.Text)
	case u.ToolCall != nil:
		data["update"], data["tool_call_id"], data["status"] = "tool_call", string(u.ToolCall.ToolCallId), string(u.ToolCall.Status)
	case u.ToolCallUpdate != nil:
		data["update"], data["tool_call_id"], data["status"] = "tool_call_update", string(u.ToolCallUpdate.ToolCallId), string(*u.ToolCallUpdate.Status)
	case u.CurrentModeUpdate != nil:
		data["update"] = "current_mode_update"
	case u.ConfigOptionUpdate != nil:
		data["update"] = "config_option_update"
	case u.SessionInfoUpdate != nil:
		data["update"] = "session_info_update"
	}
	if size > 0 {
		data["size"] = size
	}
	s.log.Write(sessionlog.SessionUpdate, data)
	return b.conn.SendNotification(ctx, acp.ClientMethodSessionUpdate, acp.SessionNotification{SessionId: acp.SessionId(s.id), Update: u})
}
