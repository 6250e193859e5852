package think

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	opTurn  = "turn"
	opTools = "tools"
	opUse   = "use"
)

// request is the JSON form of a Turn, or of a call of MCPTools or UseMCPTool.
type request struct {
	Op      string      `json:"op"`
	Vacant  identity.ID `json:"vacant"`
	Version int         `json:"agent,omitempty"`
	// DeadlineMS is a Unix time in milliseconds, or zero for no deadline.
	DeadlineMS int64           `json:"deadline_ms,omitempty"`
	Task       string          `json:"task,omitempty"` // task of the call; the request ends when the turn of the task ends
	Fallback   bool            `json:"fallback,omitempty"`
	Check      bool            `json:"check,omitempty"`
	Spent      int             `json:"spent,omitempty"`
	Left       *int            `json:"left,omitempty"`
	Caller     identity.ID     `json:"caller,omitzero"`
	ID         string          `json:"id,omitempty"` // hash of the call
	ContextID  *string         `json:"context_id,omitempty"`
	Turns      []turn          `json:"turns,omitempty"`
	Tools      []tool          `json:"tools,omitempty"`
	Final      bool            `json:"final,omitempty"`
	Name       string          `json:"name,omitempty"` // name of the tool to use
	Arguments  json.RawMessage `json:"arguments,omitempty"`
}

type turn struct {
	Role    substrate.Role `json:"role"`
	Claimed string         `json:"claimed,omitempty"`
	Text    string         `json:"text,omitempty"`
	Files   []file         `json:"files,omitempty"`
	Calls   []toolCall     `json:"calls,omitempty"`
	Results []toolResult   `json:"results,omitempty"`
}

type file struct {
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Data      []byte `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

type toolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"`
	Opaque    string `json:"opaque,omitempty"`
}

type toolResult struct {
	ID     string `json:"id"`
	Text   string `json:"text,omitempty"`
	Failed bool   `json:"failed,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	Writes      bool            `json:"writes,omitempty"`
}

// line is one line of a reply. It has exactly one member.
type line struct {
	Text    string             `json:"text,omitempty"`
	Thought string             `json:"thought,omitempty"`
	Asks    bool               `json:"asks,omitempty"`
	Call    *toolCall          `json:"call,omitempty"`
	Usage   *usage             `json:"usage,omitempty"`
	Tools   *[]tool            `json:"tools,omitempty"`
	LeftOut *call.OmittedTools `json:"left_out,omitempty"`
	Done    string             `json:"done,omitempty"`
	Error   *failure           `json:"error,omitempty"`
}

type usage struct {
	In         int `json:"in"`
	Out        int `json:"out"`
	Cached     int `json:"cached,omitempty"`
	Unreported int `json:"unreported,omitempty"`
	Cost       int `json:"cost,omitempty"`
	Prices     int `json:"prices,omitempty"` // version of the table of models
	MaxTokens  int `json:"max_tokens,omitempty"`
}

// failure is the JSON form of an error. If the error contains an answer of the agent
// (call.AgentError), Agent is true, and Status, AfterMS and Body contain this answer.
type failure struct {
	Kind    string `json:"kind"`
	Text    string `json:"text"`
	Cause   string `json:"cause,omitempty"`
	Agent   bool   `json:"agent,omitempty"`
	Status  int    `json:"status,omitempty"`
	AfterMS int64  `json:"after_ms,omitempty"`
	Body    string `json:"body,omitempty"`
}

// maxBytes is the maximum size of a request and of a reply in AWS Lambda.
const maxBytes = 6 << 20

func encodeTurn(t *Turn) request {
	r := &t.Request
	out := request{Op: opTurn, Vacant: t.Agent.Vacant, Version: t.Agent.Version, Fallback: t.Fallback, Check: t.IsCheck, Spent: t.CostBefore, Left: t.TaskBudget,
		Caller: r.Caller, ContextID: r.ContextID, Final: r.MustAnswer}
	if id := r.ID(); !id.IsZero() {
		out.ID = id.String()
	}
	for _, item := range r.Turns {
		w := turn{Role: item.Role, Claimed: item.ClaimedRole, Text: item.Text}
		for _, f := range item.Files {
			w.Files = append(w.Files, file(f))
		}
		for _, c := range item.Calls {
			w.Calls = append(w.Calls, toolCall(c))
		}
		for _, res := range item.Results {
			w.Results = append(w.Results, toolResult(res))
		}
		out.Turns = append(out.Turns, w)
	}
	for _, item := range r.Tools {
		out.Tools = append(out.Tools, tool{Name: item.Name, Description: item.Description, Schema: item.Schema})
	}
	return out
}

func (r *request) turn() (t Turn, err error) {
	t = Turn{Agent: Agent{r.Vacant, r.Version}, Fallback: r.Fallback, IsCheck: r.Check, CostBefore: r.Spent, TaskBudget: r.Left}
	t.Request = substrate.Request{Caller: r.Caller, Vacant: r.Vacant, ContextID: r.ContextID, MustAnswer: r.Final}
	if r.ID != "" {
		id, err := identity.ParseHash(r.ID)
		if err != nil {
			return t, problem.Invalid("id", "64 hex digits", fmt.Sprintf("%.80q", r.ID))
		}
		t.Request = t.Request.WithID(id)
	}
	for i, item := range r.Turns {
		if !slices.Contains([]substrate.Role{substrate.Caller, substrate.Agent, substrate.Tools}, item.Role) {
			return t, problem.Invalid(fmt.Sprintf("turns[%d].role", i), "caller, agent or tools", fmt.Sprintf("%.40q", item.Role))
		}
		w := substrate.Turn{Role: item.Role, ClaimedRole: item.Claimed, Text: item.Text}
		for _, f := range item.Files {
			w.Files = append(w.Files, substrate.File(f))
		}
		for _, c := range item.Calls {
			w.Calls = append(w.Calls, substrate.ToolCall(c))
		}
		for _, res := range item.Results {
			w.Results = append(w.Results, substrate.ToolResult(res))
		}
		t.Request.Turns = append(t.Request.Turns, w)
	}
	if n := len(t.Request.Turns); n == 0 || t.Request.Turns[n-1].Role == substrate.Agent {
		return t, problem.Invalid("turns", "at least one turn, of which the last is not the agent's", fmt.Sprintf("%d", n))
	}
	for _, item := range r.Tools {
		t.Request.Tools = append(t.Request.Tools, substrate.Tool{Name: item.Name, Description: item.Description, Schema: item.Schema})
	}
	return t, nil
}

func decode(data []byte) (r request, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, problem.Wrap(problem.Malformed, err, "event: expected a request from this host, got something else")
	}
	switch {
	case r.Vacant.IsZero():
		return r, problem.Invalid("vacant", "the id of a vacant", "none")
	case r.Version < 0 || r.Spent < 0 || r.Left != nil && *r.Left < 0:
		return r, problem.Invalid("agent", "no negative numbers", "a negative number")
	}
	return r, nil
}

func lineOf(e substrate.Event) line {
	switch e := e.(type) {
	case substrate.Text:
		return line{Text: string(e)}
	case substrate.Thought:
		return line{Thought: string(e)}
	case substrate.Question:
		return line{Asks: true}
	case substrate.ToolCall:
		return line{Call: new(toolCall(e))}
	case substrate.Usage:
		return line{Usage: &usage{e.In, e.Out, e.Cached, e.Unreported, e.Cost, e.Prices, e.MaxTokens}}
	case substrate.FinishReason:
		return line{Done: string(e)}
	}
	return line{}
}

// event converts a line back into the event that was passed to lineOf. It returns nil if the line
// contains no event.
func (l *line) event() substrate.Event {
	switch {
	case l.Text != "":
		return substrate.Text(l.Text)
	case l.Thought != "":
		return substrate.Thought(l.Thought)
	case l.Asks:
		return substrate.Question{}
	case l.Call != nil:
		return substrate.ToolCall(*l.Call)
	case l.Usage != nil:
		u := l.Usage
		return substrate.Usage{In: u.In, Out: u.Out, Cached: u.Cached, Unreported: u.Unreported, Cost: u.Cost, Prices: u.Prices, MaxTokens: u.MaxTokens}
	case l.Done != "":
		return substrate.FinishReason(l.Done)
	}
	return nil
}

const maxCause = 500

func failureOf(err error) *failure {
	p := problem.AsError(err)
	f := &failure{Kind: p.Kind.String(), Text: p.Text()}
	if p.Err != nil {
		f.Cause = substrate.Truncate(p.Err.Error(), maxCause)
	}
	var agent *call.AgentError
	if errors.As(err, &agent) {
		f.Agent, f.Status, f.AfterMS, f.Body = true, agent.Status, agent.After.Milliseconds(), agent.Body
	}
	return f
}

// err converts a failure back into the error that was passed to failureOf. An unknown kind becomes
// SubstrateUnavailable, because the other process may be newer.
func (f *failure) err() error {
	p := &problem.Error{Kind: problem.SubstrateUnavailable, Detail: f.Text}
	if i := slices.IndexFunc(problem.Kinds(), func(k problem.Kind) bool { return k.String() == f.Kind }); i > 0 {
		p.Kind = problem.Kinds()[i]
	}
	if f.Cause != "" {
		p.Err = errors.New(f.Cause)
	}
	if f.Agent {
		return &call.AgentError{Status: f.Status, After: time.Duration(f.AfterMS) * time.Millisecond, Body: f.Body, Err: p}
	}
	return p
}
