package openaiwire

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// These bodies describe the requests in API descriptions. Decode reads the actual requests.
type (
	// Input is a string or a list of Asked.
	ResponsesBody struct {
		Model        string `json:"model,omitempty"`
		Input        any    `json:"input"`
		Instructions string `json:"instructions,omitempty"`
		Stream       bool   `json:"stream,omitempty"`
	}
	Body struct {
		Model    string         `json:"model,omitempty"`
		Messages []Asked        `json:"messages"`
		Stream   bool           `json:"stream,omitempty"`
		Options  *StreamOptions `json:"stream_options,omitempty"`
	}
	// Decode also reads lists of parts as Content.
	Asked struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	StreamOptions struct {
		Usage bool `json:"include_usage,omitempty"`
	}
)

type Completion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	// Fingerprint is the hash of the envelope that signs the request.
	Fingerprint string   `json:"system_fingerprint"`
	Choices     []Choice `json:"choices"`
	Usage       *Usage   `json:"usage,omitempty"`
	Proof       *Proof   `json:"vacancy,omitempty"`
}

const (
	completionObject = "chat.completion"
	chunkObject      = "chat.completion.chunk"
)

// Choice is the answer in a completion. A complete answer has Message, and a chunk has Delta.
type Choice struct {
	Index   int      `json:"index"`
	Message *Message `json:"message,omitempty"`
	Delta   *Delta   `json:"delta,omitempty"`
	// FinishReason is stop, or length if the answer may be incomplete.
	FinishReason *string   `json:"finish_reason"`
	Logprobs     *struct{} `json:"logprobs"`
}

type Message struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"` // always null
}

type Delta struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

// Usage is the usage in tokens that the agent reported, or zero.
type Usage struct {
	Prompt     uint64   `json:"prompt_tokens"`
	Completion uint64   `json:"completion_tokens"`
	Total      uint64   `json:"total_tokens"`
	Details    *Details `json:"prompt_tokens_details,omitempty"`
}

type Details struct {
	Cached uint64 `json:"cached_tokens"`
}

func newUsage(u *call.Usage) *Usage {
	if u == nil {
		return &Usage{}
	}
	out := &Usage{Prompt: u.InputTokens, Completion: u.OutputTokens, Total: u.InputTokens + u.OutputTokens}
	if u.CachedTokens > 0 {
		out.Details = &Details{u.CachedTokens}
	}
	return out
}

// Proof contains the receipt of a call with a price, and the metadata of the envelope that signs
// the answer. Warnings lists the requested features that were ignored.
type Proof struct {
	Receipt  string          `json:"receipt,omitempty"`
	Envelope json.RawMessage `json:"envelope"`
	Warnings []string        `json:"warnings,omitempty"`
}

func IsIncomplete(c call.CutReason) bool {
	return c == call.CutLength || c == call.CutBudget || c == call.CutUnknown
}

// Answer is a complete or partial answer in no particular API's form.
type Answer struct {
	ID          string
	Created     int64
	Model       string
	RequestHash string
	Text        string
	CutReason   call.CutReason
	Usage       *call.Usage // may be nil
	Proof       *Proof      // nil before the end of the answer
}

func (api API) RenderAnswer(a *Answer) any {
	if api == Responses {
		return a.newResponse(completed)
	}
	out := a.newCompletion(completionObject)
	out.Choices = []Choice{{Message: &Message{Role: assistant, Content: a.Text}, FinishReason: a.finishReason()}}
	out.Usage, out.Proof = newUsage(a.Usage), a.Proof
	return out
}

func (a *Answer) newCompletion(object string) Completion {
	return Completion{ID: "chatcmpl-" + a.ID, Object: object, Created: a.Created, Model: a.Model, Fingerprint: a.RequestHash, Choices: []Choice{}}
}

func (a *Answer) finishReason() *string {
	reason := "stop"
	if IsIncomplete(a.CutReason) {
		// OpenAI has only this reason for an answer that may be incomplete.
		reason = "length"
	}
	return &reason
}

type Stream struct {
	API
	WantsUsage bool // a completion ends with a chunk that contains the usage
	nextNumber int
}

func (s *Stream) Begin(a *Answer) []byte {
	if s.API == Responses {
		var b []byte
		for _, kind := range []string{"response.created", "response.in_progress"} {
			b = s.appendEvent(b, streamEvent{Type: kind, Response: a.newResponse(inProgress)})
		}
		b = s.appendEvent(b, streamEvent{Type: "response.output_item.added", OutputIndex: new(int), Item: a.newItem(inProgress)})
		part, e := textPart(""), a.newPartEvent("response.content_part.added")
		e.Part = &part
		return s.appendEvent(b, e)
	}
	return s.renderDelta(a, Delta{Role: assistant, Content: new(string)})
}

// Piece returns the events for a piece of an answer. a.Text must already contain the piece.
func (s *Stream) Piece(a *Answer, text string) []byte {
	if s.API == Responses {
		e := a.newPartEvent("response.output_text.delta")
		e.Delta, e.Logprobs = &text, &[]struct{}{}
		return s.appendEvent(nil, e)
	}
	return s.renderDelta(a, Delta{Content: &text})
}

func (s *Stream) renderDelta(a *Answer, d Delta) []byte {
	out := a.newCompletion(chunkObject)
	out.Choices = []Choice{{Delta: &d}}
	return appendData(nil, out)
}

func (s *Stream) End(a *Answer) (b []byte) {
	if s.API == Responses {
		resp := a.newResponse(completed)
		text, e := a.Text, a.newPartEvent("response.output_text.done")
		e.Text, e.Logprobs = &text, &[]struct{}{}
		b = s.appendEvent(nil, e)
		e = a.newPartEvent("response.content_part.done")
		e.Part = &resp.Output[0].Content[0]
		b = s.appendEvent(b, e)
		b = s.appendEvent(b, streamEvent{Type: "response.output_item.done", OutputIndex: new(int), Item: &resp.Output[0]})
		return s.appendEvent(b, streamEvent{Type: "response." + resp.Status, Response: resp})
	}
	final := a.newCompletion(chunkObject)
	final.Choices = []Choice{{Delta: &Delta{}, FinishReason: a.finishReason()}}
	if s.WantsUsage {
		b = appendData(b, final)
		final = a.newCompletion(chunkObject)
		final.Usage = newUsage(a.Usage)
	}
	final.Proof = a.Proof
	return append(appendData(b, final), "data: [DONE]\n\n"...)
}

func (s *Stream) Fail(a *Answer, err error) []byte {
	if s.API == Responses {
		// Some clients read only one of these two events.
		e, r := NewFailure(err).Error, a.newResponse(failed)
		r.Error = &ResponseError{e.Code, e.Message}
		return s.appendEvent(s.appendEvent(nil, streamEvent{Type: "error", Error: &e}), streamEvent{Type: "response.failed", Response: r})
	}
	return appendData(nil, NewFailure(err))
}

func appendData(b []byte, v any) []byte {
	data, _ := httpapi.Encode(v) // strings always encode
	return append(append(append(b, "data: "...), data...), '\n')
}

type Model struct {
	ID      string `json:"id"` // the vacant's name
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Owner   string `json:"owned_by"`
}

type ModelList struct {
	Object string  `json:"object"`
	Data   []Model `json:"data"`
}

type Failure struct {
	Error Error `json:"error"`
}

type Error struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
}

func NewFailure(err error) Failure {
	p := problem.AsError(err)
	e := Error{Message: p.Text(), Type: "invalid_request_error", Code: p.Kind.String()}
	var withCode codedError
	if p.Field != "" {
		e.Param = &p.Field
	}
	switch status := p.Kind.Forms().HTTPStatus; {
	case errors.As(err, &withCode):
		e.Code = withCode.code
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

// IdempotencyHeader and RetryCountHeader mark a repeated request. RetryHeader tells the client
// whether to retry.
const (
	IdempotencyHeader = "Idempotency-Key"
	RetryCountHeader  = "X-Stainless-Retry-Count"
	RetryHeader       = "X-Should-Retry"
)

func Fail(w http.ResponseWriter, err error) {
	p := problem.AsError(err)
	body, encErr := httpapi.Encode(NewFailure(err))
	if encErr != nil {
		body = []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":"internal"}}` + "\n")
	}
	httpapi.SetRefusalHeaders(w.Header(), p)
	httpapi.Send(w, p.Kind.Forms().HTTPStatus, body)
}
