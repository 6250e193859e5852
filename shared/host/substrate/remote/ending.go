package remote

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// maxCalls bounds the calls of one answer.
const maxCalls = 128

// Ending collects what decides how an answer ends. A reader embeds it and has its End.
type Ending struct {
	// Calls are the calls that began, whole or not. They count once the answer has ended.
	Calls []substrate.ToolCall

	blank      []byte // text that came before the first word
	spoke      bool
	hasReasons bool // the server sends a member for the reason, even if it is null
	reason     Reason
	why        substrate.Done
}

// Say returns the event of a piece of the answer. Blanks before the first word wait for it,
// because a model that says only blanks says nothing.
func (e *Ending) Say(text string) []substrate.Event {
	if !e.spoke && strings.TrimSpace(text) == "" {
		e.blank = append(e.blank, text...)
		return nil
	}
	if text == "" {
		return nil
	}
	text, e.blank, e.spoke = string(e.blank)+text, nil, true
	return []substrate.Event{substrate.Text(text)}
}

// Begin adds a call.
func (e *Ending) Begin(c substrate.ToolCall) error {
	if len(e.Calls) == maxCalls {
		return &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model: calls of tools", Want: fmt.Sprintf("at most %d", maxCalls), Got: "more"}
	}
	e.Calls = append(e.Calls, c)
	return nil
}

// Blocks is the Ending of an answer that comes in blocks, as Anthropic's and Bedrock's do. Some blocks
// are not for the host, for example calls of tools that the provider itself runs (server_tool_use,
// mcp_tool_use), their results, and blocks of types that providers add. Readers skip such blocks with
// their pieces, whatever form these have.
type Blocks struct {
	Ending
	isCall, isSkipped bool // of the open block
}

// BeginText opens a block with text or thoughts of the model.
func (b *Blocks) BeginText() { b.isCall, b.isSkipped = false, false }

// BeginCall opens a block with a call of one of the host's tools.
func (b *Blocks) BeginCall(c substrate.ToolCall) error {
	b.isCall, b.isSkipped = true, false
	return b.Begin(c)
}

// SkipBlock opens a block that is not for the host.
func (b *Blocks) SkipBlock() { b.isCall, b.isSkipped = false, true }

// IsSkipped reports whether the pieces that come belong to a block that is not for the host.
func (b *Blocks) IsSkipped() bool { return b.isSkipped }

// AddArguments adds a piece to the arguments of the open call. Without an open call, the piece
// belongs to nothing that the reader knows.
func (b *Blocks) AddArguments(piece string) error {
	if !b.isCall {
		return Unreadable()
	}
	b.Calls[len(b.Calls)-1].Arguments += piece
	return nil
}

// reasons are the words of all providers. Proxies mix them.
var reasons = map[Reason]substrate.Done{
	"stop": substrate.Stop, "end_turn": substrate.Stop, "stop_sequence": substrate.Stop,
	"length": substrate.Length, "max_tokens": substrate.Length, "max_output_tokens": substrate.Length,
	"model_length": substrate.Length, "model_context_window_exceeded": substrate.Length,
	"tool_calls": substrate.Called, "tool_use": substrate.Called, "function_call": substrate.Called,
	"eos_token": substrate.Stop,                                // Text Generation Inference
	"complete":  substrate.Stop, "tool_call": substrate.Called, // Cohere
}

// breaks are parts of the words with which servers say that an answer broke off, such as abort
// (vLLM), network_error (Zhipu) and insufficient_system_resource (DeepSeek).
var breaks = []string{"error", "abort", "cancel", "timeout", "timed_out", "fail", "interrupt", "disconnect", "insufficient", "incomplete", "overload"}

// Because notes why the answer ends. Providers may add words, and other servers have their
// own. An answer that was cut off stays so, whatever is said after it. The error is a word
// for a refusal, a failure or a break.
func (e *Ending) Because(r Reason) error {
	e.hasReasons = e.hasReasons || r != ""
	switch r {
	case "", none:
		return nil
	case "content_filter", "content_filtered", "guardrail_intervened", "refusal",
		"safety", "recitation", "language", "blocklist", "prohibited_content", "spii", "sensitive", "model_armor":
		return Refused("its provider's rules stopped the answer: " + string(r))
	case "malformed_function_call", "malformed_tool_use", "malformed_model_output", "malformed_response", "unexpected_tool_call", "too_many_tool_calls":
		return problem.New(problem.SubstrateMisconfigured, "the model's answer is malformed: %s", r)
	}
	why, known := reasons[r]
	switch {
	case !known && slices.ContainsFunc(breaks, func(part string) bool { return strings.Contains(string(r), part) }):
		return problem.New(problem.SubstrateUnavailable, "the model's answer broke off: %.40q", string(r))
	case !known:
		why = substrate.Unknown
	}
	if e.why != substrate.Length {
		e.reason, e.why = r, why
	}
	return nil
}

// End implements Ender. An answer is complete only with a known good ending: a reason, or the mark
// of a server that has no reasons. A call that was cut off is none: no call counts in an answer that
// is too long or does not say why it ends, and after a reason that is unknown only calls with
// whole arguments count. Otherwise the text that came is the answer, whose end is then unknown.
func (e *Ending) End(closed bool) (events []substrate.Event, err error) {
	calls, isPart := len(e.Calls) > 0, func(c substrate.ToolCall) bool { return !IsObject(c.Arguments) }
	switch {
	case e.reason == "" && (e.hasReasons || !closed || !e.spoke):
		return nil, CutOff()
	case e.why == substrate.Length:
		return []substrate.Event{substrate.Length}, nil
	case e.reason != "" && calls && (e.why != substrate.Unknown || !slices.ContainsFunc(e.Calls, isPart)): // some servers say "stop"
		for _, c := range e.Calls {
			events = append(events, c)
		}
		if e.why == substrate.Unknown {
			return append(events, substrate.Unknown), nil
		}
		return append(events, substrate.Called), nil
	case e.why == substrate.Unknown && e.spoke:
		return []substrate.Event{substrate.Unknown}, nil
	case e.why == substrate.Stop || e.spoke:
		return []substrate.Event{substrate.Stop}, nil
	case e.why == substrate.Called:
		return nil, problem.New(problem.SubstrateMisconfigured, "the model calls a tool and names none")
	}
	return nil, &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model: reason to end", Want: "a known one, or some text", Got: fmt.Sprintf("%.40q", string(e.reason))}
}

// IsObject reports whether the arguments of a call are a JSON object.
func IsObject(arguments string) bool {
	return strings.HasPrefix(strings.TrimSpace(arguments), "{") && json.Valid([]byte(arguments))
}
