// Package mcptool defines the tools of the MCP servers of vacants and hosts: their names,
// descriptions and schemas. It also decodes arguments and encodes results. Package front/mcpserver
// serves the tools over HTTP. Other transports must implement Agent and Host.
//
// A refusal that the caller can resolve is a result with isError whose text explains the remedy. A
// fault of the host is a JSON-RPC error. Unknown arguments are refused, except by the team tools.
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

const (
	metaPrefix = "io.github.vacancy-host/"
	// MetaIdempotencyKey contains the idempotency key of a question. A question that an account
	// repeats with the same key does not run again.
	MetaIdempotencyKey = metaPrefix + "idempotency-key"
	// MetaEnvelope contains the message that the vacant signed.
	MetaEnvelope = metaPrefix + "envelope"
	// MetaTaskID contains the id of a question's task. If a question has MetaTaskID set to true,
	// its first progress notification contains the id, so that the client can stop the task early.
	MetaTaskID = metaPrefix + "task"
)

const (
	// AskTimeout limits how long Ask waits for an answer before it returns the task without one.
	AskTimeout  = 25 * time.Second
	MaxTaskWait = 20 * time.Second
)

// Agent is a vacant that a client uses.
type Agent interface {
	// Ask returns the answer to a question, or its task if the answer takes too long. piece
	// receives the pieces of the answer as they arrive. It may be nil.
	Ask(ctx context.Context, q Question, piece func(text string)) (Answer, error)
	// GetTask returns the answer of a task. It waits at most wait for the answer.
	GetTask(ctx context.Context, id string, wait time.Duration, piece func(text string)) (Answer, error)
	StopTask(ctx context.Context, id string) (Answer, error)
	Describe(ctx context.Context) (Description, error)
	// CallSigned sends a signed request (PROTOCOL §5.1) to the vacant and returns the message that
	// the vacant signed.
	CallSigned(ctx context.Context, request []byte) (message []byte, err error)
}

// Host is a host that a client uses.
type Host interface {
	SearchAgents(ctx context.Context, s SearchArgs) (SearchPage, error)
	DescribeAgent(ctx context.Context, agent string) (AgentInfo, error)
	// OpenAgent returns a published vacant of the host by its name or id.
	OpenAgent(ctx context.Context, agent string) (Agent, error)
	// Team requires ServerConfig.HasTeamTools.
	Team() Team
}

type Question struct {
	Text           string
	Files          []substrate.File
	Context        string // conversation to continue; "" begins a new one
	IdempotencyKey string // value of MetaIdempotencyKey, or ""
	MaxPrice       *money.Amount
	// OnAccept is called with the task's id when the call is accepted, before any piece. It may be
	// nil.
	OnAccept func(task string)
}

// Answer describes a task and contains its answer, if there is one.
type Answer struct {
	Agent   string `json:"agent,omitempty"`
	Text    string `json:"text,omitempty"`
	Context string `json:"context"`
	TaskID  string `json:"task"`
	// State is the state of a task that is running, waits for a message, or was canceled without an
	// answer.
	State string `json:"state,omitempty"`
	// FinishReason is "stop" for a complete answer, or the reason why the answer is incomplete.
	FinishReason string        `json:"finish,omitempty"`
	Price        *money.Amount `json:"price,omitempty"`
	ReceiptURL   string        `json:"receipt,omitempty"`

	Envelope json.RawMessage `json:"-"` // value of MetaEnvelope
}

type Description struct {
	ID             string  `json:"vacant_id"`
	CapabilityText *string `json:"capability_text"`
	HaloVersion    *int64  `json:"halo_version"`
	Endpoint       *string `json:"endpoint"`
}

type SearchArgs struct {
	Query    string `json:"query"`
	Tag      string `json:"tag"`
	MaxPrice *int64 `json:"max_price" canon:"min=0"`
	Limit    int    `json:"limit" canon:"min=1"`
	Cursor   string `json:"cursor"`
}

type SearchPage struct {
	Agents []AgentInfo `json:"agents"`
	Next   string      `json:"next,omitempty"`
	// UnverifiedCount counts matches that could not be verified.
	UnverifiedCount int `json:"left_out,omitempty"`
}

type AgentInfo struct {
	NameOrID     string   `json:"agent"`
	ID           string   `json:"vacant_id"`
	Capability   string   `json:"capability"`
	State        string   `json:"state,omitempty"`
	Price        int64    `json:"price_micro_dollars"`
	Score        float64  `json:"score"`
	MissingWords []string `json:"missing_words,omitempty"`
	Tags         []string `json:"tags,omitempty"`
	Skills       []string `json:"skills,omitempty"`
	Summary      string   `json:"summary,omitempty"`
	URL          string   `json:"url"`
	MCPURL       string   `json:"mcp"`
}

// ReferenceError is an error of vacant_call or of an owner's tool. Its result is {"error": text}
// without isError, as in the reference implementation.
type ReferenceError struct{ Text string }

func (e *ReferenceError) Error() string { return e.Text }

var argumentLimits = canon.Limits{Bytes: 512 << 10, Depth: 64, Keys: 4096, Lenient: true}

func addStrictTool[In any](s *sdk.Server, t *sdk.Tool, run func(context.Context, *sdk.CallToolRequest, In) (*sdk.CallToolResult, error)) {
	addTool(s, t, argumentLimits, run)
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
			return newRefusal(err)
		}
		return res, nil
	})
}

// newResult returns v as structured content, together with a text for clients that read only texts.
func newResult(text string, v any) (*sdk.CallToolResult, error) {
	encoded, err := httpapi.Encode(v)
	if err != nil {
		return nil, err
	}
	encoded = encoded[:len(encoded)-1]
	if text == "" {
		text = string(encoded)
	}
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, StructuredContent: json.RawMessage(encoded)}, nil
}

// memberAdder is implemented by errors that add members to the JSON content of a refusal.
type memberAdder interface{ Members() any }

func newRefusal(err error) (*sdk.CallToolResult, error) {
	return newRefusalWithHint(err, hints[problem.AsError(err).Kind])
}

func newRefusalWithHint(err error, hint string) (*sdk.CallToolResult, error) {
	p := problem.AsError(err)
	if IsFault(err) {
		return nil, &jsonrpc.Error{Code: int64(httpapi.RPCCode(p.Kind)), Message: p.Text()}
	}
	content := map[string]any{}
	var adder memberAdder
	if errors.As(err, &adder) {
		if b, err := json.Marshal(adder.Members()); err == nil {
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
	res, err := newResult(text, content)
	if err == nil {
		res.IsError = true
	}
	return res, err
}

// IsFault reports whether an error fails the request instead of being a result of its tool. Faults
// are errors that the caller cannot resolve, and a missing credential, which the client obtains by
// itself.
func IsFault(err error) bool {
	switch problem.AsError(err).Kind {
	case problem.Internal, problem.Unavailable, problem.Damaged, problem.Unauthorized:
		return true
	}
	return false
}

// hints contains advice for errors whose texts contain no advice.
var hints = map[problem.Kind]string{
	problem.NotAccepting:         "it is asleep or not open; ask another agent, or try again later",
	problem.Gone:                 "ask another agent",
	problem.TooManyRequests:      "try again in a few seconds",
	problem.SubstrateBusy:        "try again in a few seconds",
	problem.SubstrateUnavailable: "try again later",
	problem.BudgetSpent:          "try again after midnight UTC",
	problem.DeadlineExceeded:     "ask for less, or ask again",
	problem.PriceAboveMax:        "raise max_price, or leave it out",
}

type progressNotifier struct {
	ctx       context.Context
	req       *sdk.CallToolRequest
	token     json.RawMessage
	sentCount atomic.Int64
}

// newProgressNotifier returns nil unless the client asked for progress and the answer is a stream.
func newProgressNotifier(ctx context.Context, r *sdk.CallToolRequest) *progressNotifier {
	token, _ := ctx.Value(progressTokenKey{}).(json.RawMessage)
	if token == nil {
		return nil
	}
	return &progressNotifier{ctx: ctx, req: r, token: token}
}

func (p *progressNotifier) send(text string, meta sdk.Meta) {
	// The error is ignored, because the client may have disconnected.
	_ = p.req.Session.NotifyProgress(p.ctx, &sdk.ProgressNotificationParams{Meta: meta, ProgressToken: p.token, Message: text, Progress: float64(p.sentCount.Add(1))})
}

func (p *progressNotifier) pieceFunc() func(string) {
	if p == nil {
		return nil
	}
	return func(text string) { p.send(text, nil) }
}

type progressTokenKey struct{}

// WithProgressToken marks ctx as the context of a request whose answer is a stream. token is the
// client's progress token as received, because the library changes large numbers.
func WithProgressToken(ctx context.Context, token json.RawMessage) context.Context {
	return context.WithValue(ctx, progressTokenKey{}, token)
}

func truePointer() *bool  { t := true; return &t }
func falsePointer() *bool { return new(bool) }

// inputSchema returns the JSON schema of an object. A name that begins with * marks a required
// property.
func inputSchema(properties ...string) json.RawMessage {
	var members, required []string
	for i := 0; i < len(properties); i += 2 {
		name, isRequired := strings.CutPrefix(properties[i], "*")
		if isRequired {
			required = append(required, fmt.Sprintf("%q", name))
		}
		members = append(members, fmt.Sprintf("%q:%s", name, properties[i+1]))
	}
	s := `{"type":"object","properties":{` + strings.Join(members, ",") + `},"additionalProperties":false`
	if len(required) > 0 {
		s += `,"required":[` + strings.Join(required, ",") + `]`
	}
	return json.RawMessage(s + "}")
}

// outputSchema returns the JSON schema of a result. The schema allows other members, because some
// clients also validate refusals against it.
func outputSchema(properties ...string) json.RawMessage {
	var members []string
	for i := 0; i < len(properties); i += 2 {
		members = append(members, fmt.Sprintf("%q:%s", properties[i], properties[i+1]))
	}
	return json.RawMessage(`{"type":"object","properties":{` + strings.Join(members, ",") + `}}`)
}

func propertySchema(constraints, description string) string {
	return fmt.Sprintf(`{%s,"description":%q}`, constraints, description)
}

const (
	stringType      = `"type":"string"`
	nonNegativeType = `"type":"integer","minimum":0`
	stringListType  = `"type":"array","items":{"type":"string"}`
)
