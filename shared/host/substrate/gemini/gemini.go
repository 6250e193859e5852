// Package gemini is the substrate behind Google's Gemini models: at Google, and at
// servers that speak as it does.
//
// The invariant: the request contains the model's name, the conversation, what the
// vacant's owner wants of the model, the owner's secret, and nothing else: no id, no
// envelope, nothing of the host's environment.
package gemini

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/remote"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Kinds are the kinds of this package. Requests go through client as the vacant,
// so client's guard may refuse them.
func Kinds(client *outbound.Client) substrate.Kinds {
	return substrate.Kinds{substrate.KindGemini: func(argument string) (substrate.Substrate, error) {
		spec := substrate.Spec{Kind: substrate.KindGemini, Argument: argument}
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
		header.Set("X-Goog-Api-Key", r.Secret.Reveal())
		remote.Infer(ctx, s.client, &r, remote.Request{URL: s.spec.Endpoint(), Header: header, Body: s.bodyOf(&r)}, new(answer))(yield)
	}
}

// request is the body of a request.
type request struct {
	Contents          []content         `json:"contents"`
	SystemInstruction *content          `json:"systemInstruction,omitempty"`
	Tools             []tools           `json:"tools,omitempty"`
	ToolConfig        *toolConfig       `json:"toolConfig,omitempty"` // NONE, or as the model likes
	GenerationConfig  *generationConfig `json:"generationConfig,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

// part is a text, the call of a function, or what that gave.
type part struct {
	Text             string            `json:"text,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	// ThoughtSignature is to be sent again with its call: without it the model has
	// forgotten why it calls, and newer ones refuse the request.
	ThoughtSignature string `json:"thoughtSignature,omitempty"`
}

type functionCall struct {
	ID   string          `json:"id,omitempty"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

type functionResponse struct {
	ID       string            `json:"id,omitempty"`
	Name     string            `json:"name"`
	Response map[string]string `json:"response"`
}

type tools struct {
	FunctionDeclarations []function `json:"functionDeclarations"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parametersJsonSchema"`
}

type toolConfig struct {
	FunctionCallingConfig struct {
		Mode string `json:"mode"`
	} `json:"functionCallingConfig"`
}

type generationConfig struct {
	MaxOutputTokens  int             `json:"maxOutputTokens,omitempty"`
	ResponseMimeType string          `json:"responseMimeType,omitempty"`
	ThinkingConfig   *thinkingConfig `json:"thinkingConfig,omitempty"`
}

type thinkingConfig struct {
	Budget int    `json:"thinkingBudget,omitempty"` // tokens, of Gemini 2
	Level  string `json:"thinkingLevel,omitempty"`  // since Gemini 3
}

// bodyOf is the body of a request.
func (s *server) bodyOf(r *substrate.Request) request {
	var body request
	system := r.System
	config := generationConfig{MaxOutputTokens: r.MaxTokens, ThinkingConfig: thinking(s.model, r.Effort)}
	switch {
	case r.JSON && len(r.Tools) > 0:
		system = remote.AskForJSON(system) // the API takes a format or tools
	case r.JSON:
		config.ResponseMimeType = "application/json"
	}
	if config != (generationConfig{}) {
		body.GenerationConfig = &config
	}
	if system != "" {
		body.SystemInstruction = &content{Role: "user", Parts: []part{{Text: system}}}
	}
	var calls []substrate.ToolCall // of the turn before
	for _, t := range r.Turns {
		if parts := partsOf(&t, calls); len(parts) > 0 { // the API refuses a content of nothing
			role := "user"
			if t.Role == substrate.Agent {
				role = "model"
			}
			body.Contents = append(body.Contents, content{role, parts})
		}
		calls = t.Calls
	}
	if len(r.Tools) > 0 {
		var all tools
		for _, t := range r.Tools {
			all.FunctionDeclarations = append(all.FunctionDeclarations, function{t.Name, t.Description, t.Schema})
		}
		body.Tools = []tools{all}
		if r.Final {
			body.ToolConfig = new(toolConfig)
			body.ToolConfig.FunctionCallingConfig.Mode = "NONE"
		}
	}
	return body
}

// thinking is what an effort is for a model; nil if its agent says none.
func thinking(model string, e substrate.Effort) *thinkingConfig {
	switch {
	case e == "":
		return nil
	case strings.HasPrefix(model, "gemini-2"):
		return &thinkingConfig{Budget: map[substrate.Effort]int{substrate.Low: 1 << 10, substrate.Medium: 8 << 10, substrate.High: 24 << 10}[e]}
	}
	return &thinkingConfig{Level: strings.ToUpper(string(e))}
}

// partsOf are the parts of a turn that follows calls.
func partsOf(t *substrate.Turn, calls []substrate.ToolCall) (all []part) {
	if t.Text != "" {
		all = append(all, part{Text: t.Text})
	}
	for _, c := range t.Calls {
		all = append(all, part{FunctionCall: &functionCall{c.ID, c.Name, remote.Object(c.Arguments)}, ThoughtSignature: c.Opaque})
	}
	for i, r := range t.Results { // in the order of the calls
		key := "output"
		if r.Failed {
			key = "error"
		}
		all = append(all, part{FunctionResponse: &functionResponse{r.ID, calls[i].Name, map[string]string{key: r.Text}}})
	}
	return all
}

// chunk is a piece of a stream, as far as it matters.
type chunk struct {
	Candidates []struct {
		Index        int
		Content      content
		FinishReason string
	}
	PromptFeedback struct{ BlockReason string }
	UsageMetadata  *struct {
		PromptTokenCount        int
		ToolUsePromptTokenCount int
		CandidatesTokenCount    int
		ThoughtsTokenCount      int
		CachedContentTokenCount int
	}
	Error *struct{ Status string }
}

// answer reads an answer.
type answer struct {
	calls []substrate.ToolCall
	end   substrate.Done
}

// maxCalls bounds the calls of one answer.
const maxCalls = 128

// Read implements remote.Answer.
func (a *answer) Read(data []byte) (events []substrate.Event, err error) {
	var c chunk
	if json.Unmarshal(data, &c) != nil {
		return nil, remote.Unreadable()
	}
	switch {
	case c.Error != nil && c.Error.Status == "RESOURCE_EXHAUSTED":
		return nil, problem.New(problem.SubstrateBusy, "the model's server takes no more requests for now")
	case c.Error != nil:
		return nil, remote.Failed()
	case c.PromptFeedback.BlockReason != "":
		return nil, remote.Refused("its provider's rules blocked the question: " + c.PromptFeedback.BlockReason)
	}
	for _, one := range c.Candidates {
		if one.Index != 0 {
			continue // one answer was asked for
		}
		for _, p := range one.Content.Parts {
			switch {
			case p.FunctionCall != nil:
				if len(a.calls) == maxCalls {
					return events, &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model: functionCall", Want: fmt.Sprintf("at most %d", maxCalls), Got: "more"}
				}
				a.calls = append(a.calls, substrate.ToolCall{
					ID:   cmp.Or(p.FunctionCall.ID, fmt.Sprintf("call_%d", len(a.calls))),
					Name: p.FunctionCall.Name, Arguments: string(p.FunctionCall.Args), Opaque: p.ThoughtSignature,
				})
			case p.Text != "" && p.Thought:
				events = append(events, substrate.Thought(p.Text))
			case p.Text != "":
				events = append(events, substrate.Text(p.Text))
			}
		}
		if err := a.ends(one.FinishReason); err != nil {
			return events, err
		}
	}
	if u := c.UsageMetadata; u != nil {
		events = append(events, substrate.Usage{
			In:     max(u.PromptTokenCount, 0) + max(u.ToolUsePromptTokenCount, 0),
			Out:    max(u.CandidatesTokenCount, 0) + max(u.ThoughtsTokenCount, 0),
			Cached: u.CachedContentTokenCount,
		})
	}
	return events, nil
}

// ends keeps why the answer ends; "" says nothing.
func (a *answer) ends(why string) error {
	switch why {
	case "", "FINISH_REASON_UNSPECIFIED":
	case "STOP":
		a.end = substrate.Stop
	case "MAX_TOKENS":
		a.end = substrate.Length
	case "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII":
		return remote.Refused("its provider's rules stopped the answer: " + why)
	default: // MALFORMED_FUNCTION_CALL, OTHER and what later versions add
		return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model: finishReason", Want: "STOP or MAX_TOKENS", Got: fmt.Sprintf("%.40q", why)}
	}
	return nil
}

// End implements remote.Answer.
func (a *answer) End() (events []substrate.Event, err error) {
	switch {
	case a.end == "":
		return nil, remote.CutOff()
	case a.end == substrate.Length || len(a.calls) == 0:
		return []substrate.Event{a.end}, nil
	}
	for _, c := range a.calls {
		events = append(events, c)
	}
	return append(events, substrate.Called), nil
}
