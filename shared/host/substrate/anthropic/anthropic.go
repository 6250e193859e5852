// Package anthropic is the substrate for models with Anthropic's Messages API, at Anthropic or on
// other servers with this API.
//
// A request contains only the model's name, the conversation, the owner's settings for the model
// and the owner's secret. It contains no id, no envelope and no data from the host's environment.
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
	// version is the version of the API, which is a date.
	version = "2023-06-01"
	// maxTokens is the limit of an answer if the agent sets no limit. The API requires a limit, and
	// all models since Claude 3.5 accept this one.
	maxTokens = 8192
)

func Kinds(client *outbound.Client) substrate.Kinds {
	// client sends requests on behalf of the vacant, so the vacant's guard may refuse them.
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

// server is the substrate for one model on one server.
type server struct {
	client    *outbound.Client
	omissions *remote.Omissions
	spec      substrate.Spec
	model     string
}

// Infer streams the model's answer (remote.Infer). An error of kind SubstrateRefused means that the
// model refuses to answer.
func (s *server) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if r.Secret.IsZero() {
			yield(nil, remote.NoSecretError(s.spec.Kind))
			return
		}
		header := http.Header{}
		header.Set("X-Api-Key", r.Secret.Reveal())
		header.Set("Anthropic-Version", version)
		remote.Infer(ctx, s.client, &r, remote.Request{Spec: s.spec, Omissions: s.omissions, Header: header, Body: s.bodyOf}, new(answer))(yield)
	}
}

// request is the JSON body of a request to the Messages API.
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

// source contains the bytes of an image.
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

func (s *server) bodyOf(r *substrate.Request) any {
	body := request{Model: s.model, MaxTokens: cmp.Or(r.MaxTokens, maxTokens), System: r.System, Stream: true}
	if r.JSON {
		body.System = remote.AskForJSON(r.System)
	}
	if r.Effort != "" && !r.Omits("output_config") {
		body.OutputConfig = &outputConfig{r.Effort}
	}
	for _, t := range r.Turns {
		if blocks := blocksOf(&t); len(blocks) > 0 { // the API rejects an empty message
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
	if r.MustAnswer && len(body.Tools) > 0 {
		body.ToolChoice = &toolChoice{"none"}
	}
	return body
}

func blocksOf(t *substrate.Turn) (blocks []block) {
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

// event contains the members of a stream event that exist for every type. Read decodes the other
// members by type, because unknown types may have any members.
type event struct {
	Type  string
	Usage lax.Value[usage]
}

// usage is a server's usage report. Absent numbers keep their earlier values.
type usage struct {
	In      lax.Count `json:"input_tokens"` // without cached tokens
	Out     lax.Count `json:"output_tokens"`
	Written lax.Count `json:"cache_creation_input_tokens"`
	Cached  lax.Count `json:"cache_read_input_tokens"`
}

// answer parses the events of one answer.
type answer struct {
	remote.Blocks
	told                  bool // whether tell has returned an event
	counted               bool // whether the server has sent a token count
	in, out, wrote, cache int
}

func (a *answer) Read(data []byte) (events []substrate.Event, err error) {
	var e event
	if json.Unmarshal(data, &e) != nil {
		return nil, remote.UnreadableError()
	}
	switch e.Type {
	case "message_start":
		// Read returns the usage with the next event. If the server fails immediately after
		// message_start, no event was emitted, so the request may be repeated.
		var is struct {
			Message lax.Value[struct {
				Usage lax.Value[usage]
				Why   remote.Reason `json:"stop_reason"`
			}]
		}
		_ = json.Unmarshal(data, &is) // accepts every value
		a.count(&is.Message.Value.Usage.Value)
		return nil, a.SetReason(is.Message.Value.Why)
	case "content_block_start":
		var is struct {
			Block json.RawMessage `json:"content_block"`
		}
		if json.Unmarshal(data, &is) != nil {
			return nil, remote.UnreadableError()
		}
		events, err = a.begin(is.Block)
		return append(a.tell(false), events...), err
	case "content_block_delta":
		var is struct{ Delta json.RawMessage }
		if json.Unmarshal(data, &is) != nil {
			return nil, remote.UnreadableError()
		}
		events, err = a.goOn(is.Delta)
		return append(a.tell(false), events...), err
	case "content_block_stop":
		a.BeginText() // servers may omit the next content_block_start
	case "message_delta":
		var is struct {
			Delta struct {
				Why remote.Reason `json:"stop_reason"`
			}
		}
		if json.Unmarshal(data, &is) != nil {
			return nil, remote.UnreadableError()
		}
		a.count(&e.Usage.Value)
		return a.tell(true), a.SetReason(is.Delta.Why)
	case "message_stop":
		return nil, io.EOF
	case "message": // complete answer
		var is struct {
			Content []json.RawMessage
			Why     remote.Reason `json:"stop_reason"`
		}
		if json.Unmarshal(data, &is) != nil {
			return nil, remote.UnreadableError()
		}
		for _, block := range is.Content {
			blockEvents, err := a.begin(block)
			if events = append(events, blockEvents...); err != nil {
				return events, err
			}
		}
		a.count(&e.Usage.Value)
		return append(events, a.tell(true)...), a.SetReason(is.Why)
	}
	return nil, nil // ping, and events of later versions
}

func (a *answer) count(u *usage) {
	for to, n := range map[*int]lax.Count{&a.in: u.In, &a.out: u.Out, &a.wrote: u.Written, &a.cache: u.Cached} {
		n.Assign(to)
		a.counted = a.counted || n.IsGiven()
	}
}

// tell returns the usage so far as an event, if the server has sent a token count. If again is false, tell
// returns the event only if no earlier call has returned one.
func (a *answer) tell(again bool) []substrate.Event {
	if !a.counted || a.told && !again {
		return nil
	}
	a.told = true
	return []substrate.Event{substrate.Usage{In: a.in + a.wrote + a.cache, Out: a.out, Cached: a.cache}}
}

// begin parses the start of a block or a complete block.
func (a *answer) begin(block []byte) ([]substrate.Event, error) {
	var is lax.Value[struct{ Type string }]
	_ = json.Unmarshal(block, &is) // accepts every value
	switch is.Value.Type {
	case "text", "thinking", "":
		a.BeginText()
		return a.parseText(block)
	case "tool_use":
		var use struct {
			ID    lax.Value[string]
			Name  string
			Input json.RawMessage
		}
		if json.Unmarshal(block, &use) != nil {
			return nil, remote.UnreadableError()
		}
		arguments := remote.Arguments(use.Input)
		if arguments == "{}" { // the pieces of the arguments may follow
			arguments = ""
		}
		return nil, a.BeginCall(substrate.ToolCall{ID: cmp.Or(use.ID.Value, fmt.Sprintf("call_%d", len(a.Calls))), Name: use.Name, Arguments: arguments})
	}
	a.SkipBlock()
	return nil, nil
}

func (a *answer) goOn(delta []byte) ([]substrate.Event, error) {
	if a.IsSkipped() {
		return nil, nil
	}
	var is struct {
		Type  lax.Value[string]
		Piece json.RawMessage `json:"partial_json"`
	}
	_ = json.Unmarshal(delta, &is) // is stays empty if the delta has another form
	switch is.Type.Value {
	case "text_delta", "thinking_delta", "":
		if is.Piece == nil {
			return a.parseText(delta)
		}
	case "input_json_delta":
	default:
		return nil, nil // signatures, and deltas of later versions
	}
	if more := remote.Arguments(is.Piece); more != "" {
		return nil, a.AddArguments(more)
	}
	return nil, nil
}

func (a *answer) parseText(data []byte) (events []substrate.Event, err error) {
	var is struct {
		Text     string
		Thinking lax.Value[string]
	}
	if data != nil && json.Unmarshal(data, &is) != nil {
		return nil, remote.UnreadableError()
	}
	if is.Thinking.Value != "" {
		events = append(events, substrate.Thought(is.Thinking.Value))
	}
	return append(events, a.AddText(is.Text)...), nil
}
