// Package anthropic is the substrate for models with Anthropic's Messages API. A request contains
// only the model's name, the conversation, the owner's settings for the model and the owner's
// secret.
package anthropic

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
	"github.com/vacancy-host/vacancy/shared/host/substrate/lax"
	"github.com/vacancy-host/vacancy/shared/host/substrate/remote"
)

const (
	apiVersion = "2023-06-01"
	// defaultMaxTokens is used if the agent sets no limit, because the API requires a limit. All
	// models since Claude 3.5 accept this one.
	defaultMaxTokens = 8192
)

func Kinds(client *outbound.Client) substrate.Kinds {
	// client asks its guard whether a vacant may call a URL.
	omissions := remote.NewOmissions()
	return substrate.Kinds{substrate.KindAnthropic: func(argument string) (substrate.Substrate, error) {
		spec := substrate.Spec{Kind: substrate.KindAnthropic, Argument: argument}
		if err := spec.CheckModel(); err != nil {
			return nil, err
		}
		_, model, _ := spec.Model()
		return &server{client, omissions, spec, model}, nil
	}}
}

type server struct {
	client    *outbound.Client
	omissions *remote.Omissions
	spec      substrate.Spec
	model     string
}

// Infer implements substrate.Substrate.
func (s *server) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if r.Secret.IsZero() {
			yield(nil, remote.NoSecretError(s.spec.Kind))
			return
		}
		header := http.Header{}
		header.Set("X-Api-Key", r.Secret.Reveal())
		header.Set("Anthropic-Version", apiVersion)
		remote.Infer(ctx, s.client, &r, remote.Request{Spec: s.spec, Omissions: s.omissions, Header: header, Body: s.buildBody}, new(answerReader))(yield)
	}
}

type request struct {
	Model     string    `json:"model"`
	MaxTokens int       `json:"max_tokens"`
	System    string    `json:"system,omitempty"`
	Messages  []message `json:"messages"`
	Stream    bool      `json:"stream"`
	Tools     []tool    `json:"tools,omitempty"`
	// ToolChoice is none, or nil if the model may choose.
	ToolChoice   *toolChoice   `json:"tool_choice,omitempty"`
	OutputConfig *outputConfig `json:"output_config,omitempty"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a part of a message: a text, an image, a tool call or its result.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   string          `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	Source    *source         `json:"source,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      []byte `json:"data"`
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

func (s *server) buildBody(r *substrate.Request) any {
	body := request{Model: s.model, MaxTokens: cmp.Or(r.MaxTokens, defaultMaxTokens), System: r.System, Stream: true}
	if r.JSON {
		body.System = remote.AppendJSONInstruction(r.System)
	}
	if r.Effort != "" && !r.Omits("output_config") {
		body.OutputConfig = &outputConfig{r.Effort}
	}
	for _, t := range r.Turns {
		if blocks := toBlocks(&t); len(blocks) > 0 { // the API rejects an empty message
			role := "user"
			if t.Role == substrate.RoleAgent {
				role = "assistant"
			}
			body.Messages = append(body.Messages, message{role, blocks})
		}
	}
	for _, t := range r.Tools {
		body.Tools = append(body.Tools, tool{t.Name, t.Description, t.Schema})
	}
	if r.MustAnswer && len(body.Tools) > 0 {
		body.ToolChoice = &toolChoice{"none"}
	}
	return body
}

func toBlocks(t *substrate.Turn) (blocks []block) {
	if t.Text != "" {
		blocks = append(blocks, block{Type: "text", Text: t.Text})
	}
	for _, f := range t.Files {
		blocks = append(blocks, block{Type: "image", Source: &source{"base64", f.MediaType, f.Data}})
	}
	for _, c := range t.Calls {
		blocks = append(blocks, block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: remote.ArgumentsObject(c.Arguments)})
	}
	for _, r := range t.Results {
		blocks = append(blocks, block{Type: "tool_result", ToolUseID: r.ID, Content: r.Text, IsError: r.Failed})
	}
	return blocks
}

type event struct {
	Type  string
	Usage lax.Value[usage]
}

type usage struct {
	InputTokens      lax.Count `json:"input_tokens"` // without cached tokens
	OutputTokens     lax.Count `json:"output_tokens"`
	CacheWriteTokens lax.Count `json:"cache_creation_input_tokens"`
	CacheReadTokens  lax.Count `json:"cache_read_input_tokens"`
}

type answerReader struct {
	remote.Blocks
	usageReported                                                bool
	hasUsage                                                     bool // whether the server has sent a token count
	inputTokens, outputTokens, cacheWriteTokens, cacheReadTokens int
}

func (a *answerReader) Read(data []byte) (events []substrate.Event, err error) {
	var e event
	if json.Unmarshal(data, &e) != nil {
		return nil, remote.UnreadableError()
	}
	switch e.Type {
	case "message_start":
		// Read returns the usage with the next event. If the server fails before that event, the
		// request may be repeated.
		var msg struct {
			Message lax.Value[struct {
				Usage lax.Value[usage]
				Why   remote.Reason `json:"stop_reason"`
			}]
		}
		_ = json.Unmarshal(data, &msg) // accepts every value
		a.recordUsage(&msg.Message.Value.Usage.Value)
		return nil, a.SetReason(msg.Message.Value.Why)
	case "content_block_start":
		var msg struct {
			Block json.RawMessage `json:"content_block"`
		}
		if json.Unmarshal(data, &msg) != nil {
			return nil, remote.UnreadableError()
		}
		events, err = a.readBlock(msg.Block)
		return append(a.usageEvents(false), events...), err
	case "content_block_delta":
		var msg struct{ Delta json.RawMessage }
		if json.Unmarshal(data, &msg) != nil {
			return nil, remote.UnreadableError()
		}
		events, err = a.readDelta(msg.Delta)
		return append(a.usageEvents(false), events...), err
	case "content_block_stop":
		a.BeginText() // servers may omit the next content_block_start
	case "message_delta":
		var msg struct {
			Delta struct {
				Why remote.Reason `json:"stop_reason"`
			}
		}
		if json.Unmarshal(data, &msg) != nil {
			return nil, remote.UnreadableError()
		}
		a.recordUsage(&e.Usage.Value)
		return a.usageEvents(true), a.SetReason(msg.Delta.Why)
	case "message_stop":
		return nil, io.EOF
	case "message": // complete answer
		var msg struct {
			Content []json.RawMessage
			Why     remote.Reason `json:"stop_reason"`
		}
		if json.Unmarshal(data, &msg) != nil {
			return nil, remote.UnreadableError()
		}
		for _, block := range msg.Content {
			blockEvents, err := a.readBlock(block)
			if events = append(events, blockEvents...); err != nil {
				return events, err
			}
		}
		a.recordUsage(&e.Usage.Value)
		return append(events, a.usageEvents(true)...), a.SetReason(msg.Why)
	}
	return nil, nil // ping, and events of later versions
}

func (a *answerReader) recordUsage(u *usage) {
	for target, n := range map[*int]lax.Count{&a.inputTokens: u.InputTokens, &a.outputTokens: u.OutputTokens, &a.cacheWriteTokens: u.CacheWriteTokens, &a.cacheReadTokens: u.CacheReadTokens} {
		n.Assign(target)
		a.hasUsage = a.hasUsage || n.IsGiven()
	}
}

// usageEvents returns the usage so far as an event. If repeat is false, it returns the event only
// once.
func (a *answerReader) usageEvents(repeat bool) []substrate.Event {
	if !a.hasUsage || a.usageReported && !repeat {
		return nil
	}
	a.usageReported = true
	return []substrate.Event{substrate.Usage{InputTokens: a.inputTokens + a.cacheWriteTokens + a.cacheReadTokens, OutputTokens: a.outputTokens, CachedTokens: a.cacheReadTokens}}
}

func (a *answerReader) readBlock(block []byte) ([]substrate.Event, error) {
	var header lax.Value[struct{ Type string }]
	_ = json.Unmarshal(block, &header) // accepts every value
	switch header.Value.Type {
	case "text", "thinking", "":
		a.BeginText()
		return a.parseText(block)
	case "tool_use":
		var toolUse struct {
			ID    lax.Value[string]
			Name  string
			Input json.RawMessage
		}
		if json.Unmarshal(block, &toolUse) != nil {
			return nil, remote.UnreadableError()
		}
		arguments := remote.ArgumentsText(toolUse.Input)
		if arguments == "{}" { // the pieces of the arguments may follow
			arguments = ""
		}
		return nil, a.BeginCall(substrate.ToolCall{ID: cmp.Or(toolUse.ID.Value, fmt.Sprintf("call_%d", len(a.Calls))), Name: toolUse.Name, Arguments: arguments})
	}
	a.SkipBlock()
	return nil, nil
}

func (a *answerReader) readDelta(delta []byte) ([]substrate.Event, error) {
	if a.IsSkipped() {
		return nil, nil
	}
	var decoded struct {
		Type  lax.Value[string]
		Piece json.RawMessage `json:"partial_json"`
	}
	_ = json.Unmarshal(delta, &decoded) // decoded stays empty if the delta has another form
	switch decoded.Type.Value {
	case "text_delta", "thinking_delta", "":
		if decoded.Piece == nil {
			return a.parseText(delta)
		}
	case "input_json_delta":
	default:
		return nil, nil // signatures, and deltas of later versions
	}
	if fragment := remote.ArgumentsText(decoded.Piece); fragment != "" {
		return nil, a.AddArguments(fragment)
	}
	return nil, nil
}

func (a *answerReader) parseText(data []byte) (events []substrate.Event, err error) {
	var decoded struct {
		Text     string
		Thinking lax.Value[string]
	}
	if data != nil && json.Unmarshal(data, &decoded) != nil {
		return nil, remote.UnreadableError()
	}
	if decoded.Thinking.Value != "" {
		events = append(events, substrate.Thought(decoded.Thinking.Value))
	}
	return append(events, a.AddText(decoded.Text)...), nil
}
