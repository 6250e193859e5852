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

type Usage struct {
	InputTokens     uint64 `json:"in"`
	OutputTokens    uint64 `json:"out"`
	CachedTokens    uint64 `json:"cached"` // part of InputTokens
	Turns           uint64 `json:"turns"`
	ToolCalls       uint64 `json:"tools"`
	AgentVersion    uint64 `json:"agent_version"`
	UsedFallback    bool   `json:"fallback"`
	UnreportedTurns uint64 `json:"unreported"` // at least 1 if a count is estimated
	Cost            uint64 `json:"cost"`       // micro-dollars
	// PriceTableVersion is 0 if Cost is not based on the host's model prices.
	PriceTableVersion uint64 `json:"price_version"`
}

func EstimateTokens(bytes int) uint64 { return uint64((bytes + 3) / 4) }

func (u *Usage) counters() []*uint64 {
	// Rows contain the counters in this order. Later versions may append fields.
	return []*uint64{&u.InputTokens, &u.OutputTokens, &u.CachedTokens, &u.Turns, &u.ToolCalls, &u.AgentVersion, &u.UnreportedTurns, &u.Cost, &u.PriceTableVersion}
}

const countersWithoutCost = 7

func appendUsage(b []byte, u *Usage) []byte {
	counters := u.counters()
	if u.Cost == 0 && u.PriceTableVersion == 0 {
		counters = counters[:countersWithoutCost]
	}
	b = append(b, byte(len(counters)))
	for _, n := range counters {
		b = binary.AppendUvarint(b, min(*n, math.MaxInt64))
	}
	flags := byte(0)
	if u.UsedFallback {
		flags |= 1
	}
	return append(b, flags)
}

func (d *reader) readUsage() *Usage {
	u := &Usage{}
	counters := u.counters()
	switch int(d.readByte()) {
	case countersWithoutCost:
		counters = counters[:countersWithoutCost]
	case len(counters):
	default:
		d.bad = true
		return u
	}
	for _, n := range counters {
		*n = d.readUvarint(math.MaxInt64)
	}
	flags := d.readByte()
	d.bad = d.bad || flags > 1
	u.UsedFallback = flags == 1
	return u
}

// CutReason is the reason why an answer is incomplete, or "". An incomplete (cut) answer is signed,
// stored and charged like a complete one.
type CutReason string

const (
	CutCanceled CutReason = "canceled"
	CutLength   CutReason = "length"
	CutBudget   CutReason = "budget"
	CutUnknown  CutReason = "unknown"
)

// cutReasons lists the reasons in stored order: the index is the byte in a row.
var cutReasons = []CutReason{"", CutCanceled, CutLength, CutBudget, CutUnknown}

// AppendRemark marks an incomplete text, so that a model does not mistake it for a complete answer.
func (c CutReason) AppendRemark(text string) string {
	switch c {
	case "":
		return text
	case CutUnknown:
		return text + "\n[This answer may be incomplete: it ended for an unknown reason.]"
	}
	return text + "\n[This answer was cut off here: " + string(c) + ".]"
}

func (c CutReason) code() byte { return byte(max(slices.Index(cutReasons, c), 0)) }

func (d *reader) readCutReason() CutReason {
	code := int(d.readByte())
	if d.bad = d.bad || code == 0 || code >= len(cutReasons); d.bad {
		return ""
	}
	return cutReasons[code]
}

type AgentLog struct {
	Tools            []ToolUse
	MoreTools        int
	OmittedTools     OmittedTools
	ReducedMaxTokens int
}

const (
	MaxToolUses      = 64
	MaxOmittedTools  = 20
	MaxToolTextBytes = 64 << 10
)

type ToolUse struct {
	Name       string      `json:"name"`
	DurationMS int64       `json:"ms"`
	Outcome    ToolOutcome `json:"outcome"`
}

type ToolOutcome string

const (
	ToolOK       ToolOutcome = "ok"
	ToolError    ToolOutcome = "error"
	ToolRefused  ToolOutcome = "refused" // not allowed by the agent's settings
	ToolTimedOut ToolOutcome = "timed out"
)

type OmittedTools struct {
	Tools     []OmittedTool `json:"tools,omitempty"`
	MoreTools int           `json:"more,omitempty"`
}

type OmittedTool struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
	Remedy string `json:"change"`
}

func (l *OmittedTools) Add(t OmittedTool) {
	if len(l.Tools) < MaxOmittedTools {
		l.Tools = append(l.Tools, t)
		return
	}
	l.MoreTools++
	seenReasons := map[string]bool{t.Reason: true}
	if slices.ContainsFunc(l.Tools, func(other OmittedTool) bool { return other.Reason == t.Reason }) {
		return
	}
	for i, other := range l.Tools {
		if seenReasons[other.Reason] {
			l.Tools[i] = t
			return
		}
		seenReasons[other.Reason] = true
	}
}

func (l *OmittedTools) AddAll(other OmittedTools) {
	for _, t := range other.Tools {
		l.Add(t)
	}
	l.MoreTools += other.MoreTools
}

func (l *OmittedTools) Count() int { return len(l.Tools) + l.MoreTools }

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
	if l.OmittedTools.Count() > 0 {
		attrs = append(attrs, slog.Any("left_out", l.OmittedTools))
	}
	if l.ReducedMaxTokens > 0 {
		attrs = append(attrs, slog.Int("max_tokens", l.ReducedMaxTokens))
	}
	return attrs
}

// RecordedToolCall is sealed together with the text of the deciding row.
type RecordedToolCall struct {
	ToolUse
	Arguments   string `json:"arguments"`
	Result      string `json:"result"`
	IsTruncated bool   `json:"cut,omitempty"`
}

type toolRun struct {
	RecordedToolCall
	startedAt time.Time
}

type recorder struct {
	now func() time.Time

	mu            sync.Mutex
	usage         *Usage
	cutReason     CutReason
	agentLog      AgentLog
	tools         []*toolRun
	toolTextBytes int
}

type recorderKey struct{}

func record(ctx context.Context, change func(*recorder)) {
	if m, ok := ctx.Value(recorderKey{}).(*recorder); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		change(m)
	}
}

func RecordUsage(ctx context.Context, u Usage) { record(ctx, func(m *recorder) { m.usage = &u }) }

func RecordCutReason(ctx context.Context, reason CutReason) {
	record(ctx, func(m *recorder) { m.cutReason = reason })
}

func RecordOmittedTools(ctx context.Context, l OmittedTools) {
	record(ctx, func(m *recorder) { m.agentLog.OmittedTools = l })
}

func RecordReducedMaxTokens(ctx context.Context, n int) {
	record(ctx, func(m *recorder) {
		if m.agentLog.ReducedMaxTokens == 0 || n < m.agentLog.ReducedMaxTokens {
			m.agentLog.ReducedMaxTokens = n
		}
	})
}

// RecordToolStart records the start of a tool. The caller must call end with the outcome. arguments
// and result are stored, and must be "" if the agent's settings forbid storing them.
func RecordToolStart(ctx context.Context, name, arguments string) (end func(o ToolOutcome, result string)) {
	var run *toolRun
	record(ctx, func(m *recorder) {
		if len(m.tools) == MaxToolUses {
			m.agentLog.MoreTools++
			return
		}
		run = &toolRun{RecordedToolCall{ToolUse: ToolUse{Name: name, Outcome: ToolTimedOut}}, m.now()}
		run.Arguments = m.truncate(run, arguments)
		m.tools = append(m.tools, run)
	})
	return func(o ToolOutcome, result string) {
		record(ctx, func(m *recorder) {
			if run != nil {
				run.Outcome, run.DurationMS, run.startedAt = o, m.elapsedMS(run), time.Time{}
				run.Result = m.truncate(run, result)
			}
		})
	}
}

func (m *recorder) truncate(run *toolRun, text string) string {
	if n := MaxToolTextBytes - m.toolTextBytes; len(text) > n {
		text, run.IsTruncated = strings.ToValidUTF8(text[:n], ""), true
	}
	m.toolTextBytes += len(text)
	return text
}

func (m *recorder) elapsedMS(run *toolRun) int64 {
	return max(m.now().Sub(run.startedAt).Milliseconds(), 0)
}

func (m *recorder) copyTo(r *request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.out.Usage, r.cutReason = m.usage, m.cutReason
	agentLog := m.agentLog
	agentLog.OmittedTools.Tools = slices.Clone(agentLog.OmittedTools.Tools)
	for _, run := range m.tools {
		if !run.startedAt.IsZero() {
			run.DurationMS = m.elapsedMS(run)
		}
		agentLog.Tools = append(agentLog.Tools, run.ToolUse)
		if m.toolTextBytes > 0 {
			r.tools = append(r.tools, run.RecordedToolCall)
		}
	}
	if len(agentLog.Tools) > 0 || agentLog.OmittedTools.Count() > 0 || agentLog.ReducedMaxTokens > 0 {
		r.out.AgentLog = &agentLog
	}
}

// maxSealedBytes ensures that tools never make an answer too large for a store.
const maxSealedBytes = store.MaxData - 4<<10

func appendTools(b []byte, tools []RecordedToolCall) []byte {
	if len(tools) == 0 {
		return b
	}
	encoded := encodeTools(tools)
	if excess := len(b) + len(encoded) - maxSealedBytes; excess > 0 {
		tools = slices.Clone(tools)
		for i := len(tools) - 1; i >= 0 && excess > 0; i-- {
			for _, text := range []*string{&tools[i].Result, &tools[i].Arguments} {
				n := min(max(excess, 0), len(*text))
				excess -= n
				*text = strings.ToValidUTF8((*text)[:len(*text)-n], "")
				tools[i].IsTruncated = tools[i].IsTruncated || n > 0
			}
		}
		if encoded = encodeTools(tools); len(b)+len(encoded) > maxSealedBytes {
			return b
		}
	}
	b[0] |= toolsFlag
	return append(b, encoded...)
}

func encodeTools(tools []RecordedToolCall) (b []byte) {
	for _, t := range tools {
		b = appendString(appendString(b, t.Name), string(t.Outcome))
		b = binary.AppendUvarint(b, uint64(t.DurationMS))
		isTruncated := byte(0)
		if t.IsTruncated {
			isTruncated = 1
		}
		b = appendString(appendString(append(b, isTruncated), t.Arguments), t.Result)
	}
	return b
}

func (d *reader) readTools() (calls []RecordedToolCall) {
	for len(d.b) > 0 && !d.bad {
		var t RecordedToolCall
		t.Name, t.Outcome = d.readString(), ToolOutcome(d.readString())
		t.DurationMS = int64(d.readUvarint(math.MaxInt64))
		t.IsTruncated = d.readByte() == 1
		t.Arguments, t.Result = d.readString(), d.readString()
		calls = append(calls, t)
	}
	return calls
}

type ToolCallRecord struct {
	Position   uint64             `json:"position"`
	IsAnswered bool               `json:"answered"`
	Tools      []RecordedToolCall `json:"tools"`
}

const maxToolCallBytes = 1 << 20

// ReadToolCalls returns the tool calls of the last n decisions of a pair. destroyed counts the
// decisions whose text key is destroyed.
func (h *Host) ReadToolCalls(ctx context.Context, pair Pair, n int) (calls []ToolCallRecord, destroyed int, err error) {
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
			return nil, 0, h.damagedError(pair.Responses(), fmt.Errorf("%w: a text does not open", errInvalidRow))
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
			if tools = d.readTools(); d.bad {
				err = fmt.Errorf("%w: the tools of a void", errInvalidRow)
			}
		} else {
			_, _, tools, err = parsePayloadAndTools(plain)
		}
		if err != nil {
			return nil, 0, h.damagedError(pair.Responses(), err)
		}
		if len(tools) == 0 {
			continue
		}
		if calls = append(calls, ToolCallRecord{r.RequestPosition, r.Kind == RowAnswer, tools}); size > maxToolCallBytes {
			break
		}
		for _, t := range tools {
			size += len(t.Arguments) + len(t.Result)
		}
	}
	return calls, destroyed, nil
}

type AgentError struct {
	Status     int
	RetryAfter time.Duration
	Body       string // beginning of the body, without secrets
	Err        error
}

func (e *AgentError) Error() string { return e.Err.Error() }

func (e *AgentError) Unwrap() error { return e.Err }

// Cause is the reason for a void. It is sealed and only for the operator.
type Cause struct {
	Kind       string `json:"kind"`
	Text       string `json:"text"`
	Status     int    `json:"status,omitempty"`
	Body       string `json:"body,omitempty"`
	DurationMS int64  `json:"took_ms"`
}

const maxCauseBytes = 500

func NewCause(failure error, duration time.Duration) *Cause {
	err := problem.AsError(failure)
	c := &Cause{Kind: err.Kind.String(), Text: err.Text(), DurationMS: duration.Milliseconds()}
	if err.Err != nil {
		c.Text = problem.PlainMessage(err.Err)
	}
	c.Text = c.Text[:min(len(c.Text), maxCauseBytes)]
	var agent *AgentError
	if errors.As(failure, &agent) {
		c.Status, c.Body = agent.Status, agent.Body
	}
	return c
}

func (c *Cause) String() string {
	s := fmt.Sprintf("%s after %d ms: %s", c.Kind, c.DurationMS, c.Text)
	if c.Body != "" {
		s += fmt.Sprintf("; it answered %q", c.Body)
	}
	return s
}

type sealedCause struct {
	*Cause
	Tools []byte `json:"tools,omitempty"`
}

func (r *ResponseRow) SealedCause(pair Pair) (s textkeys.Sealed, bound []byte, ok bool) {
	return r.Text, additionalData(pair.Responses(), r.RequestHash), r.Kind == RowVoid && r.Text.Box != nil
}

func ParseCause(plain []byte) (c Cause, err error) {
	if err := json.Unmarshal(plain, &c); err != nil {
		return c, fmt.Errorf("%w: cause of %d bytes", errInvalidRow, len(plain))
	}
	return c, nil
}

// Sink receives the progress of an accepted call, and finally one EndEvent. Calls do not overlap.
// The agent waits until the Sink returns. A Sink that panics or takes too long is not called again.
type Sink func(Progress)

type Progress interface{ progress() }

// ProvisionalEvent is an unsigned event of the vacant's agent. The call may still fail. Exactly one
// field is set.
type ProvisionalEvent struct {
	Text       string
	Thought    string
	Tool       string
	Usage      *Usage
	IsLast     bool
	IsQuestion bool // the agent waits for an answer to its text
	Detail     any  // for example a ToolStep
}

const MaxToolArgumentBytes = 4 << 10

type ToolStep struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	// Arguments is the beginning of the arguments, without apparent secrets.
	Arguments string      `json:"arguments,omitempty"`
	Outcome   ToolOutcome `json:"outcome,omitempty"` // "" at the beginning of the call
}

type EndEvent struct{ Outcome Outcome }

func (ProvisionalEvent) progress() {}
func (EndEvent) progress()         {}

const sinkTimeout = time.Second

type reporter struct {
	mu   sync.Mutex
	sink Sink
}

func Report(ctx context.Context, p ProvisionalEvent) {
	if r := requestFrom(ctx); r != nil {
		r.reporter.report(p, false)
	}
}

func HasSink(ctx context.Context) bool {
	r := requestFrom(ctx)
	return r != nil && r.reporter != nil
}

func (r *reporter) report(p Progress, isEnd bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sink := r.sink
	if sink == nil {
		return
	}
	returned := make(chan bool, 1)
	go func() {
		defer func() { returned <- recover() == nil }() // a panic of the Sink must not fail the call
		sink(p)
	}()
	hasReturned := false
	select {
	case hasReturned = <-returned:
	case <-time.After(sinkTimeout):
	}
	if isEnd || !hasReturned {
		r.sink = nil
	}
}

type PartialAnswer struct {
	Text      string
	Usage     *Usage
	StartedAt time.Time
}

// StorePartialAnswer decides an undecided call with a partial answer, or with a void if the vacant
// can no longer answer.
func (h *Host) StorePartialAnswer(ctx context.Context, pair Pair, position uint64, reason CutReason, p PartialAnswer, o Options) (State, error) {
	row, err := h.loadCall(ctx, pair, position)
	if err != nil {
		return Unknown, err
	}
	d, tip, err := h.findDecidingRow(ctx, pair, &row)
	switch {
	case err != nil:
		return Unknown, err
	case d != nil && d.Kind == RowAnswer:
		return Answered, nil
	case d != nil || tipSupersedes(tip, &row):
		return Unanswered, nil
	}
	void := func(failure error, isFinal bool) (State, error) {
		return h.voidAndReport(ctx, pair, &row, voidReason{cause: NewCause(failure, 0), failure: failure, opts: &o, usage: p.Usage, hasRun: true, isFinal: isFinal})
	}
	r := &request{pair: pair, hash: row.Hash, opts: o, cutReason: reason}
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
	reply, isDiscarded, err := h.settleAndAnswer(ctx, r, &row, tip, msg, p.StartedAt)
	var settlementErr *settlementError
	switch {
	case errors.Is(err, ErrUncertain):
		return Pending, pendingPaymentError(err)
	case errors.As(err, &settlementErr):
		return void(settlementErr.cause, true)
	case problem.Is(err, problem.SubstrateTooLarge):
		return void(err, true)
	case err != nil:
		return Unknown, err
	case reply != nil:
		return Answered, nil
	case isDiscarded && h.allowsLateSettlement(&row):
		// The complete answer is stored, but may be unsettled.
		return void(problem.New(problem.Canceled, "the caller canceled the call"), false)
	}
	return Unanswered, nil
}

// fetchSigner ignores a spent budget, because the answer exists and can still be signed.
func (h *Host) fetchSigner(ctx context.Context, r *request) (hosted bool, err error) {
	r.vacant, hosted, err = h.Directory.Vacant(ctx, r.pair.Vacant, false)
	if err == nil && hosted && r.vacant.Ready != nil {
		if err = r.vacant.Ready(ctx); problem.Is(err, problem.BudgetSpent) {
			err = nil
		}
	}
	return hosted, h.unavailableError(err)
}
