// Package bedrock is the substrate for models in Amazon Bedrock. It uses ConverseStream and the
// host's own AWS credentials. A request contains only the model's id, the conversation and the
// owner's settings for the model.
package bedrock

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/schemas"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/aws/smithy-go/transport/http/protocol/restjson1"

	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/awsapi"
	"github.com/vacancy-host/vacancy/shared/host/substrate/remote"
)

func Kinds(client *outbound.Client, cfg aws.Config) substrate.Kinds {
	api := bedrockruntime.NewFromConfig(cfg, func(o *bedrockruntime.Options) {
		o.Retryer, o.HTTPClient = aws.NopRetryer{}, awsapi.HTTPClient()
		// The client ignores tokens in the environment.
		o.BearerAuthTokenProvider, o.AuthSchemePreference = nil, nil
	})
	omissions := remote.NewOmissions()
	return substrate.Kinds{substrate.KindBedrock: func(argument string) (substrate.Substrate, error) {
		spec := substrate.Spec{Kind: substrate.KindBedrock, Argument: argument}
		if err := spec.CheckModel(); err != nil {
			return nil, err
		}
		return &model{client, api, omissions, spec}, nil
	}}
}

type model struct {
	client    *outbound.Client
	api       *bedrockruntime.Client
	omissions *remote.Omissions
	spec      substrate.Spec
}

// Infer implements substrate.Substrate.
func (m *model) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if err := awsapi.CheckPermitted(ctx, m.client, &r, m.spec); err != nil {
			yield(nil, err)
			return
		}
		reply, err := remote.Send(m.omissions, &r, m.spec, m.buildInput, func(in *bedrockruntime.ConverseStreamInput) (*bedrockruntime.ConverseStreamOutput, error) {
			reply, err := m.api.ConverseStream(ctx, in, useOwnProtocol)
			if err != nil {
				err = remote.AddToolName(&r, err.Error(), awsapi.ConvertError(ctx, err))
			}
			return reply, err
		})
		if err != nil {
			yield(nil, err)
			return
		}
		stream := reply.GetStream()
		defer stream.Close()
		var a answerReader
		for e := range stream.Events() {
			events, err := a.readEvent(e)
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				remote.YieldEnd(&a, false, err)(yield)
				return
			}
		}
		err = stream.Err()
		switch {
		case err != nil:
			err = awsapi.ConvertError(ctx, err)
		case ctx.Err() != nil: // the SDK ends the stream without an error
			err = substrate.ContextError(ctx, "the model")
		}
		remote.YieldEnd(&a, false, err)(yield)
	}
}

func useOwnProtocol(o *bedrockruntime.Options) {
	// The SDK (smithy-go v1.28.8) has one buffer per client, in which concurrent streams would
	// overwrite each other's events.
	o.Protocol = restjson1.New(schemas.AmazonBedrockFrontendService)
}

func (m *model) buildInput(r *substrate.Request) *bedrockruntime.ConverseStreamInput {
	in := &bedrockruntime.ConverseStreamInput{ModelId: &m.spec.Argument}
	system := r.System
	if r.JSON {
		system = remote.AppendJSONInstruction(system)
	}
	if r.MustAnswer && len(r.Tools) > 0 {
		system = remote.AppendAnswerInstruction(system) // Bedrock has no tool choice "none"
	}
	if system != "" {
		in.System = []types.SystemContentBlock{&types.SystemContentBlockMemberText{Value: system}}
	}
	if r.MaxTokens > 0 {
		// MaxTokens is at most 2^20, so it fits into an int32.
		in.InferenceConfig = &types.InferenceConfiguration{MaxTokens: aws.Int32(int32(r.MaxTokens))}
	}
	if r.Effort != "" && !r.Omits("outputConfig") {
		in.OutputConfig = &types.OutputConfig{Effort: aws.String(string(r.Effort))}
	}
	for _, t := range r.Turns {
		if blocks := toBlocks(&t); len(blocks) > 0 { // Bedrock rejects an empty message
			role := types.ConversationRoleUser
			if t.Role == substrate.RoleAgent {
				role = types.ConversationRoleAssistant
			}
			in.Messages = append(in.Messages, types.Message{Role: role, Content: blocks})
		}
	}
	if len(r.Tools) > 0 {
		in.ToolConfig = &types.ToolConfiguration{}
	}
	for _, t := range r.Tools {
		spec := types.ToolSpecification{Name: &t.Name, InputSchema: &types.ToolInputSchemaMemberJson{Value: toDocument(t.Schema)}}
		if t.Description != "" {
			spec.Description = &t.Description
		}
		in.ToolConfig.Tools = append(in.ToolConfig.Tools, &types.ToolMemberToolSpec{Value: spec})
	}
	return in
}

func toDocument(raw json.RawMessage) document.Interface {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		v = map[string]any{}
	}
	return document.NewLazyDocument(v)
}

func toBlocks(t *substrate.Turn) (blocks []types.ContentBlock) {
	if t.Text != "" {
		blocks = append(blocks, &types.ContentBlockMemberText{Value: t.Text})
	}
	for _, f := range t.Files {
		image := types.ImageBlock{Format: types.ImageFormat(strings.TrimPrefix(f.MediaType, "image/")), Source: &types.ImageSourceMemberBytes{Value: f.Data}}
		blocks = append(blocks, &types.ContentBlockMemberImage{Value: image})
	}
	for _, c := range t.Calls {
		blocks = append(blocks, &types.ContentBlockMemberToolUse{Value: types.ToolUseBlock{ToolUseId: &c.ID, Name: &c.Name, Input: toDocument(remote.ArgumentsObject(c.Arguments))}})
	}
	for _, r := range t.Results {
		block := types.ToolResultBlock{ToolUseId: &r.ID, Content: []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberText{Value: cmp.Or(r.Text, "(no text)")}}}
		if r.Failed {
			block.Status = types.ToolResultStatusError
		}
		blocks = append(blocks, &types.ContentBlockMemberToolResult{Value: block})
	}
	return blocks
}

type answerReader struct{ remote.Blocks }

func (a *answerReader) readEvent(e types.ConverseStreamOutput) ([]substrate.Event, error) {
	switch e := e.(type) {
	case *types.ConverseStreamOutputMemberContentBlockStart:
		toolUse, ok := e.Value.Start.(*types.ContentBlockStartMemberToolUse)
		switch {
		case ok && toolUse.Value.Type == "":
			id := cmp.Or(aws.ToString(toolUse.Value.ToolUseId), fmt.Sprintf("call_%d", len(a.Calls)))
			return nil, a.BeginCall(substrate.ToolCall{ID: id, Name: aws.ToString(toolUse.Value.Name)})
		case e.Value.Start != nil: // nil may start a text
			a.SkipBlock()
		}
	case *types.ConverseStreamOutputMemberContentBlockDelta:
		if a.IsSkipped() {
			return nil, nil
		}
		return a.readDelta(e.Value.Delta)
	case *types.ConverseStreamOutputMemberContentBlockStop:
		a.BeginText() // Bedrock sends no start event for a text
	case *types.ConverseStreamOutputMemberMessageStop:
		return nil, a.SetReason(remote.Reason(strings.ToLower(string(e.Value.StopReason))))
	case *types.ConverseStreamOutputMemberMetadata:
		if u := e.Value.Usage; u != nil {
			tokens := func(p *int32) int { return max(int(aws.ToInt32(p)), 0) }
			cached := tokens(u.CacheReadInputTokens)
			return []substrate.Event{substrate.Usage{InputTokens: tokens(u.InputTokens) + tokens(u.CacheWriteInputTokens) + cached, OutputTokens: tokens(u.OutputTokens), CachedTokens: cached}}, nil
		}
	}
	return nil, nil // events of later versions
}

func (a *answerReader) readDelta(d types.ContentBlockDelta) ([]substrate.Event, error) {
	switch d := d.(type) {
	case *types.ContentBlockDeltaMemberText:
		return a.AddText(d.Value), nil
	case *types.ContentBlockDeltaMemberReasoningContent:
		if thought, ok := d.Value.(*types.ReasoningContentBlockDeltaMemberText); ok && thought.Value != "" {
			return []substrate.Event{substrate.Thought(thought.Value)}, nil
		}
	case *types.ContentBlockDeltaMemberToolUse:
		return nil, a.AddArguments(aws.ToString(d.Value.Input))
	}
	return nil, nil
}
