// Package loop lets a model answer according to its agent's definition. It asks the model turn by
// turn. Between two turns, it runs the tools that the model has called and that findRefusal
// permits. A turn is not repeated after the caller has received a part of it.
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
	maxConcurrentTools = 8
	maxResultBytes     = 64 << 10 // bytes
	maxAddedBytes      = 4 << 20  // bytes
	maxRetryAfter      = 5 * time.Second
	// tokenOverhead is an upper bound for the tokens that a provider adds to a request.
	tokenOverhead = 1024
	// imageTokens is an upper bound for an image. OpenAI's smallest models count the most: 2,833
	// tokens for an image and 5,667 tokens for each of at most 8 tiles.
	imageTokens = 48 << 10
)

type Tool struct {
	substrate.Tool
	// Writes means that the tool changes data. Spends means that a call may cost money.
	Writes, Spends bool
	// OnRefusal may be nil.
	OnRefusal func(ctx context.Context, arguments json.RawMessage, reason string)
	// Run gets a JSON object. If Run fails, the model gets the text of the error.
	Run func(ctx context.Context, r *substrate.Request, arguments json.RawMessage) (string, error)
}

const maxNameLength = 64

func SanitizeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), maxNameLength)]
}

const suffixSize = 1 + 8

// MakeNamesUnique replaces the names of tools with the names that models see. The result does not
// depend on the order of the tools, so it is equal in all processes.
func MakeNamesUnique(tools []Tool) {
	fullNames := map[string]map[string]bool{} // keyed by sanitized name
	for _, t := range tools {
		name := SanitizeName(t.Name)
		if fullNames[name] == nil {
			fullNames[name] = map[string]bool{}
		}
		fullNames[name][t.Name] = true
	}
	for i := range tools {
		fullName := tools[i].Name
		name := SanitizeName(fullName)
		if len(fullNames[name]) > 1 && name != fullName {
			sum := sha256.Sum256([]byte(fullName))
			name = name[:min(len(name), maxNameLength-suffixSize)] + "_" + hex.EncodeToString(sum[:])[:suffixSize-1]
		}
		tools[i].Name = name
	}
}

type Offer struct {
	Tools        []Tool
	OmittedTools call.OmittedTools
}

func (o *Offer) AddAll(other Offer) {
	o.Tools = append(o.Tools, other.Tools...)
	o.OmittedTools.AddAll(other.OmittedTools)
}

func (o Offer) AllowedFor(a *definition.Agent) Offer {
	allowed := Offer{OmittedTools: o.OmittedTools}
	allowed.OmittedTools.Tools = slices.Clone(o.OmittedTools.Tools)
	for _, t := range o.Tools {
		if slices.ContainsFunc(allowed.Tools, func(other Tool) bool { return other.Name == t.Name }) {
			allowed.OmittedTools.Add(call.OmittedTool{Name: SanitizeName(t.Name), Reason: "another tool has this name", Remedy: "a different name for one of the two tools"})
			continue
		}
		if toolRefusal := findRefusal(a, t.Name, &t, vaultArguments(t.Name)); toolRefusal != nil {
			allowed.OmittedTools.Add(call.OmittedTool{Name: SanitizeName(t.Name), Reason: toolRefusal.ownerReason, Remedy: toolRefusal.remedy})
			continue
		}
		allowed.Tools = append(allowed.Tools, t)
	}
	return allowed
}

// Servers opens sessions with the MCP servers of a vacant's agent. done closes the sessions.
type Servers func(ctx context.Context, vacant identity.ID, by outbound.URLChooser, servers []definition.Server) (offer Offer, done func(), err error)

type Config struct {
	Agent definition.Agent
	Model substrate.Substrate
	// Fallback answers a turn if Model is overloaded or unavailable. If it is nil, Model is asked
	// once more.
	Fallback substrate.Substrate
	// NoRetry is set for an agent that is not a model. A failed turn is then not repeated, because
	// the agent may have had side effects, and the caller's text files are not inlined.
	NoRetry bool
	Offer   Offer
	// Secret is sent to Model and Fallback, but not to tools.
	Secret   substrate.Secret
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

// Infer implements substrate.Substrate. The usage of an incomplete answer includes an estimate of
// the tokens that no model has reported.
func (l *loop) Infer(ctx context.Context, r substrate.Request) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		if limit := l.Agent.TimeLimit(); limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, limit, &call.TimeLimit{Duration: limit, Name: "the timeout of its agent"})
			defer cancel()
		}
		l.applySettings(&r)
		r.Turns = mergeClaimedTurns(r.Turns)
		if !l.NoRetry {
			r.Turns = inlineTextFiles(r.Turns)
		}
		offer := l.Offer.AllowedFor(&l.Agent)
		call.RecordOmittedTools(ctx, offer.OmittedTools)
		for _, t := range offer.Tools {
			r.Tools = append(r.Tools, t.Tool)
		}
		if l.Agent.Ask {
			r.Tools = append(r.Tools, askTool)
		}
		inference := &run{loop: l, request: r, yield: yield}
		reason, err := inference.answer(ctx)
		if exceeded := call.ExceededLimit(ctx, err); exceeded != nil {
			err = problem.Wrap(problem.DeadlineExceeded, exceeded, "%s", exceeded.Error())
		}
		inference.endSpending(ctx)
		if (&substrate.Answer{Reason: reason}).CutReason() == "" {
			_ = inference.reportUsage(inference.usage)
		} else {
			_ = inference.reportUsage(inference.estimateUsage())
		}
		switch {
		case inference.consumerStopped:
		case err != nil:
			yield(nil, err)
		default:
			yield(reason, nil)
		}
	}
}

func (l *loop) applySettings(r *substrate.Request) {
	r.System, r.MaxTokens, r.Effort = l.Agent.System, l.Agent.MaxTokens, l.Agent.Effort
	r.JSON, r.Omit = l.Agent.OutputFormat == definition.JSON, l.Agent.Omit
}

// RunTurn runs one turn for a loop in another process. The other process retries failed turns.
func RunTurn(ctx context.Context, c Config, r substrate.Request, fallback bool) iter.Seq2[substrate.Event, error] {
	return func(yield func(substrate.Event, error) bool) {
		l := &loop{c}
		l.applySettings(&r)
		model := c.Model
		if fallback {
			model = c.Fallback
		}
		inference := &run{loop: l, request: r, yield: yield, skipsChecks: true}
		a, _, err := inference.askModel(ctx, model, fallback)
		inference.endSpending(ctx)
		_ = inference.reportUsage(inference.usage)
		switch {
		case inference.consumerStopped:
		case err != nil:
			yield(nil, err)
		default:
			yield(a.Reason, nil)
		}
	}
}

type run struct {
	*loop
	request         substrate.Request
	yield           func(substrate.Event, error) bool
	consumerStopped bool
	addedBytes      int
	hasText         bool
	needsBlankLine  bool
	// skipsChecks is set if another process checks the text and estimates the usage.
	skipsChecks  bool
	usage        substrate.Usage
	lastReported substrate.Usage
	// bytes that no usage report covers
	uncountedSent, uncountedReceived int

	// The provider counted the first countedSize bytes as countedTokens tokens.
	countedTokens, countedSize int
}

var errConsumerStopped = errors.New("the client has stopped reading the answer")

func (r *run) emit(e substrate.Event) error {
	if !r.yield(e, nil) {
		r.consumerStopped = true
		return errConsumerStopped
	}
	return nil
}

func (r *run) reportUsage(u substrate.Usage) error {
	if r.consumerStopped || u == r.lastReported {
		return nil
	}
	r.lastReported = u
	return r.emit(u)
}

func (r *run) estimateUsage() substrate.Usage {
	u := r.usage
	if !r.skipsChecks && r.uncountedSent+r.uncountedReceived > 0 {
		u.InputTokens += int(call.EstimateTokens(r.uncountedSent))
		u.OutputTokens += int(call.EstimateTokens(r.uncountedReceived))
		u.UnreportedTurns = max(u.UnreportedTurns, 1)
	}
	return u
}

func (r *run) answer(ctx context.Context) (substrate.FinishReason, error) {
	hasAskedAgain := false
	for turn := 1; ; turn++ {
		r.request.MustAnswer = turn == r.Agent.TurnLimit()
		a, err := r.requestTurn(ctx)
		if err != nil {
			return "", err
		}
		callsTools := a.Reason == substrate.FinishToolUse || a.Reason == substrate.FinishUnknown && len(a.Calls) > 0
		switch {
		case callsTools && r.findQuestion(&a) != "":
			r.needsBlankLine = r.hasText
			return substrate.FinishStop, errors.Join(r.emit(substrate.Question{}), r.emitText(substrate.Text(r.findQuestion(&a))))
		case callsTools && r.request.MustAnswer:
			return "", problem.New(problem.SubstrateMisconfigured, "the model called another tool after %d turns, but the agent's max_turns allows no more turns", turn)
		case callsTools:
			if err := r.runTools(ctx, &a); err != nil {
				return "", err
			}
		case !r.request.JSON:
			return a.Reason, nil
		default:
			document, ok := extractJSON(a.Text)
			if ok {
				return a.Reason, r.emit(substrate.Text(document))
			}
			if hasAskedAgain || r.request.MustAnswer {
				err := &problem.Error{Kind: problem.SubstrateMisconfigured, Field: "answer of the model", Want: "a JSON document, because the agent's output_format is json", Got: "another text"}
				return "", substrate.AnswerError(http.StatusOK, nil, r.Secret.Hide([]byte(a.Text)), err)
			}
			hasAskedAgain = true
			r.request.Turns = append(r.request.Turns, substrate.Turn{Role: substrate.RoleAgent, Text: a.Text},
				substrate.Turn{Role: substrate.RoleCaller, Text: "That was not a JSON document. Answer again with only the JSON document, without a code fence or any other text."})
			r.addedBytes += len(a.Text)
		}
	}
}

var askTool = substrate.Tool{
	Name: "ask_user", Description: "Asks the user a question and waits for the answer. Use it only if you cannot go on without the answer.",
	Schema: json.RawMessage(`{"type":"object","properties":{"question":{"type":"string","description":"what to ask"}},"required":["question"],"additionalProperties":false}`),
}

func (r *run) findQuestion(a *substrate.Answer) string {
	for _, c := range a.Calls {
		var arguments struct{ Question string }
		if r.Agent.Ask && c.Name == askTool.Name && a.Reason == substrate.FinishToolUse && json.Unmarshal([]byte(c.Arguments), &arguments) == nil {
			return arguments.Question
		}
	}
	return ""
}

// requestTurn retries once, with the fallback if there is one. It does not retry if the server
// cannot be reached, because the adapter has already retried.
func (r *run) requestTurn(ctx context.Context) (substrate.Answer, error) {
	a, started, err := r.askModel(ctx, r.Model, false)
	var agentErr *call.AgentError
	isTemporary := problem.Is(err, problem.SubstrateBusy) || problem.Is(err, problem.SubstrateUnavailable)
	if err == nil || started || r.consumerStopped || r.NoRetry || !isTemporary || !errors.As(err, &agentErr) || ctx.Err() != nil {
		return a, err
	}
	if r.Fallback != nil {
		a, _, err = r.askModel(ctx, r.Fallback, true)
		return a, err
	}
	if agentErr.RetryAfter > maxRetryAfter || agentErr.RetryAfter > 0 && r.Wait(ctx, agentErr.RetryAfter) != nil {
		return a, err
	}
	a, _, err = r.askModel(ctx, r.Model, false)
	return a, err
}

func (r *run) askModel(ctx context.Context, model substrate.Substrate, fallback bool) (a substrate.Answer, started bool, err error) {
	request := r.request
	request.Secret = r.Secret
	size, err := r.reserveTurn(ctx, &request, fallback)
	if err != nil {
		return a, false, err
	}
	r.usage.Turns++
	r.usage.UsedFallback = fallback
	usageBefore, sentBefore, receivedBefore := r.usage, r.uncountedSent, r.uncountedReceived
	r.usage.UnreportedTurns++
	r.uncountedSent += textSize(&request)
	if err := r.reportUsage(r.estimateUsage()); err != nil {
		return a, false, err
	}
	var headerSent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { headerSent.Store(true) }})
	var turnUsage *substrate.Usage
	isFinished := false
	defer func() {
		turnErr := err
		if isFinished { // the usage is complete, even if the answer is invalid
			turnErr = nil
		}
		r.settleTurn(turnUsage, size, headerSent.Load() || started, turnErr)
		if turnErr != nil && !started {
			r.usage.UnreportedTurns, r.uncountedSent, r.uncountedReceived = usageBefore.UnreportedTurns, sentBefore, receivedBefore
		}
	}()
	a, err = substrate.ReadAnswer(func(yield func(substrate.Event, error) bool) {
		for e, err := range model.Infer(ctx, request) {
			if err != nil {
				yield(nil, err)
				return
			}
			// A process that runs RunTurn reports the cost before the model answers. This report is
			// not the start of the answer.
			u, isUsage := e.(substrate.Usage)
			started = started || !isUsage || u.UnreportedTurns == 0 && u.InputTokens+u.OutputTokens > 0
			if e == substrate.Event(substrate.FinishLength) && r.usage.MaxTokens > 0 {
				e = substrate.FinishBudget
			}
			switch e := e.(type) {
			case substrate.Thought:
				r.uncountedReceived += len(e)
				err = r.emit(e)
			case substrate.Usage:
				turnUsage = &e
				if r.addUsage(ctx, usageBefore, &e); e.UnreportedTurns == 0 {
					r.uncountedSent, r.uncountedReceived = sentBefore, receivedBefore
				}
				err = r.reportUsage(r.estimateUsage())
			case substrate.Question:
				err = r.emit(e)
			case substrate.ToolCall:
				// Adapters emit tool calls last, so an earlier usage report includes them.
				if turnUsage == nil || turnUsage.UnreportedTurns > 0 {
					r.uncountedReceived += len(e.Name) + len(e.Arguments)
				}
				r.usage.ToolCalls++
				usageBefore.ToolCalls++
				err = r.emit(e)
			case substrate.Text:
				if r.request.JSON && !r.skipsChecks {
					r.uncountedReceived += len(e)
				} else {
					err = r.emitText(e)
				}
			case substrate.FinishReason:
				isFinished = true
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	})
	return a, started, err
}

func (r *run) addUsage(ctx context.Context, earlier substrate.Usage, u *substrate.Usage) {
	r.usage = earlier
	r.usage.InputTokens, r.usage.OutputTokens, r.usage.CachedTokens = earlier.InputTokens+max(u.InputTokens, 0), earlier.OutputTokens+max(u.OutputTokens, 0), earlier.CachedTokens+max(u.CachedTokens, 0)
	r.usage.UnreportedTurns = earlier.UnreportedTurns + max(u.UnreportedTurns, 0)
	if r.Spending == nil {
		r.usage.Cost = earlier.Cost + max(u.Cost, 0)
		r.usage.PriceTableVersion = max(earlier.PriceTableVersion, u.PriceTableVersion)
		if r.usage.MaxTokens = 0; u.MaxTokens > 0 {
			r.recordTokenLimit(ctx, u.MaxTokens)
		}
	}
}

func (r *run) emitText(piece substrate.Text) error {
	if r.needsBlankLine {
		piece = "\n\n" + piece
	}
	r.hasText, r.needsBlankLine = true, false
	r.uncountedReceived += len(piece)
	return r.emit(piece)
}

func (r *run) runTools(ctx context.Context, a *substrate.Answer) error {
	if err := r.reportUsage(r.estimateUsage()); err != nil {
		return err
	}
	results := make([]substrate.ToolResult, len(a.Calls))
	var g errgroup.Group
	g.SetLimit(maxConcurrentTools)
	for i, c := range a.Calls {
		g.Go(func() error {
			text, err := r.runTool(ctx, &c, a.Reason == substrate.FinishToolUse)
			if err != nil {
				text = problem.AsError(err).Text()
			}
			results[i] = substrate.ToolResult{ID: c.ID, Text: truncateResult(text), Failed: err != nil}
			return nil
		})
	}
	_ = g.Wait()
	if ctx.Err() != nil {
		return substrate.ContextError(ctx, "the agent's tools")
	}
	r.addedBytes += len(a.Text)
	for i := range results {
		r.addedBytes += len(a.Calls[i].Arguments) + len(results[i].Text)
	}
	if r.addedBytes > maxAddedBytes {
		return &problem.Error{Kind: problem.SubstrateTooLarge, Field: "conversation of the model with its tools", Want: fmt.Sprintf("at most %d bytes", maxAddedBytes), Got: fmt.Sprint(r.addedBytes)}
	}
	r.needsBlankLine = r.hasText
	r.request.Turns = append(r.request.Turns, substrate.Turn{Role: substrate.RoleAgent, Text: a.Text, Calls: a.Calls}, substrate.Turn{Role: substrate.RoleTools, Results: results})
	return nil
}

func (r *run) runTool(ctx context.Context, c *substrate.ToolCall, isComplete bool) (text string, err error) {
	i, name := slices.IndexFunc(r.Offer.Tools, func(t Tool) bool { return t.Name == c.Name }), SanitizeName(c.Name)
	if i < 0 {
		name = r.redact(name, maxNameLength) // the model may have put a secret into the name
	}
	recordEnd, isRefused := call.RecordToolStart(ctx, name, r.redactForLog(c.Arguments)), false
	step := call.ToolStep{ID: c.ID, Name: name, Arguments: r.redact(c.Arguments, call.MaxToolArgumentBytes)}
	call.Report(ctx, call.ProvisionalEvent{Detail: step})
	defer func() {
		outcome, result := call.ToolOK, text
		if err != nil {
			outcome, result = call.ToolError, problem.AsError(err).Text()
		}
		switch {
		case isRefused:
			outcome = call.ToolRefused
		case err != nil && (problem.Is(err, problem.DeadlineExceeded) || errors.Is(ctx.Err(), context.DeadlineExceeded)):
			outcome = call.ToolTimedOut
		}
		recordEnd(outcome, r.redactForLog(result))
		step.Arguments, step.Outcome = "", outcome
		call.Report(ctx, call.ProvisionalEvent{Detail: step})
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
	var argumentsByName map[string]json.RawMessage
	isInvalid := json.Unmarshal(arguments, &argumentsByName) != nil || argumentsByName == nil
	if toolRefusal := findRefusal(&r.Agent, c.Name, tool, argumentsByName); toolRefusal != nil {
		isRefused = true
		if tool != nil && tool.OnRefusal != nil {
			tool.OnRefusal(ctx, arguments, toolRefusal.modelMessage)
		}
		return "", problem.New(problem.Forbidden, "%s", toolRefusal.modelMessage)
	}
	switch {
	// The call may be incomplete and must not have side effects.
	case !isComplete && tool != nil && (tool.Writes || tool.Spends):
		isRefused = true
		return "", problem.New(problem.Forbidden, "tool %.80q did not run: your answer ended for an unknown reason, so the call may be incomplete; call the tool again", c.Name)
	case tool == nil:
		return "", problem.New(problem.NotFound, "there is no tool %.80q", c.Name)
	case isInvalid:
		return "", problem.Invalid("arguments", "a JSON object", fmt.Sprintf("%.80q", c.Arguments))
	}
	return tool.Run(ctx, &r.request, arguments)
}

func (r *run) redactForLog(text string) string {
	if r.Agent.ToolLog != definition.ToolTexts {
		return ""
	}
	// The additional byte lets the log mark a longer text as truncated.
	return r.redact(text, call.MaxToolTextBytes+1)
}

func (r *run) redact(text string, limit int) string {
	return substrate.Redact(string(r.Secret.Hide([]byte(text))), limit)
}

func truncateResult(text string) string {
	if len(text) <= maxResultBytes {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	const note = "\n[truncated: the result is longer than 64 KiB]"
	return strings.ToValidUTF8(text[:maxResultBytes-len(note)], "") + note
}
