// Package openai is the substrate behind OpenAI's chat completions: at OpenAI, at
// Mistral, and at servers of one's own such as Ollama, llama.cpp or vLLM.
//
// The invariant: the request contains the model's name, the conversation, what the
// vacant's owner wants of the model, the owner's secret if there is one, and nothing
// else: no id, no envelope, nothing of the host's environment.
package openai

import (
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

// Kinds are the kinds of this package. Requests go through client as the vacant,
// so client's guard may refuse them.
func Kinds(client *outbound.Client) substrate.Kinds {
	kinds := substrate.Kinds{}
	for _, kind := range []string{substrate.KindOpenAI, substrate.KindMistral, substrate.KindOllama} {
		kinds[kind] = func(argument string) (substrate.Substrate, error) {
			return open(client, substrate.Spec{Kind: kind, Argument: argument})
		}
	}
	return kinds
}

// server is a model at a server.
type server struct {
	client *outbound.Client
	spec   substrate.Spec
	model  string
}

func open(client *outbound.Client, spec substrate.Spec) (substrate.Substrate, error) {
	if err := spec.CheckModel(); err != nil {
		return nil, err
	}
	_, model, _ := spec.Model()
	return &server{client, spec, model}, nil
}

// Infer streams the model's answer (remote.Infer). SubstrateRefused is a model that
// refuses to answer.
func (s *server) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		q := remote.Request{URL: s.spec.Endpoint(), Body: s.bodyOf(&r)}
		switch {
		case !r.Secret.IsZero():
			q.Header = http.Header{"Authorization": {"Bearer " + r.Secret.Reveal()}}
		case s.spec.NeedsSecret():
			yield(nil, remote.WithoutSecret(s.spec.Kind))
			return
		}
		remote.Infer(ctx, s.client, &r, q, new(answer))(yield)
	}
}

// answer reads an answer.
type answer struct {
	calls []substrate.ToolCall // which come in pieces
	end   substrate.Done
}

// Read implements remote.Answer.
func (a *answer) Read(data []byte) ([]substrate.Event, error) {
	if string(data) == "[DONE]" {
		return nil, io.EOF
	}
	c, err := parse(data)
	if err != nil {
		return nil, err
	}
	events, why, err := c.events()
	if err == nil {
		err = a.add(&c)
	}
	if why != "" {
		a.end = why
	}
	return events, err
}

// End implements remote.Answer.
func (a *answer) End() (events []substrate.Event, err error) {
	end := a.end
	if end != "" && len(a.calls) > 0 {
		end = substrate.Called // some servers say "stop"
	}
	switch {
	case end == "":
		return nil, remote.CutOff()
	case end == substrate.Called && len(a.calls) == 0:
		return nil, remote.NoCall()
	}
	for _, c := range a.calls {
		events = append(events, c)
	}
	return append(events, end), nil
}

// maxCalls bounds the calls of one answer.
const maxCalls = 128

// add adds the pieces of calls in a chunk. The error is of kind SubstrateMisconfigured.
func (a *answer) add(c *chunk) error {
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		for _, piece := range choice.Delta.ToolCalls {
			if piece.Index < 0 || piece.Index > len(a.calls) || piece.Index == maxCalls {
				return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model: tool_calls: index", Want: fmt.Sprintf("0 to %d, in order", maxCalls-1), Got: fmt.Sprint(piece.Index)}
			}
			if piece.Index == len(a.calls) {
				a.calls = append(a.calls, substrate.ToolCall{ID: cmp.Or(piece.ID, fmt.Sprintf("call_%d", piece.Index))})
			}
			call := &a.calls[piece.Index]
			call.Name += piece.Function.Name
			call.Arguments += piece.Function.Arguments
		}
	}
	return nil
}

// request is the body of a request.
type request struct {
	Model         string         `json:"model"`
	Messages      []message      `json:"messages"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"` // Mistral refuses it, and reports usage anyway
	Tools         []tool         `json:"tools,omitempty"`
	ToolChoice    string         `json:"tool_choice,omitempty"` // "none", or as the model likes
	// MaxTokens is the older name, which every server of one's own knows; OpenAI's
	// models that reason take the newer one alone.
	MaxTokens           int              `json:"max_tokens,omitempty"`
	MaxCompletionTokens int              `json:"max_completion_tokens,omitempty"`
	Effort              substrate.Effort `json:"reasoning_effort,omitempty"`
	Format              *format          `json:"response_format,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type tool struct {
	Type     string `json:"type"`
	Function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	} `json:"function"`
}

type toolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type format struct {
	Type string `json:"type"`
}

// bodyOf is the body of a request.
func (s *server) bodyOf(r *substrate.Request) request {
	body := request{Model: s.model, Stream: true, MaxTokens: r.MaxTokens, Effort: r.Effort}
	if s.spec.Kind != substrate.KindMistral {
		body.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if s.spec.Kind == substrate.KindOpenAI && s.spec.NeedsSecret() {
		body.MaxTokens, body.MaxCompletionTokens = 0, r.MaxTokens
	}
	if r.JSON {
		body.Format = &format{"json_object"}
	}
	if r.System != "" {
		body.Messages = append(body.Messages, message{Role: "system", Content: r.System})
	}
	for _, t := range r.Turns {
		body.Messages = append(body.Messages, messages(&t)...)
	}
	for _, offered := range r.Tools {
		t := tool{Type: "function"}
		t.Function.Name, t.Function.Description, t.Function.Parameters = offered.Name, offered.Description, offered.Schema
		body.Tools = append(body.Tools, t)
	}
	if r.Final && len(body.Tools) > 0 {
		body.ToolChoice = "none"
	}
	return body
}

// messages are those of a turn: of results one each.
func messages(t *substrate.Turn) []message {
	switch t.Role {
	case substrate.Tools:
		var all []message
		for _, r := range t.Results {
			all = append(all, message{Role: "tool", Content: r.Text, ToolCallID: r.ID})
		}
		return all
	case substrate.Agent:
		m := message{Role: "assistant", Content: t.Text}
		for _, c := range t.Calls {
			m.ToolCalls = append(m.ToolCalls, toolCall{c.ID, "function", function{c.Name, c.Arguments}})
		}
		return []message{m}
	}
	return []message{{Role: "user", Content: t.Text}}
}

// chunk is a piece of a stream, as far as it matters.
type chunk struct {
	Choices []struct {
		Index int
		Delta struct {
			Content content
			Refusal string
			// What the model thought, for which OpenAI has no member and servers have
			// two.
			Reasoning        string
			ReasoningContent string `json:"reasoning_content"`
			ToolCalls        []struct {
				Index    int
				ID       string
				Function function
			} `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	Error json.RawMessage
}

// parse reads the data of an event.
func parse(data []byte) (c chunk, err error) {
	err = json.Unmarshal(data, &c)
	switch {
	case err != nil:
		err = remote.Unreadable()
	case c.Error != nil && string(c.Error) != "null":
		err = remote.Failed()
	}
	return c, err
}

// content is what a model says: a text, or a list of parts, of which some are what it
// thought (Mistral's reasoning models).
type content struct{ text, thought string }

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, &c.text)
	}
	var parts []struct {
		Text     string
		Thinking []struct{ Text string }
	}
	err := json.Unmarshal(data, &parts)
	for _, p := range parts {
		c.text += p.Text
		for _, t := range p.Thinking {
			c.thought += t.Text
		}
	}
	return err
}

// events are the events of a chunk, and why the answer ends if it says so.
func (c *chunk) events() (events []substrate.Event, why substrate.Done, err error) {
	if u := c.Usage; u != nil {
		events = append(events, substrate.Usage{In: u.PromptTokens, Out: u.CompletionTokens, Cached: u.Details.CachedTokens})
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one answer was asked for
		}
		d := &choice.Delta
		if d.Refusal != "" {
			return nil, "", remote.Refused(d.Refusal)
		}
		if thought := cmp.Or(d.ReasoningContent, d.Reasoning, d.Content.thought); thought != "" {
			events = append(events, substrate.Thought(thought))
		}
		if d.Content.text != "" {
			events = append(events, substrate.Text(d.Content.text))
		}
		switch choice.FinishReason {
		case "":
		case "stop":
			why = substrate.Stop
		case "length", "model_length":
			why = substrate.Length
		case "tool_calls":
			why = substrate.Called
		case "content_filter":
			return nil, "", remote.Refused("its filter stopped the answer")
		default:
			return nil, "", &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model: finish_reason", Want: "stop, length, tool_calls or content_filter", Got: fmt.Sprintf("%.40q", choice.FinishReason)}
		}
	}
	return events, why, nil
}
