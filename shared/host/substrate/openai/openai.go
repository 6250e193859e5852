// Package openai is the substrate behind OpenAI's chat completions: at OpenAI, at
// Mistral, and at servers of one's own such as Ollama, llama.cpp or vLLM.
//
// The invariant: the request contains the model's name, the conversation, the
// owner's settings for the model, the owner's secret if there is one, and nothing
// else: no id, no envelope, nothing of the host's environment.
package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/lax"
	"github.com/vacancy-host/vacancy/shared/host/substrate/remote"
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
	remote.Ending
	places []place // of the calls, which come in pieces
}

// place identifies a call among others: its index and its id, if the server gives them.
type place struct {
	index *int
	id    string
}

// Read implements remote.Answer.
func (a *answer) Read(data []byte) (events []substrate.Event, err error) {
	var c chunk
	if json.Unmarshal(data, &c) != nil {
		return nil, remote.Unreadable()
	}
	if c.Error != nil && string(c.Error) != "null" {
		return nil, remote.Failed(c.Error)
	}
	if u := c.Usage.Value; u.Prompt.IsGiven() || u.Completion.IsGiven() {
		events = append(events, substrate.Usage{In: u.Prompt.Int(), Out: u.Completion.Int(), Cached: u.Details.Value.Cached.Int()})
	}
	for _, choice := range c.Choices {
		if n := choice.Index.Value; n != 0 {
			continue // one answer was asked for
		}
		for _, said := range []*said{&choice.Delta, &choice.Message} {
			more, err := a.hear(said)
			if events = append(events, more...); err != nil {
				return events, err
			}
		}
		if err := a.Because(choice.FinishReason); err != nil {
			return events, err
		}
	}
	return events, nil
}

// hear reads what a choice says.
func (a *answer) hear(s *said) (events []substrate.Event, err error) {
	if why := s.Refusal.Value; why != "" {
		return nil, remote.Refused(why)
	}
	if thought := cmp.Or(s.ReasoningContent.Value, s.Reasoning.Value, s.Content.thought); thought != "" {
		events = append(events, substrate.Thought(thought))
	}
	events = append(events, a.Say(s.Content.text)...)
	for i := range s.ToolCalls {
		if err := a.add(&s.ToolCalls[i]); err != nil {
			return events, err
		}
	}
	return events, nil
}

// add adds a piece of a call.
func (a *answer) add(p *piece) error {
	at := a.find(p)
	if at < 0 {
		at = len(a.Calls)
		if err := a.Begin(substrate.ToolCall{ID: cmp.Or(p.ID.Value, fmt.Sprintf("call_%d", at))}); err != nil {
			return err
		}
		a.places = append(a.places, place{p.Index.Value, p.ID.Value})
	}
	call := &a.Calls[at]
	if p.Function.Name != call.Name { // some servers repeat it
		call.Name += p.Function.Name
	}
	call.Arguments += remote.Arguments(p.Function.Arguments)
	return nil
}

// find returns the call that a piece continues, -1 if it begins one. Servers leave out indices
// and ids, or have the same for all calls. A piece without a name begins no call if there is
// one at its index; a piece with a name begins one unless it has the id of that call, or no id
// while the arguments of that call are not whole.
func (a *answer) find(p *piece) int {
	last := -1
	for i, is := range a.places {
		if p.Index.Value != nil && is.index != nil && *p.Index.Value != *is.index {
			continue
		}
		if last = i; is.id != "" && is.id == p.ID.Value {
			return i
		}
	}
	another := p.ID.Value != "" || last >= 0 && remote.IsObject(a.Calls[last].Arguments) && len(p.Function.Arguments) > 0
	if p.Function.Name != "" && another {
		return -1
	}
	return last
}

// request is the body of a request.
type request struct {
	Model         string         `json:"model"`
	Messages      []message      `json:"messages"`
	Stream        bool           `json:"stream"`
	StreamOptions *streamOptions `json:"stream_options,omitempty"` // Mistral refuses it, and reports usage anyway
	Tools         []tool         `json:"tools,omitempty"`
	ToolChoice    string         `json:"tool_choice,omitempty"` // "none", or as the model likes
	// MaxTokens is the older name, which every self-hosted server knows; OpenAI's
	// models that reason take only the newer one.
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

// messages returns the messages of a turn. Each result is a message.
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

// chunk is a piece of a stream, or a whole answer, as far as it matters.
type chunk struct {
	Choices []struct {
		Index        lax.Of[int]
		Delta        said
		Message      said          // of a whole answer
		FinishReason remote.Reason `json:"finish_reason"`
	}
	Usage lax.Of[struct {
		Prompt     lax.Count `json:"prompt_tokens"`
		Completion lax.Count `json:"completion_tokens"`
		Details    lax.Of[struct {
			Cached lax.Count `json:"cached_tokens"`
		}] `json:"prompt_tokens_details"`
	}]
	Error json.RawMessage
}

// said is a model's utterance.
type said struct {
	Content content
	Refusal lax.Of[string]
	// What the model thought, for which OpenAI has no member and servers have two.
	Reasoning        lax.Of[string]
	ReasoningContent lax.Of[string] `json:"reasoning_content"`
	ToolCalls        []piece        `json:"tool_calls"`
}

// piece is a piece of a call.
type piece struct {
	Index    lax.Of[*int]
	ID       lax.Of[string]
	Function struct {
		Name      string
		Arguments json.RawMessage
	}
}

// content is a model's text, or a list of parts, some of which are its thoughts
// (Mistral's reasoning models).
type content struct{ text, thought string }

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, &c.text)
	}
	var parts []struct {
		Type     lax.Of[string]
		Text     json.RawMessage
		Thinking lax.Of[[]struct{ Text string }]
	}
	err := json.Unmarshal(data, &parts)
	for _, p := range parts {
		var text string
		if p.Type.Value == "text" || p.Type.Value == "" { // other parts are not of the answer
			if p.Text != nil && json.Unmarshal(p.Text, &text) != nil {
				return remote.Unreadable()
			}
		}
		c.text += text
		for _, t := range p.Thinking.Value {
			c.thought += t.Text
		}
	}
	return err
}
