// Package anthropic is the substrate behind Anthropic's messages: at Anthropic, and at
// servers that speak as it does.
//
// The invariant: the request contains the model's name, the conversation, what the
// vacant's owner wants of the model, the owner's secret, and nothing else: no id, no
// envelope, nothing of the host's environment.
package anthropic

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/remote"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const (
	// version of the API, which is a date.
	version = "2023-06-01"
	// maxTokens is what a model may say of which its agent says nothing: the API wants
	// a number, which every model since Claude 3.5 takes.
	maxTokens = 8192
)

// Kinds are the kinds of this package. Requests go through client as the vacant,
// so client's guard may refuse them.
func Kinds(client *outbound.Client) substrate.Kinds {
	return substrate.Kinds{substrate.KindAnthropic: func(argument string) (substrate.Substrate, error) {
		spec := substrate.Spec{Kind: substrate.KindAnthropic, Argument: argument}
		if err := spec.CheckModel(); err != nil {
			return nil, err
		}
		_, model, _ := spec.Model()
		return &server{client, spec, model}, nil
	}}
}

// server is a model at a server.
type server struct {
	client *outbound.Client
	spec   substrate.Spec
	model  string
}

// Infer streams the model's answer (remote.Infer). SubstrateRefused is a model that
// refuses to answer.
func (s *server) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if r.Secret.IsZero() {
			yield(nil, remote.WithoutSecret(s.spec.Kind))
			return
		}
		header := http.Header{}
		header.Set("X-Api-Key", r.Secret.Reveal())
		header.Set("Anthropic-Version", version)
		remote.Infer(ctx, s.client, &r, remote.Request{URL: s.spec.Endpoint(), Header: header, Body: s.bodyOf(&r)}, new(answer))(yield)
	}
}

// request is the body of a request.
type request struct {
	Model        string        `json:"model"`
	MaxTokens    int           `json:"max_tokens"`
	System       string        `json:"system,omitempty"`
	Messages     []message     `json:"messages"`
	Stream       bool          `json:"stream"`
	Tools        []tool        `json:"tools,omitempty"`
	ToolChoice   *toolChoice   `json:"tool_choice,omitempty"` // none, or as the model likes
	OutputConfig *outputConfig `json:"output_config,omitempty"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a part of a message: a text, the use of a tool, or its result.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type toolChoice struct {
	Type string `json:"type"`
}

type outputConfig struct {
	Effort substrate.Effort `json:"effort"`
}

// bodyOf is the body of a request.
func (s *server) bodyOf(r *substrate.Request) request {
	body := request{Model: s.model, MaxTokens: cmp.Or(r.MaxTokens, maxTokens), System: r.System, Stream: true}
	if r.JSON {
		body.System = remote.AskForJSON(r.System)
	}
	if r.Effort != "" {
		body.OutputConfig = &outputConfig{r.Effort}
	}
	for _, t := range r.Turns {
		if blocks := blocksOf(&t); len(blocks) > 0 { // the API refuses a message of nothing
			role := "user"
			if t.Role == substrate.Agent {
				role = "assistant"
			}
			body.Messages = append(body.Messages, message{role, blocks})
		}
	}
	for _, t := range r.Tools {
		body.Tools = append(body.Tools, tool{t.Name, t.Description, t.Schema})
	}
	if r.Final && len(body.Tools) > 0 {
		body.ToolChoice = &toolChoice{"none"}
	}
	return body
}

// blocksOf are the parts of a turn.
func blocksOf(t *substrate.Turn) (all []block) {
	if t.Text != "" {
		all = append(all, block{Type: "text", Text: t.Text})
	}
	for _, c := range t.Calls {
		all = append(all, block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: remote.Object(c.Arguments)})
	}
	for _, r := range t.Results {
		all = append(all, block{Type: "tool_result", ToolUseID: r.ID, Content: r.Text, IsError: r.Failed})
	}
	return all
}

// event is one of a stream, as far as it matters.
type event struct {
	Type    string
	Index   int
	Message struct {
		Usage usage
	}
	Block struct {
		Type, ID, Name string
		Text, Thinking string
		Input          json.RawMessage
	} `json:"content_block"`
	Delta struct {
		Type           string
		Text, Thinking string
		PartialJSON    string `json:"partial_json"`
		StopReason     string `json:"stop_reason"`
	}
	Usage *usage
	Error struct{ Type string }
}

// usage is what a server reports. Numbers that are absent are as before.
type usage struct {
	In      *int `json:"input_tokens"` // apart from those of the cache
	Out     *int `json:"output_tokens"`
	Written *int `json:"cache_creation_input_tokens"`
	Cached  *int `json:"cache_read_input_tokens"`
}

// answer reads an answer.
type answer struct {
	told                  bool // what the question used
	calls                 []substrate.ToolCall
	calling               bool // the open block is a call
	in, out, wrote, cache int
	end                   substrate.Done
}

// Read implements remote.Answer.
func (a *answer) Read(data []byte) (events []substrate.Event, err error) {
	var e event
	if json.Unmarshal(data, &e) != nil {
		return nil, remote.Unreadable()
	}
	switch e.Type {
	case "message_start":
		// It is told with what follows: a server that fails right after it may be
		// asked again, as if it had said nothing.
		a.count(&e.Message.Usage)
	case "content_block_start", "content_block_delta":
		if !a.told {
			events, a.told = append(events, a.usage()), true
		}
		said, err := a.piece(&e)
		return append(events, said...), err
	case "content_block_stop":
		a.calling = false
	case "message_delta":
		if e.Usage != nil {
			a.count(e.Usage)
			events, a.told = append(events, a.usage()), true
		}
		return events, a.ends(e.Delta.StopReason)
	case "message_stop":
		return nil, io.EOF
	case "error":
		switch e.Error.Type {
		case "rate_limit_error":
			return nil, problem.New(problem.SubstrateBusy, "the model's server takes no more requests for now")
		case "invalid_request_error", "authentication_error", "permission_error", "not_found_error", "billing_error":
			return nil, problem.New(problem.SubstrateMisconfigured, "the model's server refuses the request: %s", e.Error.Type)
		}
		return nil, remote.Failed()
	}
	return nil, nil // ping, and what later versions add
}

// count keeps the numbers of u.
func (a *answer) count(u *usage) {
	for to, n := range map[*int]*int{&a.in: u.In, &a.out: u.Out, &a.wrote: u.Written, &a.cache: u.Cached} {
		if n != nil {
			*to = *n
		}
	}
}

func (a *answer) usage() substrate.Usage {
	return substrate.Usage{In: max(a.in, 0) + max(a.wrote, 0) + max(a.cache, 0), Out: a.out, Cached: a.cache}
}

// maxCalls bounds the calls of one answer.
const maxCalls = 128

// piece reads the beginning of a block, or more of it.
func (a *answer) piece(e *event) (events []substrate.Event, err error) {
	if e.Type == "content_block_start" {
		if a.calling = e.Block.Type == "tool_use"; a.calling {
			if len(a.calls) == maxCalls {
				return nil, &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model: tool_use", Want: fmt.Sprintf("at most %d", maxCalls), Got: "more"}
			}
			call := substrate.ToolCall{ID: e.Block.ID, Name: e.Block.Name}
			if input := bytes.TrimSpace(e.Block.Input); !bytes.Equal(input, []byte("{}")) && !bytes.Equal(input, []byte("null")) {
				call.Arguments = string(input)
			}
			a.calls = append(a.calls, call)
		}
	}
	if thought := e.Block.Thinking + e.Delta.Thinking; thought != "" {
		events = append(events, substrate.Thought(thought))
	}
	if text := e.Block.Text + e.Delta.Text; text != "" {
		events = append(events, substrate.Text(text))
	}
	if e.Delta.PartialJSON != "" {
		if !a.calling {
			return nil, remote.Unreadable()
		}
		a.calls[len(a.calls)-1].Arguments += e.Delta.PartialJSON
	}
	return events, nil
}

// ends keeps why the answer ends; "" says nothing.
func (a *answer) ends(why string) error {
	switch why {
	case "":
	case "end_turn", "stop_sequence":
		a.end = substrate.Stop
	case "max_tokens", "model_context_window_exceeded":
		a.end = substrate.Length
	case "tool_use":
		a.end = substrate.Called
	case "refusal":
		return remote.Refused("its provider's rules stopped the answer")
	default:
		return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model: stop_reason", Want: "end_turn, stop_sequence, max_tokens, tool_use or refusal", Got: fmt.Sprintf("%.40q", why)}
	}
	return nil
}

// End implements remote.Answer.
func (a *answer) End() (events []substrate.Event, err error) {
	switch {
	case a.end == "":
		return nil, remote.CutOff()
	case a.end != substrate.Called:
		return []substrate.Event{a.end}, nil // a call that is cut off is none
	case len(a.calls) == 0:
		return nil, remote.NoCall()
	}
	for _, c := range a.calls {
		events = append(events, c)
	}
	return append(events, a.end), nil
}
