// Package loop lets a model answer according to its agent's definition. It asks the model turn by
// turn. Between two turns, it runs the tools that the model has called.
//
// A tool runs only if the gate permits it, regardless of the form of the call. Only the model gets
// a tool's result or the reason for a refusal. A turn is repeated only if the caller has not
// received any part of it.
package loop

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptrace"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/definition"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/retry"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	atOnce    = 8               // maximum number of concurrent tool calls
	maxResult = 64 << 10        // bytes of a tool's result
	maxSpoken = 4 << 20         // bytes of the conversation between the model and its tools
	maxAfter  = 5 * time.Second // longest Retry-After for which the loop waits
	// overhead is an upper bound for the tokens that a provider adds to a request.
	overhead = 1024
	// imageTokens is an upper bound for the tokens of an image of any size. OpenAI's smallest models
	// count the most: 2,833 tokens for an image and 5,667 tokens for each of at most 8 tiles.
	imageTokens = 48 << 10
)

type Tool struct {
	substrate.Tool
	// Writes means that the tool changes data outside the conversation. Spends means that a call of
	// the tool may cost money.
	Writes, Spends bool
	// OnRefusal is called with the reason when the gate has refused a call of the tool. It may be
	// nil.
	OnRefusal func(ctx context.Context, arguments json.RawMessage, reason string)
	// Run runs the tool. The arguments are a JSON object. If Run returns an error, the model
	// gets the text of the error (problem.AsError).
	Run func(ctx context.Context, r *substrate.Request, arguments json.RawMessage) (string, error)
}

// maxName limits a tool's name in bytes.
const maxName = 64

func SanitizeName(name string) string {
	// Models accept only these characters.
	name = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxName)]
}

// suffixSize is the length of the suffix that distinguishes equal names, which is "_" and hex digits of
// a hash.
const suffixSize = 1 + 8

// MakeNamesUnique replaces the complete names of tools with the names that models see (SanitizeName). If
// several complete names give the same sanitized name, each tool gets a distinct suffix, except the tool
// whose complete name equals the sanitized name. Names do not depend on the order of the tools, so they
// are equal in all processes.
func MakeNamesUnique(tools []Tool) {
	originals := map[string]map[string]bool{} // complete names by sanitized name
	for _, t := range tools {
		name := SanitizeName(t.Name)
		if originals[name] == nil {
			originals[name] = map[string]bool{}
		}
		originals[name][t.Name] = true
	}
	for i := range tools {
		whole := tools[i].Name
		name := SanitizeName(whole)
		if len(originals[name]) > 1 && name != whole {
			sum := sha256.Sum256([]byte(whole))
			name = name[:min(len(name), maxName-suffixSize)] + "_" + hex.EncodeToString(sum[:])[:suffixSize-1]
		}
		tools[i].Name = name
	}
}

// Offer contains the tools that an agent may use in a call, and the tools that are left out.
type Offer struct {
	Tools   []Tool
	LeftOut call.OmittedTools
}

func (o *Offer) Join(other Offer) {
	o.Tools = append(o.Tools, other.Tools...)
	o.LeftOut.Join(other.LeftOut)
}

// AllowedFor returns the tools that an agent may use. It leaves out tools that the gate refuses, and
// all but the first of several tools with the same name.
func (o Offer) AllowedFor(a *definition.Agent) Offer {
	left := Offer{LeftOut: o.LeftOut}
	left.LeftOut.Tools = slices.Clone(o.LeftOut.Tools)
	for _, t := range o.Tools {
		if slices.ContainsFunc(left.Tools, func(other Tool) bool { return other.Name == t.Name }) {
			left.LeftOut.Add(call.OmittedTool{Name: SanitizeName(t.Name), Reason: "another tool has this name", Change: "a different name for one of the two tools"})
			continue
		}
		if no := refuse(a, t.Name, &t, anyFile(t.Name)); no != nil {
			left.LeftOut.Add(call.OmittedTool{Name: SanitizeName(t.Name), Reason: no.reason, Change: no.change})
			continue
		}
		left.Tools = append(left.Tools, t)
	}
	return left
}

// Servers opens sessions with the MCP servers of a vacant's agent for one call, and returns the tools of
// the servers. done closes the sessions.
type Servers func(ctx context.Context, vacant identity.ID, by outbound.URLChooser, servers []definition.Server) (offer Offer, done func(), err error)

// Config configures an agent. Fallback, Spending and Wait may be nil.
type Config struct {
	Agent definition.Agent
	Model substrate.Substrate
	// Fallback answers a turn if Model is overloaded or unavailable. If it is nil, Model is asked
	// once more.
	Fallback substrate.Substrate
	// NoRetry means that the substrate in Model is not a model but, for example, an HTTP agent. It is
	// asked only once per turn, because it may have side effects, and gets the caller's files unchanged.
	NoRetry bool
	Offer   Offer
	// Secret is sent to Model and Fallback, but not to tools.
	Secret substrate.Secret
	// Spending reserves and settles the cost of turns. If the models are free, it is nil.
	Spending *spend.Call
	Wait     func(ctx context.Context, d time.Duration) error
}

func New(c Config) substrate.Substrate {
	if c.Wait == nil {
		c.Wait = retry.Sleep
	}
	return &loop{c}
}

type loop struct{ Config }

// Infer answers r. The emitted text consists of the model's texts of all turns, and the usage is
// the sum of all turns. While the answer arrives, and at its end if it is incomplete, the usage
// includes an estimate of the tokens that no model has reported. The usage of a complete answer
// contains only reported tokens.
func (l *loop) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if limit := l.Agent.TimeLimit(); limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, limit, &call.TimeLimit{Time: limit, Name: "the timeout of its agent"})
			defer cancel()
		}
		l.instruct(&r)
		r.Turns = withClaims(r.Turns)
		if !l.NoRetry {
			r.Turns = withTexts(r.Turns)
		}
		offered := l.Offer.AllowedFor(&l.Agent)
		call.RecordOmittedTools(ctx, offered.LeftOut)
		for _, t := range offered.Tools {
			r.Tools = append(r.Tools, t.Tool)
		}
		if l.Agent.Ask {
			r.Tools = append(r.Tools, askTool)
		}
		inference := &run{loop: l, request: r, yield: yield}
		why, err := inference.answer(ctx)
		if passed := call.ExceededLimit(ctx, err); passed != nil {
			err = problem.Wrap(problem.Deadline, passed, "%s", passed.Error())
		}
		inference.endSpending(ctx)
		if (&substrate.Answer{Reason: why}).IncompleteReason() == "" {
			_ = inference.report(inference.used)
		} else {
			_ = inference.report(inference.usedSoFar())
		}
		switch {
		case inference.gone:
		case err != nil:
			yield(nil, err)
		default:
			yield(why, nil)
		}
	}
}

func (l *loop) instruct(r *substrate.Request) {
	r.System, r.MaxTokens, r.Effort = l.Agent.System, l.Agent.MaxTokens, l.Agent.Effort
	r.JSON, r.Omit = l.Agent.OutputFormat == definition.JSON, l.Agent.Omit
}

// RunTurn runs one turn for a loop in another process, with c.Model or, if fallback is true, with
// c.Fallback. It settles the cost of the turn before the last event. It neither repeats the turn nor
// checks the text, because the other process does both.
func RunTurn(ctx context.Context, c Config, r substrate.Request, fallback bool) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		l := &loop{c}
		l.instruct(&r)
		model := c.Model
		if fallback {
			model = c.Fallback
		}
		inference := &run{loop: l, request: r, yield: yield, unchecked: true}
		a, _, err := inference.ask(ctx, model, fallback)
		inference.endSpending(ctx)
		_ = inference.report(inference.used)
		switch {
		case inference.gone:
		case err != nil:
			yield(nil, err)
		default:
			yield(a.Reason, nil)
		}
	}
}

// run answers one request.
type run struct {
	*loop
	request substrate.Request
	yield   func(substrate.Event, error) bool
	gone    bool // whether the consumer has stopped reading
	spoken  int  // bytes that were added to the conversation
	said    bool // whether text was emitted
	apart   bool // whether a blank line must precede the next text, which belongs to another turn
	// unchecked means that a JSON text is emitted as it arrives and that usage is not estimated,
	// because another process checks the text and estimates the usage.
	unchecked bool
	used      substrate.Usage // usage that the models reported
	reported  substrate.Usage // last usage that was emitted
	// sent and received count the bytes that no usage report covers: the texts of requests in turns
	// without a report, and the model's output since the last report.
	sent, received int

	// The provider has counted the first countedSize bytes of the conversation as countedTokens tokens.
	countedTokens, countedSize int
}

// errGone ends a run whose consumer has stopped reading.
var errGone = errors.New("the client has stopped reading the answer")

func (r *run) emit(e substrate.Event) error {
	if !r.yield(e, nil) {
		r.gone = true
		return errGone
	}
	return nil
}

func (r *run) report(u substrate.Usage) error {
	if r.gone || u == r.reported {
		return nil
	}
	r.reported = u
	return r.emit(u)
}

func (r *run) usedSoFar() substrate.Usage {
	u := r.used
	if !r.unchecked && r.sent+r.received > 0 {
		u.In += int(call.EstimatedTokens(r.sent))
		u.Out += int(call.EstimatedTokens(r.received))
		u.Unreported = max(u.Unreported, 1)
	}
	return u
}

func (r *run) answer(ctx context.Context) (substrate.FinishReason, error) {
	repaired := false
	for turn := 1; ; turn++ {
		r.request.MustAnswer = turn == r.Agent.TurnLimit()
		a, err := r.turn(ctx)
		if err != nil {
			return "", err
		}
		calls := a.Reason == substrate.Called || a.Reason == substrate.Unknown && len(a.Calls) > 0
		switch {
		case calls && r.question(&a) != "":
			r.apart = r.said
			return substrate.Stop, errors.Join(r.emit(substrate.Question{}), r.text(substrate.Text(r.question(&a))))
		case calls && r.request.MustAnswer:
			return "", problem.New(problem.SubstrateMisconfigured, "the model called another tool after %d turns, but the agent's max_turns allows no more turns", turn)
		case calls:
			if err := r.use(ctx, &a); err != nil {
				return "", err
			}
		case !r.request.JSON:
			return a.Reason, nil
		default:
			document, ok := extractJSON(a.Text)
			if ok {
				return a.Reason, r.emit(substrate.Text(document))
			}
			if repaired || r.request.MustAnswer {
				err := &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model", Want: "a JSON document, because the agent's output_format is json", Got: "another text"}
				return "", substrate.AnswerError(http.StatusOK, nil, r.Secret.Hide([]byte(a.Text)), err)
			}
			repaired = true
			r.request.Turns = append(r.request.Turns, substrate.Turn{Role: substrate.Agent, Text: a.Text},
				substrate.Turn{Role: substrate.Caller, Text: "That was not a JSON document. Answer again with only the JSON document, without a code fence or any other text."})
			r.spoken += len(a.Text)
		}
	}
}

// askTool is the tool with which a model asks its caller a question.
var askTool = substrate.Tool{
	Name: "ask_user", Description: "Asks the user a question and waits for the answer. Use it only if you cannot go on without the answer.",
	Schema: json.RawMessage(`{"type":"object","properties":{"question":{"type":"string","description":"what to ask"}},"required":["question"],"additionalProperties":false}`),
}

func (r *run) question(a *substrate.Answer) string {
	for _, c := range a.Calls {
		var arguments struct{ Question string }
		if r.Agent.Ask && c.Name == askTool.Name && a.Reason == substrate.Called && json.Unmarshal([]byte(c.Arguments), &arguments) == nil {
			return arguments.Question
		}
	}
	return ""
}

// turn requests the next turn from the model. If the model reports before its first event that it
// is overloaded or unavailable, turn asks the fallback or, if there is none, the model once more,
// unless NoRetry is set. If the model's server cannot be reached, turn fails, because the adapter has
// already retried and the fallback is on the same server.
func (r *run) turn(ctx context.Context) (substrate.Answer, error) {
	a, seen, err := r.ask(ctx, r.Model, false)
	var agent *call.AgentError
	// These errors may be temporary, or another model may not have them.
	passes := problem.Is(err, problem.SubstrateBusy) || problem.Is(err, problem.SubstrateUnavailable)
	if err == nil || seen || r.gone || r.NoRetry || !passes || !errors.As(err, &agent) || ctx.Err() != nil {
		return a, err
	}
	if r.Fallback != nil {
		a, _, err = r.ask(ctx, r.Fallback, true)
		return a, err
	}
	if agent.After > maxAfter || agent.After > 0 && r.Wait(ctx, agent.After) != nil {
		return a, err
	}
	a, _, err = r.ask(ctx, r.Model, false)
	return a, err
}

// ask sends one turn to a model. seen reports whether a part of the answer has arrived.
func (r *run) ask(ctx context.Context, model substrate.Substrate, fallback bool) (a substrate.Answer, seen bool, err error) {
	request := r.request
	request.Secret = r.Secret
	size, err := r.reserve(ctx, &request, fallback)
	if err != nil {
		return a, false, err
	}
	r.used.Turns++
	r.used.Fallback = fallback
	before, sentBefore, receivedBefore := r.used, r.sent, r.received
	r.used.Unreported++
	r.sent += textSize(&request)
	if err := r.report(r.usedSoFar()); err != nil {
		return a, false, err
	}
	var sent atomic.Bool // whether the header of an HTTP request was written
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	var usage *substrate.Usage
	ended := false
	defer func() {
		failed := err
		if ended { // the usage is complete, even if the answer is invalid
			failed = nil
		}
		r.settle(usage, size, sent.Load() || seen, failed)
		if failed != nil && !seen { // the turn is repeated, or the call fails
			r.used.Unreported, r.sent, r.received = before.Unreported, sentBefore, receivedBefore
		}
	}()
	a, err = substrate.ReadAnswer(func(fold func(substrate.Event, error) bool) {
		for e, err := range model.Infer(ctx, request) {
			if err != nil {
				fold(nil, err)
				return
			}
			// The model may run in another process (RunTurn). That process reports the cost of the
			// turn before the model answers, with Unreported set, and reports zero tokens if the
			// model does not answer. Such a usage does not start the answer.
			u, isUsage := e.(substrate.Usage)
			seen = seen || !isUsage || u.Unreported == 0 && u.In+u.Out > 0
			if e == substrate.Event(substrate.Length) && r.used.MaxTokens > 0 {
				e = substrate.Budget
			}
			switch e := e.(type) {
			case substrate.Thought:
				r.received += len(e)
				err = r.emit(e)
			case substrate.Usage:
				usage = &e
				if r.count(ctx, before, &e); e.Unreported == 0 {
					r.sent, r.received = sentBefore, receivedBefore
				}
				err = r.report(r.usedSoFar())
			case substrate.Question:
				err = r.emit(e)
			case substrate.ToolCall:
				// Adapters emit tool calls last, so a usage that was reported earlier includes
				// them.
				if usage == nil || usage.Unreported > 0 {
					r.received += len(e.Name) + len(e.Arguments)
				}
				r.used.Tools++
				before.Tools++
				err = r.emit(e)
			case substrate.Text:
				// A JSON text is emitted only after it has been checked.
				if r.request.JSON && !r.unchecked {
					r.received += len(e)
				} else {
					err = r.text(e)
				}
			case substrate.FinishReason:
				ended = true
			}
			if err != nil {
				fold(nil, err)
				return
			}
			if !fold(e, nil) {
				return
			}
		}
	})
	return a, seen, err
}

func (r *run) count(ctx context.Context, before substrate.Usage, e *substrate.Usage) {
	r.used = before
	r.used.In, r.used.Out, r.used.Cached = before.In+max(e.In, 0), before.Out+max(e.Out, 0), before.Cached+max(e.Cached, 0)
	r.used.Unreported = before.Unreported + max(e.Unreported, 0)
	if r.Spending == nil {
		r.used.Cost = before.Cost + max(e.Cost, 0)
		r.used.Prices = max(before.Prices, e.Prices)
		if r.used.MaxTokens = 0; e.MaxTokens > 0 {
			r.limit(ctx, e.MaxTokens)
		}
	}
}

func (r *run) text(piece substrate.Text) error {
	if r.apart {
		piece = "\n\n" + piece
	}
	r.said, r.apart = true, false
	r.received += len(piece)
	return r.emit(piece)
}

func (r *run) use(ctx context.Context, a *substrate.Answer) error {
	if err := r.report(r.usedSoFar()); err != nil {
		return err
	}
	results := make([]substrate.ToolResult, len(a.Calls))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, c := range a.Calls {
		g.Go(func() error {
			text, err := r.runTool(ctx, &c, a.Reason == substrate.Called)
			if err != nil {
				text = problem.AsError(err).Text()
			}
			results[i] = substrate.ToolResult{ID: c.ID, Text: cut(text), Failed: err != nil}
			return nil
		})
	}
	_ = g.Wait()
	if ctx.Err() != nil {
		return substrate.EndedError(ctx, "the agent's tools")
	}
	r.spoken += len(a.Text)
	for i := range results {
		r.spoken += len(a.Calls[i].Arguments) + len(results[i].Text)
	}
	if r.spoken > maxSpoken {
		return &problem.Error{Kind: problem.SubstrateTooLarge, Field: "conversation of the model with its tools", Want: fmt.Sprintf("at most %d bytes", maxSpoken), Got: fmt.Sprint(r.spoken)}
	}
	r.apart = r.said
	r.request.Turns = append(r.request.Turns, substrate.Turn{Role: substrate.Agent, Text: a.Text, Calls: a.Calls}, substrate.Turn{Role: substrate.Tools, Results: results})
	return nil
}

func (r *run) runTool(ctx context.Context, c *substrate.ToolCall, isComplete bool) (text string, err error) {
	i, name := slices.IndexFunc(r.Offer.Tools, func(t Tool) bool { return t.Name == c.Name }), SanitizeName(c.Name)
	if i < 0 {
		name = r.redact(name, maxName) // a model may put anything into the name of a tool that does not exist
	}
	end, refused := call.BeginTool(ctx, name, r.logText(c.Arguments)), false
	step := call.ToolStep{ID: c.ID, Name: name, Arguments: r.redact(c.Arguments, call.MaxToolArguments)}
	call.Report(ctx, call.Provisional{Detail: step})
	defer func() {
		outcome, result := call.ToolOK, text
		if err != nil {
			outcome, result = call.ToolError, problem.AsError(err).Text()
		}
		switch {
		case refused:
			outcome = call.ToolRefused
		case err != nil && (problem.Is(err, problem.Deadline) || errors.Is(ctx.Err(), context.DeadlineExceeded)):
			outcome = call.ToolTimedOut
		}
		end(outcome, r.logText(result))
		step.Arguments, step.Outcome = "", outcome
		call.Report(ctx, call.Provisional{Detail: step})
	}()
	defer func() {
		if p := recover(); p != nil { // the call fails, but the process continues
			err = problem.Wrap(problem.Internal, fmt.Errorf("%v\n%s", p, debug.Stack()), "the tool failed")
		}
	}()
	var tool *Tool
	if i >= 0 {
		tool = &r.Offer.Tools[i]
	}
	arguments := json.RawMessage(cmp.Or(strings.TrimSpace(c.Arguments), "{}"))
	var object map[string]json.RawMessage
	bad := json.Unmarshal(arguments, &object) != nil || object == nil
	if no := refuse(&r.Agent, c.Name, tool, object); no != nil {
		refused = true
		if tool != nil && tool.OnRefusal != nil {
			tool.OnRefusal(ctx, arguments, no.text)
		}
		return "", problem.New(problem.Forbidden, "%s", no.text)
	}
	switch {
	// The model did not end for a known reason, so the call may be incomplete and must not have
	// side effects.
	case !isComplete && tool != nil && (tool.Writes || tool.Spends):
		refused = true
		return "", problem.New(problem.Forbidden, "tool %.80q did not run: your answer ended for an unknown reason, so the call may be incomplete; call the tool again", c.Name)
	case tool == nil:
		return "", problem.New(problem.NotFound, "there is no tool %.80q", c.Name)
	case bad:
		return "", problem.Invalid("arguments", "a JSON object", fmt.Sprintf("%.80q", c.Arguments))
	}
	return tool.Run(ctx, &r.request, arguments)
}

func (r *run) logText(text string) string {
	// The log stores texts without anything that looks like a secret.
	if r.Agent.ToolLog != definition.ToolTexts {
		return ""
	}
	// The log gets one byte more than it stores, so that it recognizes a longer text as truncated.
	return r.redact(text, call.MaxToolTexts+1)
}

func (r *run) redact(text string, limit int) string {
	return substrate.Redact(string(r.Secret.Hide([]byte(text))), limit)
}

func cut(text string) string {
	if len(text) <= maxResult {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	const note = "\n[cut: it is longer than 64 KiB]"
	return strings.ToValidUTF8(text[:maxResult-len(note)], "") + note
}
