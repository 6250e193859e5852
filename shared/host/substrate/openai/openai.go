// Package openai is the substrate behind a server of one's own that speaks
// OpenAI's chat completions, such as Ollama, llama.cpp or vLLM. It sends no key,
// so a provider that wants one refuses.
//
// The invariant: the request contains the model's name, the conversation and what
// the vacant's owner wants of the model, and nothing else: no id, no envelope, no
// key, nothing of the host's environment.
package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/sse"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// maxModel bounds a model's name in bytes.
const maxModel = 256

// Kinds are the kinds of this package. Requests go through client as the vacant,
// so client's guard may refuse them.
func Kinds(client *outbound.Client) substrate.Kinds {
	kinds := substrate.Kinds{}
	for _, kind := range []string{substrate.KindOpenAI, substrate.KindOllama} {
		kinds[kind] = func(argument string) (substrate.Substrate, error) {
			return open(client, substrate.Spec{Kind: kind, Argument: argument})
		}
	}
	return kinds
}

// server is a model at a server.
type server struct {
	client   *outbound.Client
	endpoint string
	model    string
}

func open(client *outbound.Client, spec substrate.Spec) (substrate.Substrate, error) {
	base, model, ok := spec.Model()
	if !ok {
		want := "openai:URL#MODEL, such as openai:http://127.0.0.1:8000/v1#qwen3"
		if spec.Kind == substrate.KindOllama {
			want = "ollama:MODEL, such as ollama:llama3.2"
		}
		return nil, problem.Invalid("substrate", want, fmt.Sprintf("%.80q", spec))
	}
	if err := substrate.CheckURL(base); err != nil {
		return nil, err
	}
	if strings.Contains(base, "?") {
		return nil, problem.Invalid("substrate", "a URL without a query", fmt.Sprintf("%.80q", base))
	}
	unprintable := func(c rune) bool { return !unicode.IsGraphic(c) || unicode.IsSpace(c) || c == utf8.RuneError }
	if len(model) > maxModel || strings.ContainsFunc(model, unprintable) {
		return nil, problem.Invalid("substrate", fmt.Sprintf("a model's name of 1 to %d bytes without blanks", maxModel), fmt.Sprintf("%.80q", model))
	}
	return &server{client, spec.Endpoint(), model}, nil
}

// Infer streams the model's answer. The kinds of its errors are
// SubstrateUnavailable if the server cannot be reached or is out of order,
// SubstrateBusy for 429, SubstrateRefused if the model refuses to answer,
// SubstrateTooLarge for a long stream, and SubstrateMisconfigured for any other
// answer. They have what the server answered as a call.AgentError.
func (s *server) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		reply, err := s.post(ctx, r)
		if err != nil {
			yield(nil, err)
			return
		}
		defer reply.Body.Close()
		var end substrate.Done
		var calls calls
		for data, err := range sse.Data(reply.Body, outbound.MaxStream) {
			if err != nil {
				yield(nil, failure(err))
				return
			}
			if string(data) == "[DONE]" {
				break
			}
			c, err := parse(data)
			if err != nil {
				yield(nil, err)
				return
			}
			events, why, err := c.events()
			if err == nil {
				err = calls.add(&c)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			if why != "" {
				end = why
			}
		}
		if end == "" {
			yield(nil, problem.New(problem.SubstrateUnavailable, "the model's answer ends in the middle, or is no stream"))
			return
		}
		if len(calls) > 0 {
			end = substrate.Called // some servers say "stop"
		}
		if end == substrate.Called && len(calls) == 0 {
			yield(nil, problem.New(problem.SubstrateMisconfigured, "the model calls a tool and names none"))
			return
		}
		for _, c := range calls {
			if !yield(c, nil) {
				return
			}
		}
		yield(end, nil)
	}
}

// maxCalls bounds the calls of one answer.
const maxCalls = 128

// calls are the tool calls of an answer, which come in pieces.
type calls []substrate.ToolCall

// add adds the pieces of a chunk. The error is of kind SubstrateMisconfigured.
func (all *calls) add(c *chunk) error {
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue
		}
		for _, piece := range choice.Delta.ToolCalls {
			if piece.Index < 0 || piece.Index > len(*all) || piece.Index == maxCalls {
				return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model: tool_calls: index", Want: fmt.Sprintf("0 to %d, in order", maxCalls-1), Got: fmt.Sprint(piece.Index)}
			}
			if piece.Index == len(*all) {
				*all = append(*all, substrate.ToolCall{ID: cmp.Or(piece.ID, fmt.Sprintf("call_%d", piece.Index))})
			}
			call := &(*all)[piece.Index]
			call.Name += piece.Function.Name
			call.Arguments += piece.Function.Arguments
		}
	}
	return nil
}

// request is the body of a request.
type request struct {
	Model         string    `json:"model"`
	Messages      []message `json:"messages"`
	Stream        bool      `json:"stream"`
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Tools      []tool `json:"tools,omitempty"`
	ToolChoice string `json:"tool_choice,omitempty"` // "none", or as the model likes
	// MaxTokens is the older name, which every server of one's own knows.
	MaxTokens int              `json:"max_tokens,omitempty"`
	Effort    substrate.Effort `json:"reasoning_effort,omitempty"`
	Format    *format          `json:"response_format,omitempty"`
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
	body.StreamOptions.IncludeUsage = true
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

// post sends the conversation. The reply has status 200.
func (s *server) post(ctx context.Context, r substrate.Request) (*http.Response, error) {
	body := s.bodyOf(&r)
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, problem.Wrap(problem.Internal, err, "")
	}
	reply, err := substrate.WhileRefused(ctx, func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, bytes.NewReader(encoded))
		if err != nil {
			return nil, err
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "text/event-stream")
		return s.client.As(outbound.Vacant(r.Vacant)).HTTPClient().Do(req)
	})
	if err != nil {
		return nil, failure(err)
	}
	if reply.StatusCode != http.StatusOK {
		defer reply.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(reply.Body, 2*substrate.MaxExcerpt)) // what of it comes is shown
		return nil, substrate.Answered(reply.StatusCode, reply.Header, said, substrate.BadStatus(reply.StatusCode))
	}
	return reply, nil
}

// failure gives an error of package outbound, or of a stream, its kind.
func failure(err error) error {
	var known *problem.Error
	switch {
	case errors.Is(err, sse.ErrTooLong):
		return problem.Wrap(problem.SubstrateTooLarge, err, "the model's answer: %v", err)
	case errors.As(err, &known):
		return substrate.Unreached(known)
	}
	return problem.Wrap(problem.SubstrateUnavailable, err, "the model's answer breaks off")
}

// chunk is a piece of a stream, as far as it matters.
type chunk struct {
	Choices []struct {
		Index int
		Delta struct {
			Content, Refusal string
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

// parse reads the data of an event. The error has it as a call.AgentError.
func parse(data []byte) (c chunk, err error) {
	err = json.Unmarshal(data, &c)
	switch {
	case err != nil:
		err = problem.New(problem.SubstrateMisconfigured, "the model's answer is not a stream of chat completions")
	case c.Error != nil && string(c.Error) != "null":
		err = problem.New(problem.SubstrateUnavailable, "the model's answer ends with an error")
	default:
		return c, nil
	}
	return c, substrate.Answered(http.StatusOK, nil, data, err)
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
			return nil, "", refused(d.Refusal)
		}
		if thought := cmp.Or(d.ReasoningContent, d.Reasoning); thought != "" {
			events = append(events, substrate.Thought(thought))
		}
		if d.Content != "" {
			events = append(events, substrate.Text(d.Content))
		}
		switch choice.FinishReason {
		case "":
		case "stop":
			why = substrate.Stop
		case "length":
			why = substrate.Length
		case "tool_calls":
			why = substrate.Called
		case "content_filter":
			return nil, "", refused("its filter stopped the answer")
		default:
			return nil, "", &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model: finish_reason", Want: "stop, length, tool_calls or content_filter", Got: fmt.Sprintf("%.40q", choice.FinishReason)}
		}
	}
	return events, why, nil
}

func refused(why string) error {
	return problem.New(problem.SubstrateRefused, "the model refuses to answer: %s", substrate.Excerpt([]byte(why)))
}
