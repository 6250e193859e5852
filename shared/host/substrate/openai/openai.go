// Package openai is the substrate behind a server of one's own that speaks
// OpenAI's chat completions, such as Ollama, llama.cpp or vLLM. It sends no key,
// so a provider that wants one refuses.
//
// The invariant: the request contains the model's name and the conversation, and
// nothing else: no id, no envelope, no key, nothing of the host's environment.
package openai

import (
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

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
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
	client      *outbound.Client
	base, model string
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
	return &server{client, base, model}, nil
}

// Infer streams the model's answer. The kinds of its errors are
// SubstrateUnavailable if the server cannot be reached or is out of order,
// SubstrateBusy for 429, SubstrateRefused if the model refuses to answer,
// SubstrateTooLarge for a long stream, and SubstrateMisconfigured for any other
// answer. They have what the server answered as a call.AgentError.
func (s *server) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		chunks := s.post(ctx, r)
		defer chunks.Close()
		var end substrate.Done
		for chunks.Next() {
			chunk := chunks.Current()
			events, why, err := read(&chunk)
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
		switch err := chunks.Err(); {
		case err != nil:
			yield(nil, failure(ctx, err))
		case end != "":
			yield(end, nil)
		}
	}
}

// post sends the conversation.
func (s *server) post(ctx context.Context, r substrate.Request) *ssestream.Stream[openai.ChatCompletionChunk] {
	params := openai.ChatCompletionNewParams{
		Model:         s.model,
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}
	for _, t := range r.Turns {
		say := openai.UserMessage[string]
		if t.Role == substrate.Agent {
			say = openai.AssistantMessage[string]
		}
		params.Messages = append(params.Messages, say(t.Text))
	}
	// This constructor, unlike NewClient, reads no environment.
	service := openai.NewChatCompletionService(
		option.WithBaseURL(s.base), option.WithMaxRetries(0),
		option.WithHTTPClient(s.client.As(outbound.Vacant(r.Vacant)).HTTPClient()), option.WithMiddleware(bare),
	)
	return service.NewStreaming(ctx, params)
}

// bare removes what the library tells of this machine, and its Authorization
// without a key.
func bare(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	for name := range req.Header {
		if strings.HasPrefix(name, "X-Stainless-") || name == "Authorization" {
			delete(req.Header, name)
		}
	}
	return next(req)
}

// read is the events of a chunk, and why the answer ends if it says so.
func read(c *openai.ChatCompletionChunk) (events []substrate.Event, why substrate.Done, err error) {
	if c.JSON.Usage.Valid() {
		events = append(events, substrate.Usage{
			In: int(c.Usage.PromptTokens), Out: int(c.Usage.CompletionTokens), Cached: int(c.Usage.PromptTokensDetails.CachedTokens),
		})
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one answer was asked for
		}
		if choice.Delta.Refusal != "" {
			return nil, "", refused(choice.Delta.Refusal)
		}
		if thought := thoughtOf(&choice.Delta); thought != "" {
			events = append(events, substrate.Thought(thought))
		}
		if choice.Delta.Content != "" {
			events = append(events, substrate.Text(choice.Delta.Content))
		}
		switch choice.FinishReason {
		case "":
		case "stop":
			why = substrate.Stop
		case "length":
			why = substrate.Length
		case "content_filter":
			return nil, "", refused("its filter stopped the answer")
		default:
			return nil, "", &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model: finish_reason", Want: "stop, length or content_filter", Got: fmt.Sprintf("%.40q", choice.FinishReason)}
		}
	}
	return events, why, nil
}

// thoughtOf is what the model thought, for which OpenAI has no member and servers
// have two.
func thoughtOf(d *openai.ChatCompletionChunkChoiceDelta) (thought string) {
	for _, name := range []string{"reasoning_content", "reasoning"} {
		if f, ok := d.JSON.ExtraFields[name]; ok && json.Unmarshal([]byte(f.Raw()), &thought) == nil && thought != "" {
			return thought
		}
	}
	return ""
}

func refused(why string) error {
	return problem.New(problem.SubstrateRefused, "the model refuses to answer: %s", substrate.Excerpt([]byte(why)))
}

// failure gives an error of the library its kind.
func failure(ctx context.Context, err error) error {
	var answered *openai.Error
	var streamed *ssestream.StreamError
	var known *problem.Error
	switch {
	case errors.As(err, &answered):
		body, _ := io.ReadAll(io.LimitReader(answered.Response.Body, 2*substrate.MaxExcerpt)) // the library has read it to its end
		return &call.AgentError{Status: answered.StatusCode, Body: substrate.Excerpt(body), Err: substrate.BadStatus(answered.StatusCode)}
	case errors.As(err, &streamed):
		return &call.AgentError{Status: http.StatusOK, Body: substrate.Excerpt(streamed.Event.Data),
			Err: problem.New(problem.SubstrateUnavailable, "the model's answer ends with an error")}
	case errors.As(err, &known):
		return substrate.Unreached(known)
	case errors.Is(ctx.Err(), context.Canceled):
		return problem.Wrap(problem.Canceled, err, "the request to the model was cancelled")
	case ctx.Err() != nil:
		return problem.Wrap(problem.Deadline, err, "the model did not answer in time")
	}
	return problem.Wrap(problem.SubstrateMisconfigured, err, "the model's answer is not a stream of chat completions")
}
