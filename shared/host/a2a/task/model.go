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

// States of tasks, in the spelling of A2A 0.3.
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

var transitions = map[State][]State{
	Submitted:     {Working, Failed, Canceled},
	Working:       {Completed, InputRequired, AuthRequired, Rejected, Failed, Canceled},
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

type Role string

const (
	User  Role = "user"
	Agent Role = "agent"
)

type PartKind string

const (
	Text PartKind = "text"
	Raw  PartKind = "raw"
	URL  PartKind = "url"
	Data PartKind = "data"
)

type Part struct {
	Kind      PartKind        `json:"kind"`
	Text      string          `json:"text,omitempty"` // text, or the URL of a URL part
	Raw       []byte          `json:"raw,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Filename  string          `json:"filename,omitempty"`
	MediaType string          `json:"mediaType,omitempty"`
	Metadata  json.RawMessage `json:"metadata,omitempty"` // JSON object or nil
}

// SignedText returns the text that the host signs for the part. For a part without text, it
// contains the URL or the SHA-256 of the content.
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

func (p *Part) NormalizedMediaType() string {
	media, _, _ := strings.Cut(p.MediaType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if media == "" {
		media = map[PartKind]string{Text: "text/plain", Raw: "application/octet-stream", Data: "application/json"}[p.Kind]
	}
	return media
}

type Message struct {
	ID         string          `json:"id"`
	Context    string          `json:"context,omitempty"`
	Task       string          `json:"task,omitempty"`
	Role       Role            `json:"role"`
	Parts      []Part          `json:"parts"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
	Extensions []string        `json:"extensions,omitempty"`
	References []string        `json:"references,omitempty"` // task ids
	CutReason  call.CutReason  `json:"cut,omitempty"`        // reason why this answer is incomplete
	Receipt    string          `json:"receipt,omitempty"`    // path of this answer's receipt, or ""
}

type Artifact struct {
	ID          string          `json:"id"`
	Name        string          `json:"name,omitempty"`
	Description string          `json:"description,omitempty"`
	Parts       []Part          `json:"parts"`
	Metadata    json.RawMessage `json:"metadata,omitempty"`
	Extensions  []string        `json:"extensions,omitempty"`
}

type Status struct {
	State   State     `json:"state"`
	Message *Message  `json:"message,omitempty"`
	Time    time.Time `json:"time"`
	// FailureKind is the problem.Kind of a turn without an answer.
	FailureKind string `json:"failure,omitempty"`
	// Paid is nil for a call without a price or without an answer.
	Paid *call.CallPayment `json:"paid,omitempty"`
}

func (s *Status) CutReason() call.CutReason {
	if s.Message == nil {
		return ""
	}
	return s.Message.CutReason
}

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

// Event is a change of a task. At most one of Task, Status and Artifact is set.
type Event struct {
	Task     *Task   `json:"task,omitempty"` // first event: the task as it began
	Status   *Status `json:"status,omitempty"`
	Artifact *Chunk  `json:"artifact,omitempty"`
	// NextMessage begins another turn. It is set only together with Status.
	NextMessage *Message `json:"asked,omitempty"`
}

func (e Event) IsEmpty() bool { return e == Event{} }

// EndRequest requests that a turn ends in another state than Completed. Agents send it as the
// Detail of a call.ProvisionalEvent.
type EndRequest struct {
	State State
}

func (e *EndRequest) endState() (s State, hasArtifact bool) {
	if e == nil {
		return Completed, true
	}
	return e.State, false
}

type Chunk struct {
	Artifact Artifact `json:"artifact"`
	Append   bool     `json:"append,omitempty"`
	Last     bool     `json:"last,omitempty"`
}

// Merge adds the next chunk to c. It does not modify the existing parts in place.
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

// appendParts joins consecutive texts into one part. It does not change parts that events share.
func (a *Artifact) appendParts(parts []Part) {
	for _, p := range parts {
		if n := len(a.Parts); n > 0 && p.isPlainText() && a.Parts[n-1].isPlainText() {
			a.Parts = slices.Clone(a.Parts)
			a.Parts[n-1].Text += p.Text
			continue
		}
		a.Parts = append(slices.Clip(a.Parts), p)
	}
}

func (p *Part) isPlainText() bool {
	return p.Kind == Text && p.Metadata == nil && p.Filename == "" && p.MediaType == ""
}

// View returns the task as a client sees it. If maxHistory is nil, the history is complete.
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

// CutMember is the metadata member with an answer's CutReason.
const CutMember = "urn:vacant:cut:v1"

// ReceiptMember is the metadata member with the path of an answer's receipt.
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

const ResponseArtifact = "response"
