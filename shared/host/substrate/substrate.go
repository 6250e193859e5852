// Package substrate defines the interface to the service that answers for a vacant, for example an
// HTTP endpoint or a model. A substrate never gets an envelope, a signature or a key, so it cannot
// act as the vacant.
//
// Adapters parse texts, tool calls, refusals and errors strictly. An error in another part never
// discards an answer. A stream without its finish reason or end mark is not an answer.
package substrate

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// MaxText is in bytes. An answer must fit into one row of every store.
const MaxText = 300 << 10

type Request struct {
	Caller    identity.ID
	Vacant    identity.ID
	Chooser   outbound.URLChooser // party that chose the URLs
	ContextID *string
	// Turns contains the oldest turn first.
	Turns []Turn

	// The owner's settings for a model. Other substrates ignore them.
	System     string
	Tools      []Tool
	MustAnswer bool   // whether the model may no longer use tools
	MaxTokens  int    // zero for the server's limit
	Effort     Effort // "" for the model's default
	JSON       bool
	Omit       []string

	Secret Secret

	call     *envelope.Envelope // may be nil; hidden from adapters
	callHash identity.Hash
}

// ID returns the hash of the call's envelope, or zero if the request does not belong to a call.
func (r *Request) ID() identity.Hash {
	if r.call == nil {
		return r.callHash
	}
	return r.call.Hash()
}

func (r Request) WithID(id identity.Hash) Request {
	r.call, r.callHash = nil, id
	return r
}

type Turn struct {
	Role Role
	Text string
	// ClaimedRole is the role of a speaker according to the caller. Role is then RoleCaller,
	// because the caller wrote the text.
	ClaimedRole string
	Files       []File
	Calls       []ToolCall
	Results     []ToolResult // in the order of the previous turn's calls
}

type Role string

const (
	RoleCaller Role = "caller"
	RoleAgent  Role = "agent"
	RoleTools  Role = "tools"
)

type Tool struct {
	Name        string // at most 64 characters from a-z A-Z 0-9 _ -
	Description string
	Schema      json.RawMessage
}

type ToolResult struct {
	ID, Text string
	Failed   bool
}

type Effort string

const (
	Low    Effort = "low"
	Medium Effort = "medium"
	High   Effort = "high"
)

func Efforts() []Effort { return []Effort{Low, Medium, High} }

func NewTextRequest(caller, vacant identity.ID, text string) Request {
	return Request{Caller: caller, Vacant: vacant, Turns: []Turn{{Role: RoleCaller, Text: text}}}
}

func (r *Request) Text() string { return r.Turns[len(r.Turns)-1].Text }

type Event interface{ event() }

type (
	// Text is a piece of the answer in valid UTF-8.
	Text     string
	Thought  string
	ToolCall struct {
		ID, Name  string
		Arguments string // possibly invalid JSON
		Opaque    string // data that the server expects back with the call
	}
	// A later Usage replaces an earlier Usage.
	Usage struct {
		// InputTokens includes CachedTokens.
		InputTokens, OutputTokens, CachedTokens int

		Turns, ToolCalls int
		UsedFallback     bool
		UnreportedTurns  int
		AgentVersion     int
		Cost             int // micro-dollars, including the reserved amounts of turns with unknown usage
		// PriceTableVersion is zero if the call is free or the agent states its price.
		PriceTableVersion int
		// MaxTokens is the limit for the last turn if budgets reduced it.
		MaxTokens int
	}
	// Question means that the following text is a question to the caller.
	Question     struct{}
	FinishReason string
)

func (Text) event()         {}
func (Thought) event()      {}
func (ToolCall) event()     {}
func (Usage) event()        {}
func (Question) event()     {}
func (FinishReason) event() {}

const (
	FinishStop   FinishReason = "stop"
	FinishLength FinishReason = "length"
	// FinishBudget means that the answer reached a token limit that a budget had reduced.
	FinishBudget  FinishReason = "budget"
	FinishToolUse FinishReason = "called"
	// FinishUnknown means that the answer may be incomplete.
	FinishUnknown FinishReason = "unknown"
)

// Substrate answers requests. It must be safe for concurrent use and must stop when its context
// ends. The events end with a FinishReason, or with an error and a nil event.
type Substrate interface {
	Infer(ctx context.Context, r Request) iter.Seq2[Event, error]
}

type Func func(ctx context.Context, r Request) (string, error)

func (f Func) Infer(ctx context.Context, r Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		text, err := f(ctx, r)
		if err != nil {
			yield(nil, err)
			return
		}
		if text == "" || yield(Text(text), nil) {
			yield(FinishStop, nil)
		}
	}
}

type Answer struct {
	Text   string
	Calls  []ToolCall
	Usage  *Usage
	Reason FinishReason
}

func (a *Answer) CutReason() call.CutReason {
	switch a.Reason {
	case FinishLength:
		return call.CutLength
	case FinishBudget:
		return call.CutBudget
	case FinishUnknown:
		return call.CutUnknown
	}
	return ""
}

// ReadAnswer reads an answer to its end. If it fails, it returns only the usage and an error.
func ReadAnswer(events iter.Seq2[Event, error]) (Answer, error) {
	var a Answer
	var text strings.Builder
	for e, err := range events {
		if err != nil {
			return Answer{Usage: a.Usage}, err
		}
		switch e := e.(type) {
		case Text:
			if text.Len()+len(e) > MaxText {
				return Answer{Usage: a.Usage}, TooLargeError(text.Len() + len(e))
			}
			text.WriteString(string(e))
		case ToolCall:
			if len(e.Arguments) > MaxText {
				return Answer{Usage: a.Usage}, TooLargeError(len(e.Arguments))
			}
			a.Calls = append(a.Calls, e)
		case Usage:
			a.Usage = &e
		case FinishReason:
			if a.Text, a.Reason = text.String(), e; a.CutReason() != "" && a.Text == "" && len(a.Calls) == 0 {
				reason := "max_tokens, which includes thoughts, is too low"
				if a.Reason == FinishBudget {
					reason = "budget or daily_budget left too few tokens, which include thoughts"
				}
				return Answer{Usage: a.Usage}, problem.New(problem.SubstrateMisconfigured, "the model's answer was cut off before its first word: %s", reason)
			}
			if a.Text == "" && len(a.Calls) == 0 {
				return Answer{Usage: a.Usage}, problem.New(problem.SubstrateUnavailable, "the model returned neither a text nor a tool call")
			}
			return a, nil
		}
	}
	return Answer{Usage: a.Usage}, problem.New(problem.SubstrateUnavailable, "the agent's answer ended before it was complete")
}

func TooLargeError(n int) error {
	return &problem.Error{Kind: problem.SubstrateTooLarge, Field: "text of the agent's answer", Want: fmt.Sprintf("at most %d bytes", MaxText), Got: fmt.Sprint(n)}
}

func Behaviour(s Substrate, earlierTurns ...Turn) call.Behaviour {
	return BehaviourWithFiles(s, nil, earlierTurns...)
}

func BehaviourWithFiles(s Substrate, files []File, earlierTurns ...Turn) call.Behaviour {
	return func(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
		r := NewTextRequest(e.From, e.To, e.Payload.Text())
		r.Turns[0].Files = files
		r.Turns = append(slices.Clip(earlierTurns), r.Turns...)
		r.call, r.ContextID = &e, e.Payload.ContextID
		a, err := ReadAnswer(reportEvents(ctx, s.Infer(ctx, r)))
		if a.Usage != nil {
			call.RecordUsage(ctx, *a.Usage.toCallUsage())
		}
		if err != nil {
			return envelope.Message{}, err
		}
		if reason := a.CutReason(); reason != "" {
			call.RecordCutReason(ctx, reason)
		}
		return envelope.Message{Role: envelope.RoleAgent, Parts: []string{a.Text}}, nil
	}
}

func reportEvents(ctx context.Context, events iter.Seq2[Event, error]) iter.Seq2[Event, error] {
	if !call.HasSink(ctx) {
		return events
	}
	return func(yield func(Event, error) bool) {
		for e, err := range events {
			switch e := e.(type) {
			case Text:
				call.Report(ctx, call.ProvisionalEvent{Text: string(e)})
			case Thought:
				call.Report(ctx, call.ProvisionalEvent{Thought: string(e)})
			case ToolCall:
				call.Report(ctx, call.ProvisionalEvent{Tool: e.Name})
			case Usage:
				call.Report(ctx, call.ProvisionalEvent{Usage: e.toCallUsage()})
			case Question:
				call.Report(ctx, call.ProvisionalEvent{IsQuestion: true})
			case FinishReason:
				call.Report(ctx, call.ProvisionalEvent{IsLast: true})
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (u *Usage) toCallUsage() *call.Usage {
	return &call.Usage{
		InputTokens: clampCount(u.InputTokens), OutputTokens: clampCount(u.OutputTokens), CachedTokens: clampCount(u.CachedTokens), Turns: clampCount(u.Turns), ToolCalls: clampCount(u.ToolCalls),
		AgentVersion: clampCount(u.AgentVersion), UsedFallback: u.UsedFallback, UnreportedTurns: clampCount(u.UnreportedTurns), Cost: clampCount(u.Cost), PriceTableVersion: clampCount(u.PriceTableVersion),
	}
}

const maxCount = 1 << 40

func clampCount(n int) uint64 { return uint64(min(max(n, 0), maxCount)) }

// Spec identifies a substrate. Its string form is KIND or KIND:ARGUMENT.
type Spec struct{ Kind, Argument string }

func Parse(s string) (Spec, error) {
	const want = "KIND or KIND:ARGUMENT, such as echo or http:https://example.com/answer"
	if strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "https://") {
		return Spec{Kind: KindHTTP, Argument: s}, nil
	}
	kind, argument, _ := strings.Cut(s, ":")
	if kind == "" || strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return Spec{}, problem.Invalid("substrate", want, fmt.Sprintf("%.80q", s))
	}
	return Spec{Kind: kind, Argument: argument}, nil
}

func (s Spec) String() string {
	if s.Argument == "" {
		return s.Kind
	}
	return s.Kind + ":" + s.Argument
}

type Kinds map[string]func(argument string) (Substrate, error)

func (k Kinds) Open(s Spec) (Substrate, error) {
	open, ok := k[s.Kind]
	if !ok {
		names := []string{}
		for name := range k {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, problem.Invalid("substrate", "one of "+strings.Join(names, ", "), fmt.Sprintf("%.40q", s.Kind))
	}
	return open(s.Argument)
}
