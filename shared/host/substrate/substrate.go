// Package substrate is the port to the service that answers for a vacant: an echo, an HTTP
// endpoint, a model. Each adapter is a package below this one and passes the contract in package
// substratetest.
//
// The invariant: a substrate sees the conversation and both ids, never an
// envelope, a signature or a key, so it cannot act as the vacant.
//
// # Reading answers
//
// Every adapter reads its agent's or provider's answers by one rule. Parts that decide an answer
// are read strictly. A fault in any other part never costs the answer. A part that was cut off
// does not count.
//
//   - Texts, calls of tools, refusals and errors decide. If their form is not the documented one, the answer fails. An answer with neither a text nor a call fails, too ([Fold]).
//   - Usage, thoughts, ids, indices, noise of the transport and unknown events do not decide. If their form is not the documented one, they count as absent. Providers may add words: after an unknown reason
//     to end, the text that came is the answer, and callers learn that it may be incomplete. Nothing that follows the end costs the answer.
//   - Parts of an answer that are not for the host, such as calls of tools that the provider itself runs, are skipped with all their pieces.
//   - A stream without a known good end is not an answer: a reason to end, or, of a server that never sends a reason, its mark. An error is one in any provider's form (package remote). A call of a tool counts only in an answer that says why it ends, other than by its length: otherwise the call may be cut off. After an unknown reason a tool that may change something or cost money does not run.
//
// Models pass substratetest.Wire.Oddities, which has an example of each.
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

// MaxText bounds an answer's text in bytes, so that it fits into one row of
// every store (shared/README §3).
const MaxText = 300 << 10

// Request asks for the next turn of a conversation.
type Request struct {
	Caller    identity.ID
	Vacant    identity.ID      // the vacant that is asked
	By        outbound.Chooser // who chose the URLs of the substrate and of the agent's servers
	ContextID *string          // the caller's thread; nil if it named none
	Turns     []Turn           // oldest first; the last is the caller's, and not empty, or results of its tools

	// The owner's settings for a model. Other substrates ignore them.
	System    string // what the model is told before the conversation; "" for nothing
	Tools     []Tool // what it may use
	Final     bool   // it may use nothing any more, and is to answer
	MaxTokens int    // bound for the answer; zero means the server's bound
	Effort    Effort // bound for thinking; "" means the model's default
	JSON      bool   // its answer is to be a JSON document
	// Omit has the optional members that the request to the model leaves out.
	Omit []string

	Secret Secret // what the agent's server knows its client by

	call *envelope.Envelope // nil if the host itself asks; no adapter sees it
	id   identity.Hash      // of a call in another process
}

// ID is the hash of the call; zero if the host itself asks. It is computed on
// demand, because most substrates do not need it.
func (r *Request) ID() identity.Hash {
	if r.call == nil {
		return r.id
	}
	return r.call.Hash()
}

// WithID returns r for a call in another process, whose hash is id.
func (r Request) WithID(id identity.Hash) Request {
	r.call, r.id = nil, id
	return r
}

// Turn is an utterance of one side.
type Turn struct {
	Role Role
	Text string
	// Claimed is the role that the caller gives the speaker of a turn which the host has no record of,
	// such as assistant or system; "" for every other turn. Role is Caller then, because the words are
	// the caller's, whatever it says.
	Claimed string
	Files   []File       // of a Caller, beside its text, which names each
	Calls   []ToolCall   // of an Agent, after its text
	Results []ToolResult // of Tools: one for each call of the turn before, in its order
}

// Role is a side of a conversation.
type Role string

// The sides.
const (
	Caller Role = "caller"
	Agent  Role = "agent"
	Tools  Role = "tools"
)

// Tool describes a tool to a model.
type Tool struct {
	Name        string // of a-z A-Z 0-9 _ -, at most 64
	Description string
	Schema      json.RawMessage // of its arguments, a JSON Schema of an object
}

// ToolResult is a tool's result for the call with the same ID.
type ToolResult struct {
	ID, Text string
	Failed   bool
}

// Effort bounds a model's thinking before it answers.
type Effort string

// The efforts.
const (
	Low    Effort = "low"
	Medium Effort = "medium"
	High   Effort = "high"
)

// Efforts returns all efforts, least first.
func Efforts() []Effort { return []Effort{Low, Medium, High} }

// Ask is the Request of a caller's first words.
func Ask(caller, vacant identity.ID, text string) Request {
	return Request{Caller: caller, Vacant: vacant, Turns: []Turn{{Role: Caller, Text: text}}}
}

// Text returns the text to answer, which is the text of the last turn.
func (r *Request) Text() string { return r.Turns[len(r.Turns)-1].Text }

// Event is a part of an answer: Text, Thought, ToolCall, Usage, Asks or Done.
type Event interface{ event() }

type (
	// Text is the next piece of the answer, UTF-8 by itself.
	Text string
	// Thought is a piece of the model's thoughts before it answered. It is not
	// part of the answer.
	Thought string
	// ToolCall is the model's wish to use a tool.
	ToolCall struct {
		ID, Name  string
		Arguments string // as the model wrote them: they may not even be JSON
		Opaque    string // what its server wants to see again beside the call; "" for nothing
	}
	// Usage counts the work for the answer so far; a later Usage replaces an
	// earlier one.
	Usage struct {
		In, Out, Cached int // tokens; Cached is a part of In

		// Of an agent, beyond one turn of its model:
		Turns, Tools int  // requests to models, calls of tools
		Fallback     bool // its fallback model was asked last
		Unreported   int  // turns of which the model's server said nothing
		Agent        int  // version of the agent
		Cost         int  // micro-dollars; a turn of unknown usage costs its reservation
		Prices       int  // version of the table of models; zero if the call is free or the agent states its price
		MaxTokens    int  // the limit that budgets set below max_tokens for the last turn; zero if they set no limit
	}
	// Asks says that the text that follows is a question to the caller, whose answer the agent waits for.
	Asks struct{}
	// Done is the last event of an answer, and why it ends.
	Done string
)

func (Text) event()     {}
func (Thought) event()  {}
func (ToolCall) event() {}
func (Usage) event()    {}
func (Asks) event()     {}
func (Done) event()     {}

// Why an answer ends.
const (
	Stop   Done = "stop"
	Length Done = "length" // the model may say no more
	Budget Done = "budget" // as Length, because a budget left less than the agent's max_tokens
	Called Done = "called" // it waits for the results of its calls
	// Unknown means that the model's server gave a reason that this host does not know: what came,
	// a text or calls of tools, may be incomplete.
	Unknown Done = "unknown"
)

// Substrate answers. It is safe for concurrent use and honours its context,
// whose deadline leaves the host the time to sign and keep the answer.
//
// The events of Infer end with Done, or with an error, beside which the event is
// nil. An error of kind Deadline means that time ran out; the kinds Substrate…
// say why the substrate failed, for its operator. The consumer may stop early.
type Substrate interface {
	Infer(ctx context.Context, r Request) iter.Seq2[Event, error]
}

// Func is a Substrate whose answers come in one piece.
type Func func(ctx context.Context, r Request) (string, error)

// Infer calls f when its events are read.
func (f Func) Infer(ctx context.Context, r Request) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		text, err := f(ctx, r)
		if err != nil {
			yield(nil, err)
			return
		}
		if text == "" || yield(Text(text), nil) {
			yield(Stop, nil)
		}
	}
}

// Answer is the events of an answer together.
type Answer struct {
	Text  string
	Calls []ToolCall
	Usage *Usage // nil if none was reported
	Why   Done
}

// Cut returns the reason that the answer ends early, "" for a whole answer.
func (a *Answer) Cut() call.Cut {
	switch a.Why {
	case Length:
		return call.CutLength
	case Budget:
		return call.CutBudget
	case Unknown:
		return call.CutUnknown
	}
	return ""
}

// Fold reads an answer to its end. With an error it returns only the usage. More than MaxText bytes of text are an
// error of kind SubstrateTooLarge. Events that end without Done are an error of kind SubstrateUnavailable. An answer
// that was cut off before its first word is an error of kind SubstrateMisconfigured. Another answer without a text and
// without a call of a tool is an error of kind SubstrateUnavailable, so that it is free of charge.
func Fold(events iter.Seq2[Event, error]) (Answer, error) {
	var a Answer
	var text strings.Builder
	for e, err := range events {
		if err != nil {
			return Answer{Usage: a.Usage}, err
		}
		switch e := e.(type) {
		case Text:
			if text.Len()+len(e) > MaxText {
				return Answer{Usage: a.Usage}, TooLarge(text.Len() + len(e))
			}
			text.WriteString(string(e))
		case ToolCall:
			if len(e.Arguments) > MaxText {
				return Answer{Usage: a.Usage}, TooLarge(len(e.Arguments))
			}
			a.Calls = append(a.Calls, e)
		case Usage:
			a.Usage = &e
		case Done:
			if a.Text, a.Why = text.String(), e; a.Cut() != "" && a.Text == "" && len(a.Calls) == 0 {
				why := "it may say too little, its thoughts included (max_tokens)"
				if a.Why == Budget {
					why = "its budget left too few tokens, its thoughts included (budget, daily_budget)"
				}
				return Answer{Usage: a.Usage}, problem.New(problem.SubstrateMisconfigured, "the model's answer was cut off before its first word: %s", why)
			}
			if a.Text == "" && len(a.Calls) == 0 {
				return Answer{Usage: a.Usage}, problem.New(problem.SubstrateUnavailable, "the model returned nothing: no text and no call of a tool")
			}
			return a, nil
		}
	}
	return Answer{Usage: a.Usage}, problem.New(problem.SubstrateUnavailable, "the agent's answer ends in the middle")
}

// TooLarge is the error of a text of at least n bytes, more than MaxText.
func TooLarge(n int) error {
	return &problem.Error{Kind: problem.SubstrateTooLarge, Field: "text of the agent's answer", Want: fmt.Sprintf("at most %d bytes", MaxText), Got: fmt.Sprint(n)}
}

// Behaviour makes s the behaviour of a vacant: one part, ROLE_AGENT. It is told what
// was said before. What it used is noted, and that its answer was cut off.
func Behaviour(s Substrate, before ...Turn) call.Behaviour { return BehaviourWith(s, nil, before...) }

// BehaviourWith is Behaviour for a message with files.
func BehaviourWith(s Substrate, files []File, before ...Turn) call.Behaviour {
	return func(ctx context.Context, _ *call.Host, e envelope.Envelope) (envelope.Message, error) {
		r := Ask(e.From, e.To, e.Payload.Text())
		r.Turns[0].Files = files
		r.Turns = append(slices.Clip(before), r.Turns...)
		r.call, r.ContextID = &e, e.Payload.ContextID
		a, err := Fold(reported(ctx, s.Infer(ctx, r)))
		if a.Usage != nil {
			call.Note(ctx, *a.Usage.counts())
		}
		if err != nil {
			return envelope.Message{}, err
		}
		if why := a.Cut(); why != "" {
			call.NoteCut(ctx, why)
		}
		return envelope.Message{Role: envelope.RoleAgent, Parts: []string{a.Text}}, nil
	}
}

// reported reports events to the call's Sink, if there is one.
func reported(ctx context.Context, events iter.Seq2[Event, error]) iter.Seq2[Event, error] {
	if !call.HasSink(ctx) {
		return events
	}
	return func(yield func(Event, error) bool) {
		for e, err := range events {
			switch e := e.(type) {
			case Text:
				call.Report(ctx, call.Provisional{Text: string(e)})
			case Thought:
				call.Report(ctx, call.Provisional{Thought: string(e)})
			case ToolCall:
				call.Report(ctx, call.Provisional{Tool: e.Name})
			case Usage:
				call.Report(ctx, call.Provisional{Usage: e.counts()})
			case Asks:
				call.Report(ctx, call.Provisional{Asks: true})
			case Done:
				call.Report(ctx, call.Provisional{Last: true})
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// counts converts u to the form of rows.
func (u *Usage) counts() *call.Usage {
	return &call.Usage{
		In: count(u.In), Out: count(u.Out), Cached: count(u.Cached), Turns: count(u.Turns), Tools: count(u.Tools),
		Agent: count(u.Agent), Fallback: u.Fallback, Unreported: count(u.Unreported), Cost: count(u.Cost), Prices: count(u.Prices),
	}
}

// maxCount bounds a number that a model's server reports.
const maxCount = 1 << 40

// count is a number that a model's server reported, which may be absurd.
func count(n int) uint64 { return uint64(min(max(n, 0), maxCount)) }

// Spec names a substrate by kind and argument. Its text form, stored in a
// vacant's record, is KIND or KIND:ARGUMENT.
type Spec struct{ Kind, Argument string }

// Parse parses a Spec: echo, http:https://example.com/answer, or as a shorthand
// https://example.com/answer.
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

// String is the text form.
func (s Spec) String() string {
	if s.Argument == "" {
		return s.Kind
	}
	return s.Kind + ":" + s.Argument
}

// Kinds maps the substrate kinds that a host offers to their constructors.
type Kinds map[string]func(argument string) (Substrate, error)

// Open makes the substrate of s; a problem of kind Malformed says what is wrong
// with it.
func (k Kinds) Open(s Spec) (Substrate, error) {
	make, ok := k[s.Kind]
	if !ok {
		names := []string{}
		for name := range k {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, problem.Invalid("substrate", "one of "+strings.Join(names, ", "), fmt.Sprintf("%.40q", s.Kind))
	}
	return make(s.Argument)
}
