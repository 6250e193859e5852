package openai

import (
	"encoding/json"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Bodies of requests, for descriptions: Decode reads them.
type (
	// Body has the members that count. Members has the others.
	Body struct {
		Model    string         `json:"model,omitempty"`
		Messages []Asked        `json:"messages"`
		Stream   bool           `json:"stream,omitempty"`
		Options  *StreamOptions `json:"stream_options,omitempty"`
	}
	// Asked is a message of a request, with a text. Parts of text are read too.
	Asked struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	StreamOptions struct {
		Usage bool `json:"include_usage,omitempty"`
	}
)

// Completion is the answer to a request, or a chunk of it.
type Completion struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"`
	Model       string   `json:"model"`
	Fingerprint string   `json:"system_fingerprint"` // hash of the envelope that signs the request
	Choices     []Choice `json:"choices"`
	Usage       *Usage   `json:"usage,omitempty"`
	Proof       *Proof   `json:"vacancy,omitempty"`
}

// The objects of completions.
const (
	Whole = "chat.completion"
	Chunk = "chat.completion.chunk"
)

// Choice is the answer of a completion. A whole one has Message, a chunk Delta.
type Choice struct {
	Index   int      `json:"index"`
	Message *Message `json:"message,omitempty"`
	Delta   *Delta   `json:"delta,omitempty"`
	// Finish is the reason that the answer ends: stop, or length if it ends early.
	Finish *string `json:"finish_reason"`
	// Logprobs is null.
	Logprobs *struct{} `json:"logprobs"`
}

// Message is a whole answer.
type Message struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"` // null
}

// Delta is the next piece of an answer.
type Delta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

// Usage is the usage that the agent reported, in tokens; zeros without a report.
type Usage struct {
	Prompt     uint64   `json:"prompt_tokens"`
	Completion uint64   `json:"completion_tokens"`
	Total      uint64   `json:"total_tokens"`
	Details    *Details `json:"prompt_tokens_details,omitempty"`
}

// Details divides the tokens of a prompt.
type Details struct {
	Cached uint64 `json:"cached_tokens"`
}

// UsageOf returns a reported usage as clients read it. u may be nil.
func UsageOf(u *call.Usage) *Usage {
	if u == nil {
		return &Usage{}
	}
	out := &Usage{Prompt: u.In, Completion: u.Out, Total: u.In + u.Out}
	if u.Cached > 0 {
		out.Details = &Details{u.Cached}
	}
	return out
}

// Proof names the receipt of the call, if it had a price, and has the metadata of the envelope that
// signs the answer.
type Proof struct {
	Receipt  string          `json:"receipt,omitempty"`
	Envelope json.RawMessage `json:"envelope"`
}

// Finish returns the reason that an answer with a cut ends.
func Finish(c call.Cut) *string {
	reason := "stop"
	switch c {
	case call.CutLength, call.CutBudget, call.CutUnknown:
		reason = "length" // the one reason of OpenAI's for an answer that may be incomplete
	}
	return &reason
}

// Model is a vacant in a list of models.
type Model struct {
	ID      string `json:"id"` // its name
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
}

// ModelList is the answer to GET Models.
type ModelList struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

// Failure is the body of an error.
type Failure struct {
	Error Error `json:"error"`
}

// Error is an error as clients of OpenAI's API read it.
type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

// FailureOf returns the body of an error.
func FailureOf(err error) Failure {
	p := problem.Of(err)
	e := Error{Message: p.Text(), Type: "invalid_request_error", Code: p.Kind.String()}
	if p.Field != "" {
		e.Param = &p.Field
	}
	switch status := p.Kind.Row().Status; {
	case status == http.StatusUnauthorized:
		e.Code = "invalid_api_key"
	case status == http.StatusPaymentRequired:
		e.Type, e.Code = "insufficient_quota", "insufficient_quota"
	case status == http.StatusNotFound:
		e.Code = "model_not_found"
	case status == http.StatusForbidden:
		e.Type = "permission_error"
	case status == http.StatusTooManyRequests:
		e.Type, e.Code = "requests", "rate_limit_exceeded"
	case status >= http.StatusInternalServerError:
		e.Type = "server_error"
	}
	return Failure{e}
}

// Headers by which a client says that it sends a request again, and RetryHeader, which tells it whether to.
const (
	IdempotencyHeader = "Idempotency-Key"
	RetryCountHeader  = "X-Stainless-Retry-Count"
	RetryHeader       = "X-Should-Retry"
)

// Fail answers with an error.
func Fail(w http.ResponseWriter, err error) {
	p := problem.Of(err)
	body, encErr := httpapi.Encode(FailureOf(err))
	if encErr != nil {
		body = []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":"internal"}}` + "\n")
	}
	httpapi.Refusing(w.Header(), p)
	httpapi.Send(w, p.Kind.Row().Status, body)
}
