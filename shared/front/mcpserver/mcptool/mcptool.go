// Package mcptool defines the tools of a vacant's MCP server and of a host's: their names, texts and
// schemas, how arguments are read and how results are rendered. Package front/mcpserver serves them over
// HTTP; another transport implements Agent and Host, too.
//
// The invariants: a refusal that the caller can mend is a result with isError, whose text says what
// to do; a fault of the host is an error of JSON-RPC. Arguments that are unknown are refused.
package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

// Keys of _meta.
const (
	metaPrefix = "io.github.vacancy-host/"
	// MetaKey has the id of a question: a question of an account that comes again by it runs nothing.
	MetaKey = metaPrefix + "idempotency-key"
	// MetaEnvelope has the message that the vacant signed.
	MetaEnvelope = metaPrefix + "envelope"
	// MetaTask has the id of a question's task, in the first progress of a question whose own MetaTask
	// is true. A client can stop the task by it before there is an answer.
	MetaTask = metaPrefix + "task"
)

// Times of a response.
const (
	// AnswerTime is the time after which Ask returns a task that is still at work.
	AnswerTime = 25 * time.Second
	// MaxWait bounds the argument wait of get_task.
	MaxWait = 20 * time.Second
)

// Agent is one vacant, as one client asks it. An error that is not a problem of the caller's is
// a fault.
type Agent interface {
	// Ask returns the answer, or the task that is at work on it. The pieces of the answer go to piece
	// as they come, unless piece is nil.
	Ask(ctx context.Context, q Question, piece func(text string)) (Answer, error)
	// Task returns the answer of a task, after wait at the latest.
	Task(ctx context.Context, id string, wait time.Duration, piece func(text string)) (Answer, error)
	Stop(ctx context.Context, id string) (Answer, error)
	Describe(ctx context.Context) (Description, error)
	// Call answers a signed request, which has the form of PROTOCOL §5.1, with the signed message.
	// The error is a *Said if the reference answers with a text for it.
	Call(ctx context.Context, request []byte) (message []byte, err error)
}

// Host is a host, as one client asks it.
type Host interface {
	Search(ctx context.Context, s Search) (Found, error)
	Show(ctx context.Context, agent string) (Shown, error)
	// Agent returns a published vacant of the host by its name or id.
	Agent(ctx context.Context, agent string) (Agent, error)
	// Team returns the team of the client, if About.Team is set.
	Team() Team
}

// Question is a text for a vacant.
type Question struct {
	Text    string
	Files   []substrate.File
	Context string        // the conversation, or ""
	ID      string        // of MetaKey, or ""
	Most    *money.Amount // the most that the call may cost, unless nil
	// Began is called with the id of the task once the call is accepted, before any piece, unless nil.
	Began func(task string)
}

// Answer describes a task, with its answer if there is one.
type Answer struct {
	Agent   string `json:"agent,omitempty"` // at a host's server
	Text    string `json:"text,omitempty"`
	Context string `json:"context"`
	Task    string `json:"task"`
	// State is the state of a task that is at work, waits for a message, or was canceled without an answer.
	State string `json:"state,omitempty"`
	// Finish is stop for a whole answer, or why the answer ends early.
	Finish string `json:"finish,omitempty"`
	// Price has the cost of the call in micro-dollars.
	Price *money.Amount `json:"price,omitempty"`
	// Receipt is the URL of the receipt of a call that had a price.
	Receipt string `json:"receipt,omitempty"`

	Envelope json.RawMessage `json:"-"` // see MetaEnvelope
}

// Description is the result of vacant_describe.
type Description struct {
	ID         string  `json:"vacant_id"`
	Capability *string `json:"capability_text"`
	Halo       *int64  `json:"halo_version"`
	Endpoint   *string `json:"endpoint"`
}

// Search are the arguments of search_agents.
type Search struct {
	Query    string `json:"query"`
	Tag      string `json:"tag"`
	MaxPrice *int64 `json:"max_price" canon:"min=0"`
	Limit    int    `json:"limit" canon:"min=1"`
	Cursor   string `json:"cursor"`
}

// Found is the result of search_agents.
type Found struct {
	Agents []Shown `json:"agents"`
	Next   string  `json:"next,omitempty"`
	// LeftOut counts hits that did not verify.
	LeftOut int `json:"left_out,omitempty"`
}

// Shown is a published vacant.
type Shown struct {
	Agent      string   `json:"agent"` // its name, or else its id
	ID         string   `json:"vacant_id"`
	Capability string   `json:"capability"`
	State      string   `json:"state,omitempty"`
	Price      int64    `json:"price_micro_dollars"`
	Score      float64  `json:"score"`
	Missing    []string `json:"missing_words,omitempty"`
	Tags       []string `json:"tags,omitempty"`
	Skills     []string `json:"skills,omitempty"`
	Summary    string   `json:"summary,omitempty"`
	URL        string   `json:"url"`
	MCP        string   `json:"mcp"`
}

// Said is an answer of vacant_call, or of an owner's tool, that is an error in the reference's form:
// {"error": text}. The reference does not mark such a result as an error.
type Said struct{ Text string }

func (s *Said) Error() string { return s.Text }

// limits are the limits of the arguments of a tool, which has an envelope at most.
var limits = canon.Limits{Bytes: 512 << 10, Depth: 64, Keys: 4096, Lenient: true}

// tool is a tool whose arguments are an In.
func tool[In any](s *sdk.Server, t *sdk.Tool, run func(context.Context, *sdk.CallToolRequest, In) (*sdk.CallToolResult, error)) {
	addTool(s, t, limits, run)
}

func addTool[In any](s *sdk.Server, t *sdk.Tool, limits canon.Limits, run func(context.Context, *sdk.CallToolRequest, In) (*sdk.CallToolResult, error)) {
	s.AddTool(t, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		var in In
		arguments := r.Params.Arguments
		if len(arguments) == 0 {
			arguments = []byte("{}")
		}
		var res *sdk.CallToolResult
		err := canon.Unmarshal(arguments, &in, limits)
		if err == nil {
			res, err = run(ctx, r, in)
		}
		if err != nil {
			return refusal(err)
		}
		return res, nil
	})
}

// result renders a value as structured content, with a text for readers of texts; "" means the
// value in JSON.
func result(text string, v any) (*sdk.CallToolResult, error) {
	b, err := httpapi.Encode(v)
	if err != nil {
		return nil, err
	}
	b = b[:len(b)-1]
	if text == "" {
		text = string(b)
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: json.RawMessage(b)}, nil
}

// members is implemented by errors that add members to their body.
type members interface{ Members() any }

// refusal renders an error, with a hint if its kind has one.
func refusal(err error) (*sdk.CallToolResult, error) {
	return refuse(err, hints[problem.Of(err).Kind])
}

// refuse renders an error with a hint, or without one if hint is empty.
func refuse(err error, hint string) (*sdk.CallToolResult, error) {
	p := problem.Of(err)
	if IsFault(err) {
		return nil, &jsonrpc.Error{Code: int64(httpapi.RPCCode(p.Kind)), Message: p.Text()}
	}
	content := map[string]any{}
	var more members
	if errors.As(err, &more) {
		if b, err := json.Marshal(more.Members()); err == nil {
			_ = json.Unmarshal(b, &content)
		}
	}
	content["code"], content["detail"] = p.Kind.String(), p.Text()
	if p.Field != "" {
		content["field"] = p.Field
	}
	text := p.Text()
	if hint != "" {
		text += "; " + hint
	}
	res, err := result(text, content)
	if err == nil {
		res.IsError = true
	}
	return res, err
}

// IsFault reports whether an error is an error of the request and not a result of its tool: a
// fault of the host, which the caller cannot mend, or the lack of a credential, which the client
// gets by itself.
func IsFault(err error) bool {
	switch problem.Of(err).Kind {
	case problem.Internal, problem.Unavailable, problem.Damaged, problem.Unauthorized:
		return true
	}
	return false
}

// hints say what helps, where the detail does not.
var hints = map[problem.Kind]string{
	problem.NotAccepting:         "it is asleep or not open; ask another agent, or try again later",
	problem.Gone:                 "ask another agent",
	problem.TooMany:              "try again in a few seconds",
	problem.SubstrateBusy:        "try again in a few seconds",
	problem.SubstrateUnavailable: "try again later",
	problem.BudgetSpent:          "try again after midnight UTC",
	problem.Deadline:             "ask for less, or ask again",
	problem.PriceAboveMax:        "raise max_price, or leave it out",
}

// progress sends progress to a client that asked for it.
type progress struct {
	ctx   context.Context
	r     *sdk.CallToolRequest
	token json.RawMessage
	n     atomic.Int64
}

// progressOf returns nil if the client did not ask for progress, or if none reaches it.
func progressOf(ctx context.Context, r *sdk.CallToolRequest) *progress {
	token, _ := ctx.Value(streamedKey{}).(json.RawMessage)
	if token == nil {
		return nil
	}
	return &progress{ctx: ctx, r: r, token: token}
}

func (p *progress) send(text string, meta sdk.Meta) {
	// A client that is gone gets none.
	_ = p.r.Session.NotifyProgress(p.ctx, &sdk.ProgressNotificationParams{Meta: meta, ProgressToken: p.token, Message: text, Progress: float64(p.n.Add(1))})
}

// piece returns the function that sends a piece of an answer, or nil.
func (p *progress) piece() func(string) {
	if p == nil {
		return nil
	}
	return func(text string) { p.send(text, nil) }
}

type streamedKey struct{}

// WithStream marks ctx as the context of a request whose answer is a stream, so that progress reaches
// the client. token is the client's progress token as it came, because the library changes large numbers.
func WithStream(ctx context.Context, token json.RawMessage) context.Context {
	return context.WithValue(ctx, streamedKey{}, token)
}

func yes() *bool { t := true; return &t }
func no() *bool  { return new(bool) }

// schema returns the schema of an object with some properties, in JSON. Those with * before their
// name are required.
func schema(properties ...string) json.RawMessage {
	var names, required []string
	for i := 0; i < len(properties); i += 2 {
		name, must := strings.CutPrefix(properties[i], "*")
		if must {
			required = append(required, fmt.Sprintf("%q", name))
		}
		names = append(names, fmt.Sprintf("%q:%s", name, properties[i+1]))
	}
	s := `{"type":"object","properties":{` + strings.Join(names, ",") + `},"additionalProperties":false`
	if len(required) > 0 {
		s += `,"required":[` + strings.Join(required, ",") + `]`
	}
	return json.RawMessage(s + "}")
}

// results returns the schema of a result with some properties. It admits the members of a refusal, too,
// because some clients check them by it (the Inspector 0.15).
func results(properties ...string) json.RawMessage {
	var members []string
	for i := 0; i < len(properties); i += 2 {
		members = append(members, fmt.Sprintf("%q:%s", properties[i], properties[i+1]))
	}
	return json.RawMessage(`{"type":"object","properties":{` + strings.Join(members, ",") + `}}`)
}

// described returns a schema of a type with a description.
func described(of, description string) string {
	return fmt.Sprintf(`{%s,"description":%q}`, of, description)
}

// Types of schemas.
const (
	aText   = `"type":"string"`
	aNumber = `"type":"integer","minimum":0`
	texts   = `"type":"array","items":{"type":"string"}`
)
