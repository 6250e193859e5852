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

// State is the state of a task.
type State string

// The states, as A2A 0.3 spells them. The head of a task (record.go) holds its state, and each change is one commit of
// the head and an event. A task begins as submitted (Start, Dispatch) or working (Begin), or is stored with its answer
// (Run).
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

// transitions has the states that a task can pass to from each state. Readers find and fail a task that nobody runs any
// more (abandoned, in record.go).
var transitions = map[State][]State{
	// A worker takes the lease (Work); no worker came in time, or the call was refused; Cancel.
	Submitted: {Working, Failed, Canceled},
	// The answer, in the state for which its agent asked (Ending); the turn or its runner failed; Cancel.
	Working: {Completed, InputRequired, AuthRequired, Rejected, Failed, Canceled},
	// The next message (Start, Begin); the task is too old, or past its deadline; Cancel.
	InputRequired: {Submitted, Working, Failed, Canceled},
	AuthRequired:  {Submitted, Working, Failed, Canceled},
	Completed:     nil, Canceled: nil, Failed: nil, Rejected: nil,
}

// canBecome reports whether a task can pass from one state to another.
func (s State) canBecome(next State) bool { return slices.Contains(transitions[s], next) }

func States() []State {
	return []State{Submitted, Working, InputRequired, AuthRequired, Completed, Canceled, Failed, Rejected}
}

// Terminal reports whether the task has ended.
func (s State) Terminal() bool {
	next, known := transitions[s]
	return known && len(next) == 0
}

// Active reports whether a turn of the task runs or waits for a worker.
func (s State) Active() bool { return s == Submitted || s == Working }

// Waits reports whether the task waits for its next message.
func (s State) Waits() bool { return s.canBecome(Submitted) }

// engineNames are the names of the states in the tools for teams of agents, whose engine has six states.
var engineNames = map[State]string{
	Submitted: "pending", Working: "working", InputRequired: "input_required", AuthRequired: "input_required",
	Completed: "completed", Canceled: "cancelled", Failed: "failed", Rejected: "failed",
}

// EngineName returns the engine's name of a state; "failed" for an unknown state.
func (s State) EngineName() string { return cmp.Or(engineNames[s], engineNames[Failed]) }

// ParseEngineName returns the states that have a name in the engine.
func ParseEngineName(name string) (all []State, err error) {
	for _, s := range States() {
		if engineNames[s] == name {
			all = append(all, s)
		}
	}
	if len(all) == 0 {
		return nil, problem.Invalid("state", "pending, working, input_required, completed, cancelled or failed", clip(name))
	}
	return all, nil
}

// Role is the side that a message comes from.
type Role string

// The roles.
const (
	User  Role = "user"
	Agent Role = "agent"
)

// PartKind says which field of a Part holds its content.
type PartKind string

// The kinds of part.
const (
	Text PartKind = "text"
	Raw  PartKind = "raw"
	URL  PartKind = "url"
	Data PartKind = "data"
)

// Part is a piece of a message or an artifact.
type Part struct {
	Kind      PartKind        `json:"kind"`
	Text      string          `json:"text,omitempty"` // of Text, or the URL of URL
	Raw       []byte          `json:"raw,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Filename  string          `json:"filename,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"` // an object, or nil
}

// Note is the part in the message that the host signs for a caller: its text, or a line that names the
// content of the part, with the SHA-256 of its bytes.
func (p *Part) Note() string {
	if p.Kind == Text {
		return p.Text
	}
	what := "file"
	if p.Filename != "" {
		what += " " + strconv.Quote(p.Filename)
	}
	if media := p.Media(); media != "" {
		what += ", " + media
	}
	if p.Kind == URL {
		return "[" + what + ", at " + strconv.Quote(p.Text) + "]"
	}
	return fmt.Sprintf("[%s, %d bytes, sha256 %x]", what, len(p.Content()), sha256.Sum256(p.Content()))
}

// Content returns the bytes of a part of Raw or Data. Of a value they are its JSON without white space, as
// it is stored.
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

// Media returns the media type of a part without its parameters, in lower case; "" for a URL without one.
func (p *Part) Media() string {
	media, _, _ := strings.Cut(p.MediaType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if media == "" {
		media = map[PartKind]string{Text: "text/plain", Raw: "application/octet-stream", Data: "application/json"}[p.Kind]
	}
	return media
}

// Message is a message of one side. Metadata is an object, or nil.
type Message struct {
	ID         string          `json:"id"`
	Context    string          `json:"context,omitempty"`
	Task       string          `json:"task,omitempty"`
	Role       Role            `json:"role"`
	Parts      []Part          `json:"parts"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Extensions []string        `json:"extensions,omitempty"`
	References []string        `json:"references,omitempty"` // ids of other tasks
	Cut        call.Cut        `json:"cut,omitempty"`        // why the answer that it is ends before its end
	Receipt    string          `json:"receipt,omitempty"`    // path of the receipt of the answer that it is; "" without a price
}

// Artifact is a result of a task.
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
	// Failure is the code of the problem for which the turn ended without an answer; Message is the
	// host's then.
	Failure string `json:"failure,omitempty"`
	// Paid tells what the turn's answer cost; nil for a call without a price, or without an answer.
	Paid *call.Paid `json:"paid,omitempty"`
}

// Cut returns why the answer in s ends before its end; "" for another status.
func (s *Status) Cut() call.Cut {
	if s.Message == nil {
		return ""
	}
	return s.Message.Cut
}

// Task is a unit of work for a caller. History has the messages, oldest first.
type Task struct {
	ID        string          `json:"id"`
	Context   string          `json:"context"`
	Status    Status          `json:"status"`
	Artifacts []Artifact      `json:"artifacts,omitempty"`
	History   []Message       `json:"history,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"`
}

// CheckContext refuses a message to the task that names another context. It may name none.
func (t *Task) CheckContext(named string) error {
	if named != "" && named != t.Context {
		return problem.Invalid("contextId", "the id of the task's context, or none", clip(named))
	}
	return nil
}

// Event is a change of a task. Exactly one of Task, Status and Artifact is set, unless the event is
// empty: a piece of an answer that was never given, or a report of usage.
type Event struct {
	Task     *Task   `json:"task,omitempty"` // the first: what the task was when it began
	Status   *Status `json:"status,omitempty"`
	Artifact *Chunk  `json:"artifact,omitempty"`
	// Asked, beside a Status, is the message that begins another turn.
	Asked *Message `json:"asked,omitempty"`
}

// IsEmpty reports whether e has no content for readers.
func (e Event) IsEmpty() bool { return e == Event{} }

// Ending is an agent's wish to end its turn in another way than Completed with its
// text as an artifact. It is the Detail of a call.Provisional, as a Chunk is.
type Ending struct {
	State State // of the task; the text of the answer is the message of its status
}

// of returns the state of a task whose turn was answered, and whether the text
// of the answer is an artifact, too.
func (e *Ending) of() (s State, artifact bool) {
	if e == nil {
		return Completed, true
	}
	return e.State, false
}

// Chunk is a part of an artifact.
type Chunk struct {
	Artifact Artifact `json:"artifact"`
	Append   bool     `json:"append,omitempty"` // its parts follow those before; otherwise they replace them
	Last     bool     `json:"last,omitempty"`   // nothing follows
}

// Join appends the chunk that follows c. It changes no part that c had.
func (c *Chunk) Join(next *Chunk) {
	c.Last = next.Last
	if !next.Append {
		c.Artifact, c.Append = next.Artifact, false
		return
	}
	c.Artifact.Parts = slices.Clone(c.Artifact.Parts)
	c.Artifact.join(next.Artifact.Parts)
}

// Size is the size of the chunk's texts in bytes.
func (c *Chunk) Size() int { return partsSize(c.Artifact.Parts) }

// Apply changes t by an event.
func (t *Task) Apply(e Event) {
	switch {
	case e.Task != nil:
		*t = *e.Task
	case e.Status != nil:
		if e.Asked != nil {
			t.History = slices.Clone(t.History)
			if t.Status.Message != nil { // what was answered before
				t.History = append(t.History, *t.Status.Message)
			}
			t.History = append(t.History, *e.Asked)
		}
		t.Status = *e.Status
	case e.Artifact != nil:
		t.add(e.Artifact)
	}
}

// add does not change artifacts in place: an event has them too.
func (t *Task) add(c *Chunk) {
	t.Artifacts = slices.Clone(t.Artifacts)
	at := slices.IndexFunc(t.Artifacts, func(a Artifact) bool { return a.ID == c.Artifact.ID })
	switch {
	case at < 0:
		t.Artifacts = append(t.Artifacts, c.Artifact)
	case c.Append:
		t.Artifacts[at].join(c.Artifact.Parts)
	default:
		t.Artifacts[at] = c.Artifact
	}
}

// join appends parts. Text that continues a text becomes one part with it, so that a
// streamed artifact reads like one that was written at once.
func (a *Artifact) join(parts []Part) {
	for _, p := range parts {
		if n := len(a.Parts); n > 0 && p.plainText() && a.Parts[n-1].plainText() {
			a.Parts = slices.Clone(a.Parts)
			a.Parts[n-1].Text += p.Text
			continue
		}
		a.Parts = append(slices.Clip(a.Parts), p) // an event has the others, too
	}
}

func (p *Part) plainText() bool {
	return p.Kind == Text && p.Metadata == nil && p.Filename == "" && p.MediaType == ""
}

// View is the task as a client sees it: with at most so many messages of its history,
// nil for all, and with the agent's envelope if the client knows envelopes.
func (t *Task) View(history *int, envelopes bool) Task {
	v := *t
	if history != nil {
		v.History = v.History[max(0, len(v.History)-*history):]
	}
	v.History = slices.Clone(v.History)
	for i := range v.History {
		v.History[i] = *v.History[i].view(envelopes)
	}
	v.Status.Message = v.Status.Message.view(envelopes)
	return v
}

// View is the event as a client sees it.
func (e Event) View(history *int, envelopes bool) Event {
	if e.Task != nil {
		t := e.Task.View(history, envelopes)
		e.Task = &t
	}
	if e.Status != nil {
		s := *e.Status
		s.Message = s.Message.view(envelopes)
		e.Status = &s
	}
	return e
}

// CutMember is the member of a message's metadata that says why an answer ends before its end.
const CutMember = "urn:vacant:cut:v1"

// ReceiptMember is the member of a message's metadata that has the path of the answer's receipt.
const ReceiptMember = "urn:vacant:receipt:v1"

// view is the message with its envelope, or without if it is the agent's, with the mark of a cut
// answer, and with the path of a receipt.
func (m *Message) view(envelopes bool) *Message {
	if m == nil || m.Role != Agent {
		return m
	}
	v := *m
	if !envelopes {
		v.Metadata = nil
	}
	for _, one := range []struct{ name, value string }{{CutMember, string(m.Cut)}, {ReceiptMember, m.Receipt}} {
		if one.value == "" {
			continue
		}
		open := []byte("{")
		if v.Metadata != nil { // an object that is not empty
			open = append(slices.Clone(v.Metadata[:len(v.Metadata)-1]), ',')
		}
		v.Metadata = fmt.Appendf(open, "%q:%q}", one.name, one.value)
	}
	return &v
}

func textArtifact(text string) Artifact {
	return Artifact{ID: ResponseArtifact, Name: ResponseArtifact, Parts: []Part{{Kind: Text, Text: text}}}
}

// ResponseArtifact is the id and name of the artifact with the text of an answer.
const ResponseArtifact = "response"
