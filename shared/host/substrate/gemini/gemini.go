// Package gemini is the substrate for Google's Gemini models. A request contains only the model's
// name, the conversation, the owner's settings for the model and the owner's secret.
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
	"github.com/vacancy-host/vacancy/shared/host/substrate/lax"
	"github.com/vacancy-host/vacancy/shared/host/substrate/remote"
)

func Kinds(client *outbound.Client) substrate.Kinds {
	// client asks its guard whether a vacant may call a URL.
	omissions := remote.NewOmissions()
	return substrate.Kinds{substrate.KindGemini: func(argument string) (substrate.Substrate, error) {
		spec := substrate.Spec{Kind: substrate.KindGemini, Argument: argument}
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
		header.Set("X-Goog-Api-Key", r.Secret.Reveal())
		remote.Infer(ctx, s.client, &r, remote.Request{Spec: s.spec, Omissions: s.omissions, Header: header, Body: s.buildBody}, new(answerReader))(yield)
	}
}

type request struct {
	Contents          []content  `json:"contents"`
	SystemInstruction *content   `json:"systemInstruction,omitempty"`
	Tools             []toolList `json:"tools,omitempty"`
	// ToolConfig has the mode NONE, or is nil if the model may choose.
	ToolConfig       *toolConfig       `json:"toolConfig,omitempty"`
	GenerationConfig *generationConfig `json:"generationConfig,omitempty"`
}

type content struct {
	Role  string `json:"role,omitempty"`
	Parts []part `json:"parts"`
}

type part struct {
	Text             string            `json:"text,omitempty"`
	InlineData       *inlineData       `json:"inlineData,omitempty"`
	Thought          bool              `json:"thought,omitempty"`
	FunctionCall     *functionCall     `json:"functionCall,omitempty"`
	FunctionResponse *functionResponse `json:"functionResponse,omitempty"`
	// ThoughtSignature must be sent again with its call. Otherwise, newer models reject the
	// request.
	ThoughtSignature string `json:"thoughtSignature,omitempty"`
}

type inlineData struct {
	MIMEType string `json:"mimeType"`
	Data     []byte `json:"data"`
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

type toolList struct {
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
	Budget int    `json:"thinkingBudget,omitempty"` // limit in tokens, for Gemini 2
	Level  string `json:"thinkingLevel,omitempty"`  // for Gemini 3 and later
}

func (s *server) buildBody(r *substrate.Request) any {
	var body request
	system := r.System
	config := generationConfig{MaxOutputTokens: r.MaxTokens}
	if !r.Omits("thinkingConfig") {
		config.ThinkingConfig = newThinkingConfig(s.model, r.Effort)
	}
	switch {
	case r.JSON && (len(r.Tools) > 0 || r.Omits("responseMimeType")):
		system = remote.AppendJSONInstruction(system) // the API does not accept a format together with tools
	case r.JSON:
		config.ResponseMimeType = "application/json"
	}
	if config != (generationConfig{}) {
		body.GenerationConfig = &config
	}
	if system != "" {
		body.SystemInstruction = &content{Role: "user", Parts: []part{{Text: system}}}
	}
	var calls []substrate.ToolCall // calls of the previous turn
	for _, t := range r.Turns {
		if parts := toParts(&t, calls); len(parts) > 0 { // the API rejects an empty content
			role := "user"
			if t.Role == substrate.RoleAgent {
				role = "model"
			}
			body.Contents = append(body.Contents, content{role, parts})
		}
		calls = t.Calls
	}
	if len(r.Tools) > 0 {
		var toolSet toolList
		for _, t := range r.Tools {
			toolSet.FunctionDeclarations = append(toolSet.FunctionDeclarations, function{t.Name, t.Description, t.Schema})
		}
		body.Tools = []toolList{toolSet}
		if r.MustAnswer {
			body.ToolConfig = new(toolConfig)
			body.ToolConfig.FunctionCallingConfig.Mode = "NONE"
		}
	}
	return body
}

func newThinkingConfig(model string, e substrate.Effort) *thinkingConfig {
	switch {
	case e == "":
		return nil
	case strings.HasPrefix(model, "gemini-2"):
		return &thinkingConfig{Budget: map[substrate.Effort]int{substrate.Low: 1 << 10, substrate.Medium: 8 << 10, substrate.High: 24 << 10}[e]}
	}
	return &thinkingConfig{Level: strings.ToUpper(string(e))}
}

func toParts(t *substrate.Turn, calls []substrate.ToolCall) (parts []part) {
	if t.Text != "" {
		parts = append(parts, part{Text: t.Text})
	}
	for _, f := range t.Files {
		parts = append(parts, part{InlineData: &inlineData{f.MediaType, f.Data}})
	}
	for _, c := range t.Calls {
		parts = append(parts, part{FunctionCall: &functionCall{c.ID, c.Name, remote.ArgumentsObject(c.Arguments)}, ThoughtSignature: c.Opaque})
	}
	for i, r := range t.Results { // results are in the order of the calls
		key := "output"
		if r.Failed {
			key = "error"
		}
		parts = append(parts, part{FunctionResponse: &functionResponse{r.ID, calls[i].Name, map[string]string{key: r.Text}}})
	}
	return parts
}

type chunk struct {
	Candidates []struct {
		Index        lax.Value[int]
		Content      struct{ Parts []answerPart }
		FinishReason remote.Reason
	}
	PromptFeedback lax.Value[struct{ BlockReason string }]
	UsageMetadata  lax.Value[struct {
		PromptTokenCount        lax.Count
		ToolUsePromptTokenCount lax.Count
		CandidatesTokenCount    lax.Count
		ThoughtsTokenCount      lax.Count
		CachedContentTokenCount lax.Count
	}]
}

type answerPart struct {
	Text         string
	Thought      lax.Value[bool]
	FunctionCall *struct {
		ID   lax.Value[string]
		Name string
		Args json.RawMessage
	}
	ThoughtSignature lax.Value[string]
}

type answerReader struct{ remote.Ending }

func (a *answerReader) Read(data []byte) (events []substrate.Event, err error) {
	var c chunk
	if json.Unmarshal(data, &c) != nil {
		return nil, remote.UnreadableError()
	}
	if reason := c.PromptFeedback.Value.BlockReason; reason != "" {
		return nil, remote.RefusalError("its provider's rules blocked the question: " + reason)
	}
	for _, candidate := range c.Candidates {
		if candidate.Index.Value != 0 {
			continue // only one answer was requested
		}
		for _, p := range candidate.Content.Parts {
			switch {
			case p.FunctionCall != nil:
				call := substrate.ToolCall{
					ID:   cmp.Or(p.FunctionCall.ID.Value, fmt.Sprintf("call_%d", len(a.Calls))),
					Name: p.FunctionCall.Name, Arguments: remote.ArgumentsText(p.FunctionCall.Args), Opaque: p.ThoughtSignature.Value,
				}
				if err := a.AddCall(call); err != nil {
					return events, err
				}
			case p.Text != "" && p.Thought.Value:
				events = append(events, substrate.Thought(p.Text))
			default:
				events = append(events, a.AddText(p.Text)...)
			}
		}
		if err := a.SetReason(candidate.FinishReason); err != nil {
			return events, err
		}
	}
	if u := &c.UsageMetadata.Value; u.PromptTokenCount.IsGiven() || u.CandidatesTokenCount.IsGiven() {
		events = append(events, substrate.Usage{
			InputTokens:  u.PromptTokenCount.Int() + u.ToolUsePromptTokenCount.Int(),
			OutputTokens: u.CandidatesTokenCount.Int() + u.ThoughtsTokenCount.Int(),
			CachedTokens: u.CachedContentTokenCount.Int(),
		})
	}
	return events, nil
}
