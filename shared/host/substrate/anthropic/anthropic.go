// Package anthropic is the substrate behind Anthropic's messages: at Anthropic, and at
// servers that speak as it does.
//
// The invariant: the request contains the model's name, the conversation, the owner's
// settings for the model, the owner's secret, and nothing else: no id, no envelope,
// nothing of the host's environment.
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
	// version of the API, which is a date.
	version = "2023-06-01"
	// maxTokens bounds an answer if the agent sets no bound: the API requires a
	// number, and every model since Claude 3.5 takes this one.
	maxTokens = 8192
)

// Kinds are the kinds of this package. Requests go through client as the vacant,
// so client's guard may refuse them.
func Kinds(client *outbound.Client) substrate.Kinds {
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

// server is a model at a server.
type server struct {
	client    *outbound.Client
	omissions *remote.Omissions
	spec      substrate.Spec
	model     string
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
		remote.Infer(ctx, s.client, &r, remote.Request{Spec: s.spec, Omissions: s.omissions, Header: header, Body: s.bodyOf}, new(answer))(yield)
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

// block is a part of a message: a text, an image, the use of a tool, or its result.
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

// source has the bytes of an image.
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

// bodyOf is the body of a request.
func (s *server) bodyOf(r *substrate.Request) any {
	body := request{Model: s.model, MaxTokens: cmp.Or(r.MaxTokens, maxTokens), System: r.System, Stream: true}
	if r.JSON {
		body.System = remote.AskForJSON(r.System)
	}
	if r.Effort != "" && !r.Omits("output_config") {
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
	for _, f := range t.Files {
		all = append(all, block{Type: "image", Source: &source{"base64", f.MediaType, f.Data}})
	}
	for _, c := range t.Calls {
		all = append(all, block{Type: "tool_use", ID: c.ID, Name: c.Name, Input: remote.Object(c.Arguments)})
	}
	for _, r := range t.Results {
		all = append(all, block{Type: "tool_result", ToolUseID: r.ID, Content: r.Text, IsError: r.Failed})
	}
	return all
}

// event has the members of a stream's event that are read for every type. Read reads the other
// members by the type, because types that are unknown here may have any.
type event struct {
	Type  string
	Usage lax.Of[usage]
}

// usage is a server's report. Absent numbers keep their earlier value.
type usage struct {
	In      lax.Count `json:"input_tokens"` // without the cache's tokens
	Out     lax.Count `json:"output_tokens"`
	Written lax.Count `json:"cache_creation_input_tokens"`
	Cached  lax.Count `json:"cache_read_input_tokens"`
}

// answer reads an answer.
type answer struct {
	remote.Blocks
	told                  bool // what the question used
	counted               bool // a number was reported
	in, out, wrote, cache int
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
		var is struct {
			Message lax.Of[struct {
				Usage lax.Of[usage]
				Why   remote.Reason `json:"stop_reason"`
			}]
		}
		_ = json.Unmarshal(data, &is) // it takes any value
		a.count(&is.Message.Value.Usage.Value)
		return nil, a.Because(is.Message.Value.Why)
	case "content_block_start":
		var is struct {
			Block json.RawMessage `json:"content_block"`
		}
		if json.Unmarshal(data, &is) != nil {
			return nil, remote.Unreadable()
		}
		events, err = a.begin(is.Block)
		return append(a.tell(false), events...), err
	case "content_block_delta":
		var is struct{ Delta json.RawMessage }
		if json.Unmarshal(data, &is) != nil {
			return nil, remote.Unreadable()
		}
		events, err = a.goOn(is.Delta)
		return append(a.tell(false), events...), err
	case "content_block_stop":
		a.BeginText() // servers may leave out the next beginning
	case "message_delta":
		var is struct {
			Delta struct {
				Why remote.Reason `json:"stop_reason"`
			}
		}
		if json.Unmarshal(data, &is) != nil {
			return nil, remote.Unreadable()
		}
		a.count(&e.Usage.Value)
		return a.tell(true), a.Because(is.Delta.Why)
	case "message_stop":
		return nil, io.EOF
	case "message": // a whole answer
		var is struct {
			Content []json.RawMessage
			Why     remote.Reason `json:"stop_reason"`
		}
		if json.Unmarshal(data, &is) != nil {
			return nil, remote.Unreadable()
		}
		for _, block := range is.Content {
			said, err := a.begin(block)
			if events = append(events, said...); err != nil {
				return events, err
			}
		}
		a.count(&e.Usage.Value)
		return append(events, a.tell(true)...), a.Because(is.Why)
	}
	return nil, nil // ping, and what later versions add
}

// count keeps the numbers of u.
func (a *answer) count(u *usage) {
	for to, n := range map[*int]lax.Count{&a.in: u.In, &a.out: u.Out, &a.wrote: u.Written, &a.cache: u.Cached} {
		n.Keep(to)
		a.counted = a.counted || n.IsGiven()
	}
}

// tell returns the event of what was used so far, if there are numbers: once before the text,
// and again at each report.
func (a *answer) tell(again bool) []substrate.Event {
	if !a.counted || a.told && !again {
		return nil
	}
	a.told = true
	return []substrate.Event{substrate.Usage{In: a.in + a.wrote + a.cache, Out: a.out, Cached: a.cache}}
}

// begin reads the beginning of a block, or a whole one.
func (a *answer) begin(block []byte) ([]substrate.Event, error) {
	var is lax.Of[struct{ Type string }]
	_ = json.Unmarshal(block, &is) // it takes any value
	switch is.Value.Type {
	case "text", "thinking", "":
		a.BeginText()
		return a.said(block)
	case "tool_use":
		var use struct {
			ID    lax.Of[string]
			Name  string
			Input json.RawMessage
		}
		if json.Unmarshal(block, &use) != nil {
			return nil, remote.Unreadable()
		}
		arguments := remote.Arguments(use.Input)
		if arguments == "{}" { // its pieces may follow
			arguments = ""
		}
		return nil, a.BeginCall(substrate.ToolCall{ID: cmp.Or(use.ID.Value, fmt.Sprintf("call_%d", len(a.Calls))), Name: use.Name, Arguments: arguments})
	}
	a.SkipBlock()
	return nil, nil
}

// goOn reads more of a block.
func (a *answer) goOn(delta []byte) ([]substrate.Event, error) {
	if a.IsSkipped() {
		return nil, nil
	}
	var is struct {
		Type  lax.Of[string]
		Piece json.RawMessage `json:"partial_json"`
	}
	_ = json.Unmarshal(delta, &is) // a delta of another form has neither
	switch is.Type.Value {
	case "text_delta", "thinking_delta", "":
		if is.Piece == nil {
			return a.said(delta)
		}
	case "input_json_delta":
	default:
		return nil, nil // a signature, and what later versions add
	}
	if more := remote.Arguments(is.Piece); more != "" {
		return nil, a.AddArguments(more)
	}
	return nil, nil
}

// said reads the text and the thoughts of a block or of a delta.
func (a *answer) said(data []byte) (events []substrate.Event, err error) {
	var is struct {
		Text     string
		Thinking lax.Of[string]
	}
	if data != nil && json.Unmarshal(data, &is) != nil {
		return nil, remote.Unreadable()
	}
	if is.Thinking.Value != "" {
		events = append(events, substrate.Thought(is.Thinking.Value))
	}
	return append(events, a.Say(is.Text)...), nil
}
