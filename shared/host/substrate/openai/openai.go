// Package openai is the substrate for models with OpenAI's chat completions API: at OpenAI, at
// Mistral, and on self-hosted servers. A request contains only the model's name, the conversation,
// the owner's settings for the model and the owner's secret.
package openai

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/lax"
	"github.com/vacancy-host/vacancy/shared/host/substrate/remote"
)

func Kinds(client *outbound.Client) substrate.Kinds {
	// client asks its guard whether a vacant may call a URL.
	kinds, omissions := substrate.Kinds{}, remote.NewOmissions()
	for _, kind := range []string{substrate.KindOpenAI, substrate.KindMistral, substrate.KindOllama} {
		kinds[kind] = func(argument string) (substrate.Substrate, error) {
			spec := substrate.Spec{Kind: kind, Argument: argument}
			if err := spec.CheckModel(); err != nil {
				return nil, err
			}
			_, name, _ := spec.Model()
			return &model{client, omissions, spec, name}, nil
		}
	}
	return kinds
}

type model struct {
	client    *outbound.Client
	omissions *remote.Omissions
	spec      substrate.Spec
	name      string
}

// Infer implements substrate.Substrate.
func (m *model) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		serverReq := remote.Request{Spec: m.spec, Omissions: m.omissions, Body: m.buildBody}
		switch {
		case !r.Secret.IsZero():
			serverReq.Header = http.Header{"Authorization": {"Bearer " + r.Secret.Reveal()}}
		case m.spec.NeedsSecret():
			yield(nil, remote.NoSecretError(m.spec.Kind))
			return
		}
		remote.Infer(ctx, m.client, &r, serverReq, new(answerReader))(yield)
	}
}

type answerReader struct {
	remote.Ending
	callKeys []callKey // index and id of each element of Calls
}

type callKey struct {
	index *int
	id    string
}

func (a *answerReader) Read(data []byte) (events []substrate.Event, err error) {
	var c chunk
	if json.Unmarshal(data, &c) != nil {
		return nil, remote.UnreadableError()
	}
	for _, choice := range c.Choices {
		if n := choice.Index.Value; n != 0 {
			continue // only one answer was requested
		}
		for _, d := range []*delta{&choice.Delta, &choice.Message} {
			deltaEvents, err := a.readDelta(d)
			if events = append(events, deltaEvents...); err != nil {
				return events, err
			}
		}
		if err := a.SetReason(choice.FinishReason); err != nil {
			return events, err
		}
	}
	// The usage includes the text of the same chunk.
	if u := c.Usage.Value; u.Prompt.IsGiven() || u.Completion.IsGiven() {
		events = append(events, substrate.Usage{InputTokens: u.Prompt.Int(), OutputTokens: u.Completion.Int(), CachedTokens: u.Details.Value.Cached.Int()})
	}
	return events, nil
}

func (a *answerReader) readDelta(d *delta) (events []substrate.Event, err error) {
	if refusal := d.Refusal.Value; refusal != "" {
		return nil, remote.RefusalError(refusal)
	}
	if thought := cmp.Or(d.ReasoningContent.Value, d.Reasoning.Value, d.Content.thought); thought != "" {
		events = append(events, substrate.Thought(thought))
	}
	events = append(events, a.AddText(d.Content.text)...)
	if f := d.FunctionCall.Value; f != nil {
		d.ToolCalls = append(d.ToolCalls, callPiece{Function: *f})
	}
	for i := range d.ToolCalls {
		if err := a.addPiece(&d.ToolCalls[i]); err != nil {
			return events, err
		}
	}
	return events, nil
}

func (a *answerReader) addPiece(p *callPiece) error {
	index := a.findCall(p)
	if index < 0 {
		index = len(a.Calls)
		if err := a.AddCall(substrate.ToolCall{ID: cmp.Or(p.ID.Value, fmt.Sprintf("call_%d", index))}); err != nil {
			return err
		}
		a.callKeys = append(a.callKeys, callKey{p.Index.Value, p.ID.Value})
	}
	call := &a.Calls[index]
	if p.Function.Name != call.Name { // some servers repeat the name
		call.Name += p.Function.Name
	}
	call.Arguments += remote.ArgumentsText(p.Function.Arguments)
	return nil
}

// findCall returns the call that a piece continues, or -1 if the piece starts a call. Some servers
// omit indices and ids, or use one index or id for all calls.
func (a *answerReader) findCall(p *callPiece) int {
	lastMatch := -1
	for i, key := range a.callKeys {
		if p.Index.Value != nil && key.index != nil && *p.Index.Value != *key.index {
			continue
		}
		if lastMatch = i; key.id != "" && key.id == p.ID.Value {
			return i
		}
	}
	startsCall := p.ID.Value != "" || lastMatch >= 0 && remote.IsJSONObject(a.Calls[lastMatch].Arguments) && len(p.Function.Arguments) > 0
	if p.Function.Name != "" && startsCall {
		return -1
	}
	return lastMatch
}

type request struct {
	Model    string    `json:"model"`
	Messages []message `json:"messages"`
	Stream   bool      `json:"stream"`
	// StreamOptions is not sent to Mistral, which rejects it and always reports usage.
	StreamOptions *streamOptions `json:"stream_options,omitempty"`
	Tools         []tool         `json:"tools,omitempty"`
	// ToolChoice is "none", or empty if the model may choose.
	ToolChoice string `json:"tool_choice,omitempty"`
	// OpenAI's reasoning models accept only MaxCompletionTokens. All self-hosted servers accept
	// MaxTokens.
	MaxTokens           int              `json:"max_tokens,omitempty"`
	MaxCompletionTokens int              `json:"max_completion_tokens,omitempty"`
	Effort              substrate.Effort `json:"reasoning_effort,omitempty"`
	Format              *responseFormat  `json:"response_format,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type message struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"` // a string or a list of parts
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type part struct {
	Type  string    `json:"type"`
	Text  string    `json:"text,omitempty"`
	Image *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL string `json:"url"`
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

type responseFormat struct {
	Type string `json:"type"`
}

func (m *model) buildBody(r *substrate.Request) any {
	body := request{Model: m.name, Stream: true, MaxTokens: r.MaxTokens}
	if !r.Omits("reasoning_effort") {
		body.Effort = r.Effort
	}
	if m.spec.Kind != substrate.KindMistral && !r.Omits("stream_options") {
		body.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	if m.spec.Kind == substrate.KindOpenAI && m.spec.NeedsSecret() {
		body.MaxTokens, body.MaxCompletionTokens = 0, r.MaxTokens
	}
	system := r.System
	switch {
	case r.JSON && r.Omits("response_format"):
		system = remote.AppendJSONInstruction(system)
	case r.JSON:
		body.Format = &responseFormat{"json_object"}
	}
	switch mustAnswer := r.MustAnswer && len(r.Tools) > 0; {
	case mustAnswer && r.Omits("tool_choice"):
		system = remote.AppendAnswerInstruction(system)
	case mustAnswer:
		body.ToolChoice = "none"
	}
	if system != "" {
		body.Messages = append(body.Messages, message{Role: "system", Content: system})
	}
	for _, t := range r.Turns {
		body.Messages = append(body.Messages, toMessages(&t)...)
	}
	for _, offered := range r.Tools {
		t := tool{Type: "function"}
		t.Function.Name, t.Function.Description, t.Function.Parameters = offered.Name, offered.Description, offered.Schema
		body.Tools = append(body.Tools, t)
	}
	return body
}

func toMessages(t *substrate.Turn) []message {
	switch t.Role {
	case substrate.RoleTools:
		var results []message
		for _, r := range t.Results {
			results = append(results, message{Role: "tool", Content: r.Text, ToolCallID: r.ID})
		}
		return results
	case substrate.RoleAgent:
		m := message{Role: "assistant", Content: t.Text}
		for _, c := range t.Calls {
			m.ToolCalls = append(m.ToolCalls, toolCall{c.ID, "function", function{c.Name, c.Arguments}})
		}
		return []message{m}
	}
	if len(t.Files) == 0 {
		return []message{{Role: "user", Content: t.Text}}
	}
	parts := []part{{Type: "text", Text: t.Text}}
	for _, f := range t.Files {
		parts = append(parts, part{Type: "image_url", Image: &imageURL{"data:" + f.MediaType + ";base64," + base64.StdEncoding.EncodeToString(f.Data)}})
	}
	return []message{{Role: "user", Content: parts}}
}

type chunk struct {
	Choices []struct {
		Index        lax.Value[int]
		Delta        delta
		Message      delta         // only in a complete answer
		FinishReason remote.Reason `json:"finish_reason"`
	}
	Usage lax.Value[struct {
		Prompt     lax.Count `json:"prompt_tokens"`
		Completion lax.Count `json:"completion_tokens"`
		Details    lax.Value[struct {
			Cached lax.Count `json:"cached_tokens"`
		}] `json:"prompt_tokens_details"`
	}]
}

// delta is a part of a model's answer, or the complete answer.
type delta struct {
	Content content
	Refusal lax.Value[string]
	// Servers use two names for the model's thoughts.
	Reasoning        lax.Value[string]
	ReasoningContent lax.Value[string] `json:"reasoning_content"`
	ToolCalls        []callPiece       `json:"tool_calls"`
	// FunctionCall is used by servers that predate tool_calls.
	FunctionCall lax.Value[*functionCall] `json:"function_call"`
}

// callPiece is a tool call, or a part of a call that arrives in several events.
type callPiece struct {
	Index    lax.Value[*int]
	ID       lax.Value[string]
	Function functionCall
}

type functionCall struct {
	Name      string
	Arguments json.RawMessage
}

// content is a model's text, a part, or a list of parts. Some parts are thoughts.
type content struct{ text, thought string }

func (c *content) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case '[':
	case '{':
		data = slices.Concat([]byte("["), data, []byte("]"))
	default:
		return json.Unmarshal(data, &c.text)
	}
	var parts []struct {
		Type     lax.Value[string]
		Text     json.RawMessage
		Thinking lax.Value[[]struct{ Text string }]
	}
	err := json.Unmarshal(data, &parts)
	for _, p := range parts {
		var text string
		if p.Type.Value == "text" || p.Type.Value == "" { // other parts do not belong to the answer
			if p.Text != nil && json.Unmarshal(p.Text, &text) != nil {
				return remote.UnreadableError()
			}
		}
		c.text += text
		for _, t := range p.Thinking.Value {
			c.thought += t.Text
		}
	}
	return err
}
