// Package substrate defines the interface to the service that answers for a vacant, for example an
// echo, an HTTP endpoint or a model. Each adapter is a package below this one and passes the
// contract in package substratetest.
//
// A substrate gets the conversation and the ids of the caller and the vacant, but never an
// envelope, a signature or a key. Therefore it cannot act as the vacant.
//
// # Reading answers
//
// All adapters parse the answers of agents and providers by the same rules. Parts that determine an
// answer are parsed strictly. An error in another part never discards the answer. Incomplete parts
// are ignored.
//
//   - Texts, tool calls, refusals and errors determine an answer. If one of them does not have its
//     documented form, the answer fails. An answer with neither a text nor a tool call also fails
//     ([ReadAnswer]).
//   - Usage, thoughts, ids, indices, transport keep-alives and unknown events do not determine an
//     answer. If one of them does not have its documented form, it is treated as absent. Providers
//     may add finish reasons. After an unknown reason, the received text is the answer, and callers
//     learn that it may be incomplete. Data after the end never discards the answer.
//   - Parts of an answer that are not for the host are skipped completely, for example calls of
//     tools that the provider itself runs.
//   - A stream without a finish reason is not an answer. If a server never sends a reason, its end
//     mark is required instead. Errors are recognized in the form of every provider (package
//     remote). Tool calls are used only if the answer has a finish reason other than the length
//     limit, because otherwise a call may be incomplete. After an unknown reason, tools that may
//     change something or cost money are not run.
//
// The adapters for models pass the tests of substratetest.Wire.TestOddities, which cover all rules.
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

// MaxText limits an answer's text in bytes, so that the text fits into one row of every store
// (shared/README §3).
const MaxText = 300 << 10

// Request is a request for the next turn of a conversation.
type Request struct {
	Caller    identity.ID
	Vacant    identity.ID         // vacant that is asked
	Chooser   outbound.URLChooser // party that chose the URLs of the substrate and the agent's servers
	ContextID *string             // id of the conversation, or nil if the caller named none
	// Turns contains the oldest turn first. The last turn is a nonempty text of the caller or
	// contains the results of tools.
	Turns []Turn

	// The following fields are the owner's settings for a model. Other substrates ignore them.
	System     string // instructions before the conversation, may be empty
	Tools      []Tool // tools that the model may use
	MustAnswer bool   // whether the model must answer and may no longer use tools
	MaxTokens  int    // limit for the answer, or zero for the server's limit
	Effort     Effort // limit for thinking, or "" for the model's default
	JSON       bool   // whether the answer must be a JSON document
	// Omit lists the optional members that are omitted from the request to the model.
	Omit []string

	Secret Secret // authenticates the host at the agent's server

	call     *envelope.Envelope // nil if the host itself asks, not readable by adapters
	callHash identity.Hash      // hash of the call if another process has its envelope
}

// ID returns the hash of the call's envelope, or zero if the host itself asks. The hash is computed
// on demand, because most substrates do not need it.
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

// Turn is one turn of a conversation.
type Turn struct {
	Role Role
	Text string
	// ClaimedRole is set if the host has no record of the turn. It is the role that the caller
	// claims for the speaker, for example assistant or system. The turn's Role is then RoleCaller,
	// because the caller wrote the text.
	ClaimedRole string
	Files       []File       // files of a Caller turn, all named in its text
	Calls       []ToolCall   // tool calls of an Agent turn, which follow its text
	Results     []ToolResult // results in a Tools turn, in the order of the previous turn's calls
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
	Schema      json.RawMessage // JSON Schema of the arguments, an object
}

// ToolResult is the result of the tool call with the same ID.
type ToolResult struct {
	ID, Text string
	Failed   bool
}

// Effort limits how long a model thinks before it answers.
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

// Event is a part of an answer: Text, Thought, ToolCall, Usage, Question or FinishReason.
type Event interface{ event() }

type (
	// Text is the next piece of the answer. Each piece is valid UTF-8.
	Text string
	// Thought is a piece of the model's thoughts, which are not part of the answer.
	Thought string
	// ToolCall is the model's request to use a tool.
	ToolCall struct {
		ID, Name  string
		Arguments string // arguments as the model wrote them, possibly invalid JSON
		Opaque    string // data that the server expects back with the call, may be empty
	}
	// Usage counts the work for the answer so far. A later Usage replaces an earlier one.
	Usage struct {
		// Numbers of tokens. InputTokens includes CachedTokens.
		InputTokens, OutputTokens, CachedTokens int

		// The following fields are for agents, which may use several turns of a model.
		Turns, ToolCalls int  // number of requests to models, and of tool calls
		UsedFallback     bool // whether the fallback model was used last
		UnreportedTurns  int  // number of turns for which the model's server reported no usage
		AgentVersion     int  // version of the agent
		Cost             int  // micro-dollars, where a turn with unknown usage costs the reserved amount
		// PriceTableVersion is the version of the table of models, or zero if the call is free or
		// the agent states its price.
		PriceTableVersion int
		// MaxTokens is the limit for the last turn if budgets set it below max_tokens, or zero.
		MaxTokens int
	}
	// Question means that the following text is a question to the caller. The agent waits for the
	// caller's answer.
	Question struct{}
	// FinishReason is the last event of an answer. Its value is the reason for the end.
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
	FinishLength FinishReason = "length" // the token limit is reached
	// FinishBudget is like FinishLength, but a budget set the limit below the agent's max_tokens.
	FinishBudget  FinishReason = "budget"
	FinishToolUse FinishReason = "called" // the model waits for the results of its tool calls
	// FinishUnknown means that the model's server gave a reason that this host does not know. The
	// text or the tool calls may be incomplete.
	FinishUnknown FinishReason = "unknown"
)

// Substrate answers requests. It must be safe for concurrent use and must stop when its context
// ends. The context's deadline leaves the host enough time to sign and store the answer.
//
// The events of Infer end with a FinishReason, or with an error and a nil event. An error of kind
// DeadlineExceeded means that the time ran out. An error whose kind starts with Substrate shows the
// operator why the substrate failed. The consumer may stop early.
type Substrate interface {
	Infer(ctx context.Context, r Request) iter.Seq2[Event, error]
}

// Func is a Substrate whose answers consist of one piece.
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

// Answer is a complete answer (see ReadAnswer).
type Answer struct {
	Text   string
	Calls  []ToolCall
	Usage  *Usage // nil if no usage was reported
	Reason FinishReason
}

// CutReason returns the reason why the answer is incomplete, or "" if it is complete.
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

// ReadAnswer reads an answer to its end. If it fails, it returns only the usage and an error. An
// error among the events is returned unchanged. If the text or a tool call's arguments have more
// than MaxText bytes, the kind is SubstrateTooLarge. If the answer was truncated before its first
// word, it is SubstrateMisconfigured. If the events end without a FinishReason or the answer is
// empty, it is SubstrateUnavailable, which makes the call free.
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

// Behaviour returns the behaviour of a vacant that answers with s. The turns in earlierTurns
// precede the caller's message. The answer has one part and the role ROLE_AGENT. The behaviour
// records the usage and the reason why an answer is incomplete.
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

// maxCount limits a number that a model's server reports, because the number may be absurd.
const maxCount = 1 << 40

func clampCount(n int) uint64 { return uint64(min(max(n, 0), maxCount)) }

// Spec identifies a substrate by its kind and argument. Its string form, which a vacant's record
// contains, is KIND or KIND:ARGUMENT.
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

// Kinds maps the kinds of substrates that a host offers to their constructors.
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
