package call

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

// Usage counts the work of a vacant's agent for a call. It is stored in the row that decides the
// call and contains only numbers.
type Usage struct {
	In     uint64 `json:"in"` // input tokens, as the provider counts them
	Out    uint64 `json:"out"`
	Cached uint64 `json:"cached"`        // part of In
	Turns  uint64 `json:"turns"`         // requests to a model
	Tools  uint64 `json:"tools"`         // calls of tools
	Agent  uint64 `json:"agent_version"` // version of the agent
	// UsedFallback is set if the last request went to the fallback model.
	UsedFallback bool `json:"fallback"`
	// Unreported counts the turns for which the provider did not report usage. It is at least 1 if
	// In or Out includes an estimate.
	Unreported uint64 `json:"unreported"`
	Cost       uint64 `json:"cost"` // micro-dollars
	// Prices is the version of the host's model price table on which Cost is based. It is 0 if the
	// call was free or the agent states its price.
	Prices uint64 `json:"price_version"`
}

// EstimatedTokens estimates the tokens of a text whose tokens the provider has not counted: 4 bytes
// per token, rounded up.
func EstimatedTokens(bytes int) uint64 { return uint64((bytes + 3) / 4) }

func (u *Usage) numbers() []*uint64 {
	// The order is the order in rows. Later versions may append fields.
	return []*uint64{&u.In, &u.Out, &u.Cached, &u.Turns, &u.Tools, &u.Agent, &u.Unreported, &u.Cost, &u.Prices}
}

// unpricedNumbers is the number of fields in a row without Cost and Prices.
const unpricedNumbers = 7

func appendUsage(b []byte, u *Usage) []byte {
	numbers := u.numbers()
	if u.Cost == 0 && u.Prices == 0 {
		numbers = numbers[:unpricedNumbers]
	}
	b = append(b, byte(len(numbers)))
	for _, n := range numbers {
		b = binary.AppendUvarint(b, min(*n, math.MaxInt64))
	}
	flags := byte(0)
	if u.UsedFallback {
		flags |= 1
	}
	return append(b, flags)
}

func (d *reader) usage() *Usage {
	u := &Usage{}
	numbers := u.numbers()
	switch int(d.byte()) {
	case unpricedNumbers:
		numbers = numbers[:unpricedNumbers]
	case len(numbers):
	default:
		d.bad = true
		return u
	}
	for _, n := range numbers {
		*n = d.uvarint(math.MaxInt64)
	}
	flags := d.byte()
	d.bad = d.bad || flags > 1
	u.UsedFallback = flags == 1
	return u
}

// CutReason is the reason why an answer is incomplete, or "" for a complete answer. An incomplete
// (cut) answer is signed, stored and charged like a complete answer.
type CutReason string

const (
	CutCanceled CutReason = "canceled" // the caller canceled the call while it could read a part of the answer
	CutLength   CutReason = "length"   // the vacant's model reached its token limit
	CutBudget   CutReason = "budget"   // the model reached a limit that a budget had set below the agent's max_tokens
	CutUnknown  CutReason = "unknown"  // the model stopped for an unknown reason, so the answer may be incomplete
)

// cuts lists the reasons. The index is the byte in a row. Later versions may append reasons.
var cuts = []CutReason{"", CutCanceled, CutLength, CutBudget, CutUnknown}

// Remark appends a remark to the text of an incomplete answer, so that a model does not mistake it
// for a complete answer.
func (c CutReason) Remark(text string) string {
	switch c {
	case "":
		return text
	case CutUnknown:
		return text + "\n[This answer may be incomplete: it ended for an unknown reason.]"
	}
	return text + "\n[This answer was cut off here: " + string(c) + ".]"
}

func (c CutReason) code() byte { return byte(max(slices.Index(cuts, c), 0)) }

func (d *reader) cut() CutReason {
	code := int(d.byte())
	if d.bad = d.bad || code == 0 || code >= len(cuts); d.bad {
		return ""
	}
	return cuts[code]
}

// AgentLog describes an agent's tools in a call, for operators. It is in the call's log line, but
// not in rows.
type AgentLog struct {
	// Tools are the first MaxToolUses tool calls, in order. MoreTools counts the others.
	Tools     []ToolUse
	MoreTools int
	LeftOut   OmittedTools
	// MaxTokens is the smallest limit to which budgets reduced max_tokens. Zero means that they did
	// not reduce it.
	MaxTokens int
}

// Limits of a call's reports about tools.
const (
	MaxToolUses  = 64
	MaxLeftOut   = 20
	MaxToolTexts = 64 << 10 // bytes of all texts
)

// ToolUse is a call of a tool.
type ToolUse struct {
	Name    string      `json:"name"`
	MS      int64       `json:"ms"` // duration in milliseconds
	Outcome ToolOutcome `json:"outcome"`
}

// ToolOutcome is the outcome of a tool call.
type ToolOutcome string

const (
	ToolOK       ToolOutcome = "ok"
	ToolError    ToolOutcome = "error"
	ToolRefused  ToolOutcome = "refused" // not allowed by the agent's settings
	ToolTimedOut ToolOutcome = "timed out"
)

// OmittedTools lists tools that an agent is not offered, up to MaxLeftOut, and counts the others. If
// possible, the list has a tool for every reason.
type OmittedTools struct {
	Tools []OmittedTool `json:"tools,omitempty"`
	More  int           `json:"more,omitempty"`
}

// OmittedTool is a tool that an agent is not offered.
type OmittedTool struct {
	Name   string `json:"name"` // name in the agent's settings
	Reason string `json:"reason"`
	Change string `json:"change"` // change of a setting or of the tool's server that would make the tool available
}

func (l *OmittedTools) Add(t OmittedTool) {
	if len(l.Tools) < MaxLeftOut {
		l.Tools = append(l.Tools, t)
		return
	}
	l.More++
	named := map[string]bool{t.Reason: true}
	if slices.ContainsFunc(l.Tools, func(other OmittedTool) bool { return other.Reason == t.Reason }) {
		return
	}
	for i, other := range l.Tools {
		if named[other.Reason] { // another tool of the list has the same reason
			l.Tools[i] = t
			return
		}
		named[other.Reason] = true
	}
}

func (l *OmittedTools) Join(other OmittedTools) {
	for _, t := range other.Tools {
		l.Add(t)
	}
	l.More += other.More
}

func (l *OmittedTools) Count() int { return len(l.Tools) + l.More }

func (l *AgentLog) Attrs() (attrs []slog.Attr) {
	if l == nil {
		return nil
	}
	if len(l.Tools) > 0 {
		attrs = append(attrs, slog.Any("tools", l.Tools))
	}
	if l.MoreTools > 0 {
		attrs = append(attrs, slog.Int("more_tools", l.MoreTools))
	}
	if l.LeftOut.Count() > 0 {
		attrs = append(attrs, slog.Any("left_out", l.LeftOut))
	}
	if l.MaxTokens > 0 {
		attrs = append(attrs, slog.Int("max_tokens", l.MaxTokens))
	}
	return attrs
}

// RecordedToolCall is a tool call with its arguments and result. They are sealed together with the
// text of the row that decides the call, and expire together with this text.
type RecordedToolCall struct {
	ToolUse
	Arguments string `json:"arguments"`
	Result    string `json:"result"`
	Cut       bool   `json:"cut,omitempty"` // whether the arguments or the result were truncated
}

// toolRun is a running or ended tool call.
type toolRun struct {
	RecordedToolCall
	began time.Time // zero after the end
}

// meter collects the reports of one call.
type meter struct {
	now func() time.Time

	mu    sync.Mutex
	usage *Usage
	cut   CutReason
	log   AgentLog // log without Tools
	tools []*toolRun
	kept  int // bytes of the recorded arguments and results
}

type meterKey struct{}

func record(ctx context.Context, change func(*meter)) {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		change(m)
	}
}

// RecordUsage replaces the recorded usage of the call that runs in ctx. Outside a call, it has no effect.
func RecordUsage(ctx context.Context, u Usage) { record(ctx, func(m *meter) { m.usage = &u }) }

// RecordCut records why the answer of the call that runs in ctx is incomplete.
func RecordCut(ctx context.Context, why CutReason) { record(ctx, func(m *meter) { m.cut = why }) }

func RecordOmittedTools(ctx context.Context, l OmittedTools) {
	record(ctx, func(m *meter) { m.log.LeftOut = l })
}

// RecordMaxTokens records that budgets reduced the agent's max_tokens to n for a turn of the call in ctx.
func RecordMaxTokens(ctx context.Context, n int) {
	record(ctx, func(m *meter) {
		if m.log.MaxTokens == 0 || n < m.log.MaxTokens {
			m.log.MaxTokens = n
		}
	})
}

// BeginTool records the start of a tool in the call that runs in ctx. The caller must call end with
// the tool's outcome. If end is not called before the call ends, the outcome is ToolTimedOut.
// arguments and result are sealed and stored with the row that decides the call. They must be "" if
// the agent's settings forbid storing them.
func BeginTool(ctx context.Context, name, arguments string) (end func(o ToolOutcome, result string)) {
	var run *toolRun
	record(ctx, func(m *meter) {
		if len(m.tools) == MaxToolUses {
			m.log.MoreTools++
			return
		}
		run = &toolRun{RecordedToolCall{ToolUse: ToolUse{Name: name, Outcome: ToolTimedOut}}, m.now()}
		run.Arguments = m.truncate(run, arguments)
		m.tools = append(m.tools, run)
	})
	return func(o ToolOutcome, result string) {
		record(ctx, func(m *meter) {
			if run != nil {
				run.Outcome, run.MS, run.began = o, m.since(run), time.Time{}
				run.Result = m.truncate(run, result)
			}
		})
	}
}

func (m *meter) truncate(run *toolRun, text string) string {
	if n := MaxToolTexts - m.kept; len(text) > n {
		text, run.Cut = strings.ToValidUTF8(text[:n], ""), true
	}
	m.kept += len(text)
	return text
}

func (m *meter) since(run *toolRun) int64 { return max(m.now().Sub(run.began).Milliseconds(), 0) } // clocks may step back

func (m *meter) copyTo(r *request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.out.Usage, r.cut = m.usage, m.cut
	l := m.log
	l.LeftOut.Tools = slices.Clone(l.LeftOut.Tools)
	for _, run := range m.tools {
		if !run.began.IsZero() {
			run.MS = m.since(run)
		}
		l.Tools = append(l.Tools, run.ToolUse)
		if m.kept > 0 {
			r.tools = append(r.tools, run.RecordedToolCall)
		}
	}
	if len(l.Tools) > 0 || l.LeftOut.Count() > 0 || l.MaxTokens > 0 {
		r.out.AgentLog = &l
	}
}

// maxSealed limits the bytes of an answer together with the texts of its tools. Texts above this limit
// are dropped, so that they never make an answer too large for a store.
const maxSealed = store.MaxData - 4<<10

// appendTools appends tools to an encoded payload. It truncates texts that would exceed maxSealed,
// starting with the last ones.
func appendTools(b []byte, tools []RecordedToolCall) []byte {
	if len(tools) == 0 {
		return b
	}
	encoded := encodeTools(tools)
	if excess := len(b) + len(encoded) - maxSealed; excess > 0 {
		tools = slices.Clone(tools)
		for i := len(tools) - 1; i >= 0 && excess > 0; i-- {
			for _, text := range []*string{&tools[i].Result, &tools[i].Arguments} {
				n := min(max(excess, 0), len(*text))
				excess -= n
				*text = strings.ToValidUTF8((*text)[:len(*text)-n], "")
				tools[i].Cut = tools[i].Cut || n > 0
			}
		}
		if encoded = encodeTools(tools); len(b)+len(encoded) > maxSealed {
			return b
		}
	}
	b[0] |= hasTools
	return append(b, encoded...)
}

func encodeTools(tools []RecordedToolCall) (b []byte) {
	for _, t := range tools {
		b = appendString(appendString(b, t.Name), string(t.Outcome))
		b = binary.AppendUvarint(b, uint64(t.MS))
		cut := byte(0)
		if t.Cut {
			cut = 1
		}
		b = appendString(appendString(append(b, cut), t.Arguments), t.Result)
	}
	return b
}

func (d *reader) tools() (texts []RecordedToolCall) {
	for len(d.b) > 0 && !d.bad {
		var t RecordedToolCall
		t.Name, t.Outcome = d.string(), ToolOutcome(d.string())
		t.MS = int64(d.uvarint(math.MaxInt64))
		t.Cut = d.byte() == 1
		t.Arguments, t.Result = d.string(), d.string()
		texts = append(texts, t)
	}
	return texts
}

// CallTools are the tool calls within a call whose texts are stored.
type CallTools struct {
	Position uint64             `json:"position"` // position of the request row
	Answered bool               `json:"answered"`
	Tools    []RecordedToolCall `json:"tools"`
}

// maxToolCalls is the size of texts after which ReadToolCalls stops reading.
const maxToolCalls = 1 << 20

// ReadToolCalls reads the last n decisions of a pair. It returns the stored tool calls, the newest
// first, and the number of decisions whose text key is destroyed.
func (h *Host) ReadToolCalls(ctx context.Context, pair Pair, n int) (calls []CallTools, destroyed int, err error) {
	rows, err := h.Store.Rows(ctx, pair.Responses(), math.MaxInt64, n, store.Descending)
	if err != nil {
		return nil, 0, h.unavailableError(err)
	}
	size := 0
	for _, row := range rows {
		r, err := DecodeResponse(row)
		if err != nil {
			return nil, 0, h.damagedError(pair.Responses(), err)
		}
		sealed, bound, hasText := r.SealedCause(pair)
		if r.Kind != RowVoid {
			sealed, bound = r.SealedText(pair)
		} else if !hasText {
			continue
		}
		plain, err := h.Texts.Open(ctx, bound, sealed)
		switch {
		case errors.Is(err, textkeys.ErrDestroyed):
			destroyed++
			continue
		case errors.Is(err, textkeys.ErrDamaged):
			return nil, 0, h.damagedError(pair.Responses(), fmt.Errorf("%w: a text does not open", errRow))
		case err != nil:
			return nil, 0, h.unavailableError(err)
		}
		var tools []RecordedToolCall
		if r.Kind == RowVoid {
			var c sealedCause
			d := &reader{}
			if json.Unmarshal(plain, &c) == nil {
				d.b = c.Tools
			}
			if tools = d.tools(); d.bad {
				err = fmt.Errorf("%w: the tools of a void", errRow)
			}
		} else {
			_, _, tools, err = parseSealed(plain)
		}
		if err != nil {
			return nil, 0, h.damagedError(pair.Responses(), err)
		}
		if len(tools) == 0 {
			continue
		}
		if calls = append(calls, CallTools{r.Request, r.Kind == RowAnswer, tools}); size > maxToolCalls {
			break
		}
		for _, t := range tools {
			size += len(t.Arguments) + len(t.Result)
		}
	}
	return calls, destroyed, nil
}

// AgentError is in the error chain of a Behaviour if the agent's response is not a valid answer.
// Its message does not contain the body.
type AgentError struct {
	Status int           // HTTP status
	After  time.Duration // zero if unknown
	Body   string        // beginning of the body, without secrets (substrate.Excerpt)
	Err    error
}

func (e *AgentError) Error() string { return e.Err.Error() }

func (e *AgentError) Unwrap() error { return e.Err }

// Cause is the reason for a void, for the operator. It is stored with the void and sealed like a
// text. Callers receive only the kind.
type Cause struct {
	Kind string `json:"kind"` // code of the problem's kind
	Text string `json:"text"`
	// Status and Body are the agent's response. They are zero if the agent did not respond.
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
	TookMS int64  `json:"took_ms"`
}

// maxCause limits Cause.Text, in bytes.
const maxCause = 500

func CauseOf(failure error, took time.Duration) *Cause {
	err := problem.AsError(failure)
	c := &Cause{Kind: err.Kind.String(), Text: err.Text(), TookMS: took.Milliseconds()}
	if err.Err != nil {
		c.Text = problem.PlainMessage(err.Err)
	}
	c.Text = c.Text[:min(len(c.Text), maxCause)]
	var agent *AgentError
	if errors.As(failure, &agent) {
		c.Status, c.Body = agent.Status, agent.Body
	}
	return c
}

func (c *Cause) String() string {
	s := fmt.Sprintf("%s after %d ms: %s", c.Kind, c.TookMS, c.Text)
	if c.Body != "" {
		s += fmt.Sprintf("; it answered %q", c.Body)
	}
	return s
}

// sealedCause is the sealed text of a void.
type sealedCause struct {
	*Cause
	Tools []byte `json:"tools,omitempty"` // encoded by encodeTools
}

func (r *ResponseRow) SealedCause(pair Pair) (s textkeys.Sealed, bound []byte, ok bool) {
	return r.Text, additionalData(pair.Responses(), r.RequestHash), r.Kind == RowVoid && r.Text.Box != nil
}

func ParseCause(plain []byte) (c Cause, err error) {
	if err := json.Unmarshal(plain, &c); err != nil {
		return c, fmt.Errorf("%w: cause of %d bytes", errRow, len(plain))
	}
	return c, nil
}

// Sink receives the progress of a call: Provisional events between its accept and its decision, and
// finally one EndEvent. The agent waits until the Sink returns. A refused call has no progress.
// Calls of a Sink do not overlap. A Sink that panics or takes longer than sinkTimeout is not called
// again, while the call continues.
type Sink func(Progress)

// Progress is a Provisional or an EndEvent.
type Progress interface{ progress() }

// Provisional is an event of the vacant's agent. It is neither signed nor stored, and the call may
// still fail. Exactly one field is set.
type Provisional struct {
	Text    string // part of the answer
	Thought string
	Tool    string // the name of a tool that the agent calls
	Usage   *Usage // the usage so far
	Last    bool   // no text follows
	Asks    bool   // the text is a question, and the agent waits for its answer
	// Detail is an agent's report besides the text of its answer. A Sink that knows its
	// type (package task) reads it; others ignore it.
	Detail any
}

// MaxToolArguments is the size of the arguments in a ToolStep, in bytes.
const MaxToolArguments = 4 << 10

// ToolStep is the beginning or the end of a call of a tool. It is a Detail of Provisional.
type ToolStep struct {
	ID   string `json:"id"` // id of the tool call within a turn of the model
	Name string `json:"name"`
	// Arguments is the beginning of the arguments, with apparent secrets removed. It is "" at the end
	// of the call.
	Arguments string      `json:"arguments,omitempty"`
	Outcome   ToolOutcome `json:"outcome,omitempty"` // "" at the beginning of the call
}

// EndEvent is the result of Send: the reply, signed and stored, or the failure.
type EndEvent struct{ Outcome Outcome }

func (Provisional) progress() {}
func (EndEvent) progress()    {}

// sinkTimeout limits how long a call waits for its Sink.
const sinkTimeout = time.Second

// reporter calls the Sink of one call. A nil reporter discards all events.
type reporter struct {
	mu   sync.Mutex
	sink Sink // nil after the end or after a failure of the Sink
}

// Report sends an event to the Sink of the call of ctx. If the call has no Sink or is decided,
// Report has no effect.
func Report(ctx context.Context, p Provisional) {
	if r := requestFrom(ctx); r != nil {
		r.reporter.report(p, false)
	}
}

func HasSink(ctx context.Context) bool {
	r := requestFrom(ctx)
	return r != nil && r.reporter != nil
}

func (f *reporter) report(p Progress, end bool) {
	if f == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	sink := f.sink
	if sink == nil {
		return
	}
	returned := make(chan bool, 1)
	go func() {
		defer func() { returned <- recover() == nil }() // the call must continue
		sink(p)
	}()
	hasReturned := false
	select {
	case hasReturned = <-returned:
	case <-time.After(sinkTimeout):
	}
	if end || !hasReturned {
		f.sink = nil
	}
}

// Partial is the part of an answer that can be read before the answer is decided.
type Partial struct {
	Text  string
	Usage *Usage    // usage for the charge; may be nil
	Began time.Time // start of the behaviour
}

// CutAnswer decides an undecided call with a partial answer and returns the final state: Answered, or
// Unanswered if the call was or had to be voided, for example because its vacant is no longer
// hosted or cannot sign this text.
func (h *Host) CutAnswer(ctx context.Context, pair Pair, position uint64, why CutReason, p Partial, o Options) (State, error) {
	row, err := h.callAt(ctx, pair, position)
	if err != nil {
		return Unknown, err
	}
	d, tip, err := h.decided(ctx, pair, &row)
	switch {
	case err != nil:
		return Unknown, err
	case d != nil && d.Kind == RowAnswer:
		return Answered, nil
	case d != nil || isClosedBy(tip, &row):
		return Unanswered, nil
	}
	void := func(failure error, final bool) (State, error) {
		return h.voidFinal(ctx, pair, &row, voidReason{cause: CauseOf(failure, 0), failure: failure, opts: &o, used: p.Usage, ran: true, final: final})
	}
	r := &request{pair: pair, hash: row.Hash, opts: o, cut: why} // began is zero, because the request that runs the call logs its counts
	r.out.Usage = p.Usage
	msg := envelope.Message{Role: envelope.RoleAgent, Parts: []string{p.Text}}
	if err := msg.Check(); err != nil {
		return void(problem.Wrap(problem.BehaviourFailed, err, "the vacant gave an answer that cannot be signed"), false)
	}
	if hosted, err := h.fetchSigner(ctx, r); err != nil {
		return Unknown, err
	} else if !hosted {
		return void(problem.New(problem.Gone, "the vacant is no longer hosted here"), false)
	}
	reply, closed, err := h.settleAndAnswer(ctx, r, &row, tip, msg, p.Began)
	var unsettled *unsettledError
	switch {
	case errors.Is(err, ErrUncertain):
		return Pending, waitsForPayment(err)
	case errors.As(err, &unsettled):
		return void(unsettled.cause, true)
	case problem.Is(err, problem.SubstrateTooLarge):
		return void(err, true)
	case err != nil:
		return Unknown, err
	case reply != nil:
		return Answered, nil
	case closed && h.maySettleLate(&row):
		// The process that runs the call has stored the complete answer, which may be unsettled.
		return void(problem.New(problem.Canceled, "the caller canceled the call"), false)
	}
	return Unanswered, nil
}

// fetchSigner reads the vacant that signs the answer of a call that has run. A vacant whose budget
// is spent cannot run another call, but can still sign.
func (h *Host) fetchSigner(ctx context.Context, r *request) (hosted bool, err error) {
	r.vacant, hosted, err = h.Directory.Vacant(ctx, r.pair.Vacant, false)
	if err == nil && hosted && r.vacant.Ready != nil {
		if err = r.vacant.Ready(ctx); problem.Is(err, problem.BudgetSpent) {
			err = nil
		}
	}
	return hosted, h.unavailableError(err)
}
