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
	opTurn      = "turn"
	opListTools = "tools"
	opUseTool   = "use"
)

// request is the JSON form of a Turn, or of a call of ListMCPTools or UseMCPTool.
type request struct {
	Op      string      `json:"op"`
	Vacant  identity.ID `json:"vacant"`
	Version int         `json:"agent,omitempty"`
	// DeadlineMS is a Unix time in milliseconds, or zero.
	DeadlineMS int64           `json:"deadline_ms,omitempty"`
	Task       string          `json:"task,omitempty"` // the request ends when the turn of the task ends
	Fallback   bool            `json:"fallback,omitempty"`
	IsCheck    bool            `json:"check,omitempty"`
	CostBefore int             `json:"spent,omitempty"`
	TaskBudget *int            `json:"left,omitempty"`
	Caller     identity.ID     `json:"caller,omitzero"`
	ID         string          `json:"id,omitempty"` // hash of the call
	ContextID  *string         `json:"context_id,omitempty"`
	Turns      []wireTurn      `json:"turns,omitempty"`
	Tools      []wireTool      `json:"tools,omitempty"`
	MustAnswer bool            `json:"final,omitempty"`
	Name       string          `json:"name,omitempty"`
	Arguments  json.RawMessage `json:"arguments,omitempty"`
}

type wireTurn struct {
	Role        substrate.Role   `json:"role"`
	ClaimedRole string           `json:"claimed,omitempty"`
	Text        string           `json:"text,omitempty"`
	Files       []wireFile       `json:"files,omitempty"`
	Calls       []wireToolCall   `json:"calls,omitempty"`
	Results     []wireToolResult `json:"results,omitempty"`
}

type wireFile struct {
	Name      string `json:"name,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Data      []byte `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

type wireToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments,omitempty"`
	Opaque    string `json:"opaque,omitempty"`
}

type wireToolResult struct {
	ID     string `json:"id"`
	Text   string `json:"text,omitempty"`
	Failed bool   `json:"failed,omitempty"`
}

type wireTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema"`
	Writes      bool            `json:"writes,omitempty"`
}

// line is one line of a reply. It has exactly one member.
type line struct {
	Text         string             `json:"text,omitempty"`
	Thought      string             `json:"thought,omitempty"`
	IsQuestion   bool               `json:"asks,omitempty"`
	Call         *wireToolCall      `json:"call,omitempty"`
	Usage        *wireUsage         `json:"usage,omitempty"`
	Tools        *[]wireTool        `json:"tools,omitempty"`
	OmittedTools *call.OmittedTools `json:"left_out,omitempty"`
	FinishReason string             `json:"done,omitempty"`
	Error        *failure           `json:"error,omitempty"`
}

type wireUsage struct {
	InputTokens       int `json:"in"`
	OutputTokens      int `json:"out"`
	CachedTokens      int `json:"cached,omitempty"`
	UnreportedTurns   int `json:"unreported,omitempty"`
	Cost              int `json:"cost,omitempty"`
	PriceTableVersion int `json:"prices,omitempty"`
	MaxTokens         int `json:"max_tokens,omitempty"`
}

// failure is the JSON form of an error. If IsAgentError is true, Status, RetryAfterMS and Body
// contain the agent's answer.
type failure struct {
	Kind         string `json:"kind"`
	Text         string `json:"text"`
	Cause        string `json:"cause,omitempty"`
	IsAgentError bool   `json:"agent,omitempty"`
	Status       int    `json:"status,omitempty"`
	RetryAfterMS int64  `json:"after_ms,omitempty"`
	Body         string `json:"body,omitempty"`
}

// maxPayloadBytes is the maximum size of a request and of a reply in AWS Lambda.
const maxPayloadBytes = 6 << 20

func encodeTurn(t *Turn) request {
	r := &t.Request
	out := request{Op: opTurn, Vacant: t.Agent.Vacant, Version: t.Agent.Version, Fallback: t.Fallback, IsCheck: t.IsCheck, CostBefore: t.CostBefore, TaskBudget: t.TaskBudget,
		Caller: r.Caller, ContextID: r.ContextID, MustAnswer: r.MustAnswer}
	if id := r.ID(); !id.IsZero() {
		out.ID = id.String()
	}
	for _, item := range r.Turns {
		wire := wireTurn{Role: item.Role, ClaimedRole: item.ClaimedRole, Text: item.Text}
		for _, f := range item.Files {
			wire.Files = append(wire.Files, wireFile(f))
		}
		for _, c := range item.Calls {
			wire.Calls = append(wire.Calls, wireToolCall(c))
		}
		for _, res := range item.Results {
			wire.Results = append(wire.Results, wireToolResult(res))
		}
		out.Turns = append(out.Turns, wire)
	}
	for _, item := range r.Tools {
		out.Tools = append(out.Tools, wireTool{Name: item.Name, Description: item.Description, Schema: item.Schema})
	}
	return out
}

func (r *request) decodeTurn() (t Turn, err error) {
	t = Turn{Agent: AgentVersion{r.Vacant, r.Version}, Fallback: r.Fallback, IsCheck: r.IsCheck, CostBefore: r.CostBefore, TaskBudget: r.TaskBudget}
	t.Request = substrate.Request{Caller: r.Caller, Vacant: r.Vacant, ContextID: r.ContextID, MustAnswer: r.MustAnswer}
	if r.ID != "" {
		id, err := identity.ParseHash(r.ID)
		if err != nil {
			return t, problem.Invalid("id", "64 hex digits", fmt.Sprintf("%.80q", r.ID))
		}
		t.Request = t.Request.WithID(id)
	}
	for i, item := range r.Turns {
		if !slices.Contains([]substrate.Role{substrate.RoleCaller, substrate.RoleAgent, substrate.RoleTools}, item.Role) {
			return t, problem.Invalid(fmt.Sprintf("turns[%d].role", i), "caller, agent or tools", fmt.Sprintf("%.40q", item.Role))
		}
		decoded := substrate.Turn{Role: item.Role, ClaimedRole: item.ClaimedRole, Text: item.Text}
		for _, f := range item.Files {
			decoded.Files = append(decoded.Files, substrate.File(f))
		}
		for _, c := range item.Calls {
			decoded.Calls = append(decoded.Calls, substrate.ToolCall(c))
		}
		for _, res := range item.Results {
			decoded.Results = append(decoded.Results, substrate.ToolResult(res))
		}
		t.Request.Turns = append(t.Request.Turns, decoded)
	}
	if n := len(t.Request.Turns); n == 0 || t.Request.Turns[n-1].Role == substrate.RoleAgent {
		return t, problem.Invalid("turns", "at least one turn, of which the last is not the agent's", fmt.Sprintf("%d", n))
	}
	for _, item := range r.Tools {
		t.Request.Tools = append(t.Request.Tools, substrate.Tool{Name: item.Name, Description: item.Description, Schema: item.Schema})
	}
	return t, nil
}

func decodeRequest(data []byte) (r request, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return r, problem.Wrap(problem.Malformed, err, "event: expected a request from this host, got something else")
	}
	switch {
	case r.Vacant.IsZero():
		return r, problem.Invalid("vacant", "the id of a vacant", "none")
	case r.Version < 0 || r.CostBefore < 0 || r.TaskBudget != nil && *r.TaskBudget < 0:
		return r, problem.Invalid("agent", "numbers of 0 or more", "a negative number")
	}
	return r, nil
}

func encodeEvent(e substrate.Event) line {
	switch e := e.(type) {
	case substrate.Text:
		return line{Text: string(e)}
	case substrate.Thought:
		return line{Thought: string(e)}
	case substrate.Question:
		return line{IsQuestion: true}
	case substrate.ToolCall:
		return line{Call: new(wireToolCall(e))}
	case substrate.Usage:
		return line{Usage: &wireUsage{e.InputTokens, e.OutputTokens, e.CachedTokens, e.UnreportedTurns, e.Cost, e.PriceTableVersion, e.MaxTokens}}
	case substrate.FinishReason:
		return line{FinishReason: string(e)}
	}
	return line{}
}

func (l *line) decodeEvent() substrate.Event {
	switch {
	case l.Text != "":
		return substrate.Text(l.Text)
	case l.Thought != "":
		return substrate.Thought(l.Thought)
	case l.IsQuestion:
		return substrate.Question{}
	case l.Call != nil:
		return substrate.ToolCall(*l.Call)
	case l.Usage != nil:
		u := l.Usage
		return substrate.Usage{InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, CachedTokens: u.CachedTokens, UnreportedTurns: u.UnreportedTurns, Cost: u.Cost, PriceTableVersion: u.PriceTableVersion, MaxTokens: u.MaxTokens}
	case l.FinishReason != "":
		return substrate.FinishReason(l.FinishReason)
	}
	return nil
}

const maxCauseBytes = 500

func newFailure(err error) *failure {
	p := problem.AsError(err)
	f := &failure{Kind: p.Kind.String(), Text: p.Text()}
	if p.Err != nil {
		f.Cause = substrate.Truncate(p.Err.Error(), maxCauseBytes)
	}
	var agentErr *call.AgentError
	if errors.As(err, &agentErr) {
		f.IsAgentError, f.Status, f.RetryAfterMS, f.Body = true, agentErr.Status, agentErr.RetryAfter.Milliseconds(), agentErr.Body
	}
	return f
}

// toError converts a failure back into an error. An unknown kind becomes SubstrateUnavailable,
// because the other process may be newer.
func (f *failure) toError() error {
	p := &problem.Error{Kind: problem.SubstrateUnavailable, Detail: f.Text}
	if i := slices.IndexFunc(problem.Kinds(), func(k problem.Kind) bool { return k.String() == f.Kind }); i > 0 {
		p.Kind = problem.Kinds()[i]
	}
	if f.Cause != "" {
		p.Err = errors.New(f.Cause)
	}
	if f.IsAgentError {
		return &call.AgentError{Status: f.Status, RetryAfter: time.Duration(f.RetryAfterMS) * time.Millisecond, Body: f.Body, Err: p}
	}
	return p
}
