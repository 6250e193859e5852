package remote

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const maxCalls = 128

type Ending struct {
	// Calls contains the calls that have started, complete or not.
	Calls []substrate.ToolCall

	leadingSpace    []byte
	hasText         bool
	hasReasonMember bool // true even if the member is null
	reason          Reason
	finishReason    substrate.FinishReason
}

// AddText delays white space before the first word, because an answer of only white space is empty.
func (e *Ending) AddText(text string) []substrate.Event {
	if !e.hasText && strings.TrimSpace(text) == "" {
		e.leadingSpace = append(e.leadingSpace, text...)
		return nil
	}
	if text == "" {
		return nil
	}
	text, e.leadingSpace, e.hasText = string(e.leadingSpace)+text, nil, true
	return []substrate.Event{substrate.Text(text)}
}

func (e *Ending) AddCall(c substrate.ToolCall) error {
	if len(e.Calls) == maxCalls {
		return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "tool calls of the model's answer", Want: fmt.Sprintf("at most %d", maxCalls), Got: "more"}
	}
	e.Calls = append(e.Calls, c)
	return nil
}

// Blocks is the Ending of an answer that consists of blocks, as from Anthropic and Bedrock.
type Blocks struct {
	Ending
	isCall, isSkipped bool // state of the open block
}

func (b *Blocks) BeginText() { b.isCall, b.isSkipped = false, false }

func (b *Blocks) BeginCall(c substrate.ToolCall) error {
	b.isCall, b.isSkipped = true, false
	return b.AddCall(c)
}

func (b *Blocks) SkipBlock() { b.isCall, b.isSkipped = false, true }

func (b *Blocks) IsSkipped() bool { return b.isSkipped }

func (b *Blocks) AddArguments(piece string) error {
	if !b.isCall {
		return UnreadableError()
	}
	b.Calls[len(b.Calls)-1].Arguments += piece
	return nil
}

// reasons contains the finish reasons of all providers, because proxies mix them.
var reasons = map[Reason]substrate.FinishReason{
	"stop": substrate.FinishStop, "end_turn": substrate.FinishStop, "stop_sequence": substrate.FinishStop,
	"length": substrate.FinishLength, "max_tokens": substrate.FinishLength, "max_output_tokens": substrate.FinishLength,
	"model_length": substrate.FinishLength, "model_context_window_exceeded": substrate.FinishLength,
	"tool_calls": substrate.FinishToolUse, "tool_use": substrate.FinishToolUse, "function_call": substrate.FinishToolUse,
	"eos_token": substrate.FinishStop,                                       // Text Generation Inference
	"complete":  substrate.FinishStop, "tool_call": substrate.FinishToolUse, // Cohere
}

// interruptionWords lists words in the finish reasons of interrupted answers, for example abort
// (vLLM).
var interruptionWords = []string{"error", "abort", "cancel", "timeout", "timed_out", "fail", "interrupt", "disconnect", "insufficient", "incomplete", "overload"}

// SetReason records the finish reason. It returns an error if the reason means a refusal, a failure
// or an interruption.
func (e *Ending) SetReason(r Reason) error {
	e.hasReasonMember = e.hasReasonMember || r != ""
	switch r {
	case "", noReasonYet:
		return nil
	case "content_filter", "content_filtered", "guardrail_intervened", "refusal",
		"safety", "recitation", "language", "blocklist", "prohibited_content", "spii", "sensitive", "model_armor":
		return RefusalError("its provider's rules stopped the answer: " + string(r))
	case "malformed_function_call", "malformed_tool_use", "malformed_model_output", "malformed_response", "unexpected_tool_call", "too_many_tool_calls":
		return problem.New(problem.SubstrateMisconfigured, "the model's answer is malformed: %s", r)
	}
	finish, isKnown := reasons[r]
	switch {
	case !isKnown && slices.ContainsFunc(interruptionWords, func(part string) bool { return strings.Contains(string(r), part) }):
		return problem.New(problem.SubstrateUnavailable, "the model's answer was interrupted: %.40q", string(r))
	case !isKnown:
		finish = substrate.FinishUnknown
	}
	if e.finishReason != substrate.FinishLength {
		e.reason, e.finishReason = r, finish
	}
	return nil
}

// End implements Ender. Calls of a truncated answer are ignored, because their arguments may be
// incomplete.
func (e *Ending) End(hasEndMark bool) (events []substrate.Event, err error) {
	hasCalls, isIncomplete := len(e.Calls) > 0, func(c substrate.ToolCall) bool { return !IsJSONObject(c.Arguments) }
	switch {
	case e.reason == "" && (e.hasReasonMember || !hasEndMark || !e.hasText):
		return nil, IncompleteError()
	case e.finishReason == substrate.FinishLength:
		return []substrate.Event{substrate.FinishLength}, nil
	// Some servers send "stop" after calls.
	case e.reason != "" && hasCalls && (e.finishReason != substrate.FinishUnknown || !slices.ContainsFunc(e.Calls, isIncomplete)):
		for _, c := range e.Calls {
			events = append(events, c)
		}
		if e.finishReason == substrate.FinishUnknown {
			return append(events, substrate.FinishUnknown), nil
		}
		return append(events, substrate.FinishToolUse), nil
	case e.finishReason == substrate.FinishUnknown && e.hasText:
		return []substrate.Event{substrate.FinishUnknown}, nil
	case e.finishReason == substrate.FinishStop || e.hasText:
		return []substrate.Event{substrate.FinishStop}, nil
	case e.finishReason == substrate.FinishToolUse:
		return nil, problem.New(problem.SubstrateMisconfigured, "the model's answer ends with a tool call, but contains none")
	}
	return nil, &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "finish reason of the model's answer", Want: "a known reason, or an answer with text", Got: fmt.Sprintf("%.40q", string(e.reason))}
}

func IsJSONObject(arguments string) bool {
	return strings.HasPrefix(strings.TrimSpace(arguments), "{") && json.Valid([]byte(arguments))
}
