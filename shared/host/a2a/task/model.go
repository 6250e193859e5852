package task

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type State string

// States of tasks, in the spelling of A2A 0.3. The head of a task (record.go) contains its state,
// and each change is one commit of the head and an event. A task begins as submitted (Enqueue,
// Dispatch) or working (Begin), or is stored together with its answer (Run).
const (
	Submitted     State = "submitted"
	Working       State = "working"
	InputRequired State = "input-required"
	AuthRequired  State = "auth-required"
	Completed     State = "completed"
	Canceled      State = "canceled"
	Failed        State = "failed"
	Rejected      State = "rejected"
)

// transitions contains the states that may follow each state. If the runner of a task has died, the
// next reader fails the task (head.isAbandoned).
var transitions = map[State][]State{
	// A worker takes the lease. The task fails if no worker takes it in time or the call is
	// refused. Cancel cancels the task.
	Submitted: {Working, Failed, Canceled},
	// The answer sets the state that its agent requested (EndRequest). The task fails if the turn
	// fails or its runner dies. Cancel cancels the task.
	Working: {Completed, InputRequired, AuthRequired, Rejected, Failed, Canceled},
	// The next message submits the task (Enqueue) or runs it (Begin). The task fails if it is too old
	// or past its deadline. Cancel cancels the task.
	InputRequired: {Submitted, Working, Failed, Canceled},
	AuthRequired:  {Submitted, Working, Failed, Canceled},
	Completed:     nil, Canceled: nil, Failed: nil, Rejected: nil,
}

func (s State) canBecome(next State) bool { return slices.Contains(transitions[s], next) }

func States() []State {
	return []State{Submitted, Working, InputRequired, AuthRequired, Completed, Canceled, Failed, Rejected}
}

func (s State) IsTerminal() bool {
	next, isKnown := transitions[s]
	return isKnown && len(next) == 0
}

func (s State) IsActive() bool { return s == Submitted || s == Working }

func (s State) AwaitsMessage() bool { return s.canBecome(Submitted) }

// teamStateNames maps states to their names in the tools for teams of agents, which distinguish six
// states.
var teamStateNames = map[State]string{
	Submitted: "pending", Working: "working", InputRequired: "input_required", AuthRequired: "input_required",
	Completed: "completed", Canceled: "cancelled", Failed: "failed", Rejected: "failed",
}

func (s State) TeamStateName() string { return cmp.Or(teamStateNames[s], teamStateNames[Failed]) }

func ParseTeamStateName(name string) (states []State, err error) {
	for _, s := range States() {
		if teamStateNames[s] == name {
			states = append(states, s)
		}
	}
	if len(states) == 0 {
		return nil, problem.Invalid("state", "pending, working, input_required, completed, cancelled or failed", truncate(name))
	}
	return states, nil
}

// Role is the sender of a message.
type Role string

// Roles.
const (
	User  Role = "user"
	Agent Role = "agent"
)

// PartKind selects the field of a Part that contains its content.
type PartKind string

// Kinds of parts.
const (
	Text PartKind = "text"
	Raw  PartKind = "raw"
	URL  PartKind = "url"
	Data PartKind = "data"
)

// Part is one content item of a message or an artifact: text, bytes, a URL or JSON.
type Part struct {
	Kind      PartKind        `json:"kind"`
	Text      string          `json:"text,omitempty"` // text of a Text part, or the URL of a URL part
	Raw       []byte          `json:"raw,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Filename  string          `json:"filename,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"` // JSON object, or nil
}

// SignedText returns the text that represents the part in the message that the host signs for a
// caller. It is the part's text, or a line that describes the part's content and contains the
// SHA-256 of its bytes.
func (p *Part) SignedText() string {
	if p.Kind == Text {
		return p.Text
	}
	description := "file"
	if p.Filename != "" {
		description += " " + strconv.Quote(p.Filename)
	}
	if media := p.NormalizedMediaType(); media != "" {
		description += ", " + media
	}
	if p.Kind == URL {
		return "[" + description + ", at " + strconv.Quote(p.Text) + "]"
	}
	return fmt.Sprintf("[%s, %d bytes, sha256 %x]", description, len(p.Content()), sha256.Sum256(p.Content()))
}

// Content returns the bytes of a Raw or Data part. The bytes of a Data part are its stored JSON
// without white space.
func (p *Part) Content() []byte {
	if p.Kind != Data {
		return p.Raw
	}
	var b bytes.Buffer
	if json.Compact(&b, p.Data) != nil {
		return p.Data
	}
	return b.Bytes()
}

// NormalizedMediaType returns the media type of a part in lower case and without parameters. It
// returns "" for a URL part without a media type.
func (p *Part) NormalizedMediaType() string {
	media, _, _ := strings.Cut(p.MediaType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if media == "" {
		media = map[PartKind]string{Text: "text/plain", Raw: "application/octet-stream", Data: "application/json"}[p.Kind]
	}
	return media
}

// Message is a message of one side. Metadata is a JSON object, or nil.
type Message struct {
	ID         string          `json:"id"`
	Context    string          `json:"context,omitempty"`
	Task       string          `json:"task,omitempty"`
	Role       Role            `json:"role"`
	Parts      []Part          `json:"parts"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Extensions []string        `json:"extensions,omitempty"`
	References []string        `json:"references,omitempty"` // ids of other tasks
	CutReason  call.CutReason  `json:"cut,omitempty"`        // reason why this answer is incomplete
	Receipt    string          `json:"receipt,omitempty"`    // path of this answer's receipt, or "" if it has no price
}

type Artifact struct {
	ID          string          `json:"id"`
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Parts       []Part          `json:"parts"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	Extensions  []string        `json:"extensions,omitempty"`
}

// Status is the state of a task since Time.
type Status struct {
	State   State     `json:"state"`
	Message *Message  `json:"message,omitempty"`
	Time    time.Time `json:"time"`
	// FailureKind is the code of the problem that ended the turn without an answer. Message is then a
	// message of the host.
	FailureKind string `json:"failure,omitempty"`
	// Paid is the cost of the turn's answer. It is nil for a call without a price or without an
	// answer.
	Paid *call.CallPayment `json:"paid,omitempty"`
}

func (s *Status) CutReason() call.CutReason {
	if s.Message == nil {
		return ""
	}
	return s.Message.CutReason
}

// Task is a unit of work for a caller. History contains the messages, oldest first.
type Task struct {
	ID        string          `json:"id"`
	Context   string          `json:"context"`
	Status    Status          `json:"status"`
	Artifacts []Artifact      `json:"artifacts,omitempty"`
	History   []Message       `json:"history,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

func (t *Task) CheckContext(contextID string) error {
	if contextID != "" && contextID != t.Context {
		return problem.Invalid("contextId", "the id of the task's context, or none", truncate(contextID))
	}
	return nil
}

// Event is a change of a task. Exactly one of Task, Status and Artifact is set, unless the event is
// empty. An empty event is a piece of an answer that was withdrawn, or a report of usage.
type Event struct {
	Task     *Task   `json:"task,omitempty"` // first event: the task as it began
	Status   *Status `json:"status,omitempty"`
	Artifact *Chunk  `json:"artifact,omitempty"`
	// NextMessage is the message that begins another turn. It is set only together with Status.
	NextMessage *Message `json:"asked,omitempty"`
}

func (e Event) IsEmpty() bool { return e == Event{} }

// EndRequest requests that a turn ends in a state other than Completed. Agents send it as the
// Detail of a call.ProvisionalEvent, like a Chunk.
type EndRequest struct {
	State State // state of the task; the text of the answer becomes its status message
}

func (e *EndRequest) endState() (s State, hasArtifact bool) {
	if e == nil {
		return Completed, true
	}
	return e.State, false
}

// Chunk is one streamed update of an artifact.
type Chunk struct {
	Artifact Artifact `json:"artifact"`
	Append   bool     `json:"append,omitempty"` // the parts are appended to the earlier parts; otherwise they replace them
	Last     bool     `json:"last,omitempty"`   // no chunk follows
}

// Merge appends the chunk that follows c. It does not modify the existing parts of c in place.
func (c *Chunk) Merge(next *Chunk) {
	c.Last = next.Last
	if !next.Append {
		c.Artifact, c.Append = next.Artifact, false
		return
	}
	c.Artifact.Parts = slices.Clone(c.Artifact.Parts)
	c.Artifact.appendParts(next.Artifact.Parts)
}

func (c *Chunk) Size() int { return partsSize(c.Artifact.Parts) }

func (t *Task) Apply(e Event) {
	switch {
	case e.Task != nil:
		*t = *e.Task
	case e.Status != nil:
		if e.NextMessage != nil {
			t.History = slices.Clone(t.History)
			if t.Status.Message != nil { // the answer of the previous turn
				t.History = append(t.History, *t.Status.Message)
			}
			t.History = append(t.History, *e.NextMessage)
		}
		t.Status = *e.Status
	case e.Artifact != nil:
		t.addChunk(e.Artifact)
	}
}

func (t *Task) addChunk(c *Chunk) {
	// Do not modify artifacts in place, because events refer to them.
	t.Artifacts = slices.Clone(t.Artifacts)
	index := slices.IndexFunc(t.Artifacts, func(a Artifact) bool { return a.ID == c.Artifact.ID })
	switch {
	case index < 0:
		t.Artifacts = append(t.Artifacts, c.Artifact)
	case c.Append:
		t.Artifacts[index].appendParts(c.Artifact.Parts)
	default:
		t.Artifacts[index] = c.Artifact
	}
}

// appendParts appends parts. It merges consecutive texts into one part, so that a streamed artifact
// reads like an artifact that was written at once.
func (a *Artifact) appendParts(parts []Part) {
	for _, p := range parts {
		if n := len(a.Parts); n > 0 && p.isPlainText() && a.Parts[n-1].isPlainText() {
			a.Parts = slices.Clone(a.Parts)
			a.Parts[n-1].Text += p.Text
			continue
		}
		a.Parts = append(slices.Clip(a.Parts), p) // events refer to the other parts
	}
}

func (p *Part) isPlainText() bool {
	return p.Kind == Text && p.Metadata == nil && p.Filename == "" && p.MediaType == ""
}

// View returns the task as a client sees it. It contains at most maxHistory history messages, or
// all if maxHistory is nil. It contains the agent's envelopes if withEnvelopes is true.
func (t *Task) View(maxHistory *int, withEnvelopes bool) Task {
	v := *t
	if maxHistory != nil {
		v.History = v.History[max(0, len(v.History)-*maxHistory):]
	}
	v.History = slices.Clone(v.History)
	for i := range v.History {
		v.History[i] = *v.History[i].view(withEnvelopes)
	}
	v.Status.Message = v.Status.Message.view(withEnvelopes)
	return v
}

func (e Event) View(maxHistory *int, withEnvelopes bool) Event {
	if e.Task != nil {
		t := e.Task.View(maxHistory, withEnvelopes)
		e.Task = &t
	}
	if e.Status != nil {
		s := *e.Status
		s.Message = s.Message.view(withEnvelopes)
		e.Status = &s
	}
	return e
}

// CutMember is the member of a message's metadata that contains the reason why an answer is
// incomplete.
const CutMember = "urn:vacant:cut:v1"

// ReceiptMember is the member of a message's metadata that contains the path of the answer's
// receipt.
const ReceiptMember = "urn:vacant:receipt:v1"

func (m *Message) view(withEnvelopes bool) *Message {
	if m == nil || m.Role != Agent {
		return m
	}
	v := *m
	if !withEnvelopes {
		v.Metadata = nil
	}
	for _, member := range []struct{ name, value string }{{CutMember, string(m.CutReason)}, {ReceiptMember, m.Receipt}} {
		if member.value == "" {
			continue
		}
		prefix := []byte("{")
		if v.Metadata != nil { // an object with members
			prefix = append(slices.Clone(v.Metadata[:len(v.Metadata)-1]), ',')
		}
		v.Metadata = fmt.Appendf(prefix, "%q:%q}", member.name, member.value)
	}
	return &v
}

func textArtifact(text string) Artifact {
	return Artifact{ID: ResponseArtifact, Name: ResponseArtifact, Parts: []Part{{Kind: Text, Text: text}}}
}

// ResponseArtifact is the id and the name of the artifact that contains the text of an answer.
const ResponseArtifact = "response"
