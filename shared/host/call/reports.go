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

// Usage counts the work of a vacant's agent for a call. The row that decides the
// call keeps it. It contains only numbers.
type Usage struct {
	In     uint64 `json:"in"` // tokens, as the provider counts them
	Out    uint64 `json:"out"`
	Cached uint64 `json:"cached"` // a part of In
	Turns  uint64 `json:"turns"`  // requests to a model
	Tools  uint64 `json:"tools"`  // calls of tools
	Agent  uint64 `json:"agent_version"`
	// Fallback: the fallback model, not the first, was asked last.
	Fallback bool `json:"fallback"`
	// Unreported counts the turns for which the provider reported no usage. It is at least 1 if
	// In or Out contains an estimate.
	Unreported uint64 `json:"unreported"`
	Cost       uint64 `json:"cost"` // micro-dollars
	// Prices is the version of the host's table of models that Cost is based on; 0 if
	// the call was free, or if the agent states its price.
	Prices uint64 `json:"price_version"`
}

// EstimatedTokens estimates the tokens of a text that no provider has counted: 4 bytes a token,
// rounded up.
func EstimatedTokens(bytes int) uint64 { return uint64((bytes + 3) / 4) }

// numbers are the fields in their order in a row. Later versions append to them.
func (u *Usage) numbers() []*uint64 {
	return []*uint64{&u.In, &u.Out, &u.Cached, &u.Turns, &u.Tools, &u.Agent, &u.Unreported, &u.Cost, &u.Prices}
}

// freeNumbers is the number of numbers in a row without Cost and Prices.
const freeNumbers = 7

// appendUsage appends the number of numbers, the numbers, and a byte of flags.
func appendUsage(b []byte, u *Usage) []byte {
	all := u.numbers()
	if u.Cost == 0 && u.Prices == 0 {
		all = all[:freeNumbers]
	}
	b = append(b, byte(len(all)))
	for _, n := range all {
		b = binary.AppendUvarint(b, min(*n, math.MaxInt64))
	}
	flags := byte(0)
	if u.Fallback {
		flags |= 1
	}
	return append(b, flags)
}

func (d *reader) usage() *Usage {
	u := &Usage{}
	all := u.numbers()
	switch int(d.byte()) {
	case freeNumbers:
		all = all[:freeNumbers]
	case len(all):
	default:
		d.bad = true
		return u
	}
	for _, n := range all {
		*n = d.uvarint(math.MaxInt64)
	}
	flags := d.byte()
	d.bad = d.bad || flags > 1
	u.Fallback = flags == 1
	return u
}

// Cut is the reason that an answer ends early; "" for a whole answer. A cut answer is signed,
// kept and charged like a whole one.
type Cut string

const (
	CutCanceled Cut = "canceled" // the caller canceled the call when it could read a part of the answer
	CutLength   Cut = "length"   // the vacant's model was not allowed to say more
	CutBudget   Cut = "budget"   // the same, because a budget left less than the agent's max_tokens
	CutUnknown  Cut = "unknown"  // the model gave an unknown reason, so the answer may be incomplete
)

// cuts are the reasons; the index is the byte in a row. Later versions append to them.
var cuts = []Cut{"", CutCanceled, CutLength, CutBudget, CutUnknown}

// Remark returns the text of an answer for a model, which would otherwise take a part for the
// whole.
func (c Cut) Remark(text string) string {
	switch c {
	case "":
		return text
	case CutUnknown:
		return text + "\n[This answer may be incomplete: it ended for an unknown reason.]"
	}
	return text + "\n[This answer was cut off here: " + string(c) + ".]"
}

func (c Cut) code() byte { return byte(max(slices.Index(cuts, c), 0)) }

func (d *reader) cut() Cut {
	code := int(d.byte())
	if d.bad = d.bad || code == 0 || code >= len(cuts); d.bad {
		return ""
	}
	return cuts[code]
}

// AgentLog lists the tools that an agent called or was not offered in a call, for operators. The
// line of the call in the log has it; rows do not.
type AgentLog struct {
	// Tools are the first MaxToolUses calls of tools, in their order. MoreTools counts the
	// others.
	Tools     []ToolUse
	MoreTools int
	LeftOut   LeftOut
	// MaxTokens is the least that budgets left of max_tokens, zero if they left all of it.
	MaxTokens int
}

// Limits of the tools that a call reports.
const (
	MaxToolUses  = 64
	MaxLeftOut   = 20
	MaxToolTexts = 64 << 10 // bytes of texts
)

// ToolUse is a call of a tool.
type ToolUse struct {
	Name    string      `json:"name"`
	MS      int64       `json:"ms"`
	Outcome ToolOutcome `json:"outcome"`
}

// ToolOutcome is the end of a call of a tool.
type ToolOutcome string

// The outcomes.
const (
	ToolOK       ToolOutcome = "ok"
	ToolError    ToolOutcome = "error"
	ToolRefused  ToolOutcome = "refused" // the agent's settings do not allow it
	ToolTimedOut ToolOutcome = "timed out"
)

// LeftOut is the tools that an agent is not offered: MaxLeftOut of them, as far as possible with
// every reason that any of them has, and how many more there are.
type LeftOut struct {
	Tools []LeftOutTool `json:"tools,omitempty"`
	More  int           `json:"more,omitempty"`
}

// LeftOutTool is a tool that an agent is not offered.
type LeftOutTool struct {
	Name   string `json:"name"` // as the agent's settings would name it
	Reason string `json:"reason"`
	Change string `json:"change"` // the setting, or the change at its server, that offers it
}

// Add adds a tool.
func (l *LeftOut) Add(t LeftOutTool) {
	if len(l.Tools) < MaxLeftOut {
		l.Tools = append(l.Tools, t)
		return
	}
	l.More++
	named := map[string]bool{t.Reason: true}
	if slices.ContainsFunc(l.Tools, func(other LeftOutTool) bool { return other.Reason == t.Reason }) {
		return
	}
	for i, other := range l.Tools {
		if named[other.Reason] { // the reason is named by another tool
			l.Tools[i] = t
			return
		}
		named[other.Reason] = true
	}
}

// Join adds the tools of another list.
func (l *LeftOut) Join(other LeftOut) {
	for _, t := range other.Tools {
		l.Add(t)
	}
	l.More += other.More
}

// Count returns the number of tools.
func (l *LeftOut) Count() int { return len(l.Tools) + l.More }

// Attrs returns the log as attributes of a line.
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

// ToolTexts is a call of a tool with its texts. They are sealed with the text of the row that
// decides the call, and can be read as long as that.
type ToolTexts struct {
	ToolUse
	Arguments string `json:"arguments"`
	Result    string `json:"result"`
	Cut       bool   `json:"cut,omitempty"` // a text ends early, because the texts of the call are too long
}

// toolRun is a call of a tool.
type toolRun struct {
	ToolTexts
	began time.Time // zero after its end
}

// meter collects the reports of one call.
type meter struct {
	now func() time.Time

	mu    sync.Mutex
	usage *Usage
	cut   Cut
	log   AgentLog // without tools
	tools []*toolRun
	kept  int // bytes of the texts of tools
}

type meterKey struct{}

// record changes the meter of the call that ctx belongs to, if there is one.
func record(ctx context.Context, change func(*meter)) {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		change(m)
	}
}

// Note replaces the usage of the call that ctx belongs to. Outside a call Note does nothing.
func Note(ctx context.Context, u Usage) { record(ctx, func(m *meter) { m.usage = &u }) }

// NoteCut marks the answer that the behaviour of the call that ctx belongs to returns next.
func NoteCut(ctx context.Context, why Cut) { record(ctx, func(m *meter) { m.cut = why }) }

// NoteLeftOut records the tools that the agent of the call that ctx belongs to is not offered.
func NoteLeftOut(ctx context.Context, l LeftOut) { record(ctx, func(m *meter) { m.log.LeftOut = l }) }

// NoteMaxTokens records that budgets left only n of the agent's max_tokens for a turn of the call
// that ctx belongs to.
func NoteMaxTokens(ctx context.Context, n int) {
	record(ctx, func(m *meter) {
		if m.log.MaxTokens == 0 || n < m.log.MaxTokens {
			m.log.MaxTokens = n
		}
	})
}

// BeginTool records a call of a tool by the agent of the call that ctx belongs to. end records its
// outcome. A tool that has not ended when its call ends timed out. arguments and result are
// kept with the row that decides the call, sealed; they are "" if the agent does not keep them.
func BeginTool(ctx context.Context, name, arguments string) (end func(o ToolOutcome, result string)) {
	var run *toolRun
	record(ctx, func(m *meter) {
		if len(m.tools) == MaxToolUses {
			m.log.MoreTools++
			return
		}
		run = &toolRun{ToolTexts{ToolUse: ToolUse{Name: name, Outcome: ToolTimedOut}}, m.now()}
		run.Arguments = m.room(run, arguments)
		m.tools = append(m.tools, run)
	})
	return func(o ToolOutcome, result string) {
		record(ctx, func(m *meter) {
			if run != nil {
				run.Outcome, run.MS, run.began = o, m.since(run), time.Time{}
				run.Result = m.room(run, result)
			}
		})
	}
}

// room returns the beginning of a text of run for which MaxToolTexts leave room.
func (m *meter) room(run *toolRun, text string) string {
	if n := MaxToolTexts - m.kept; len(text) > n {
		text, run.Cut = strings.ToValidUTF8(text[:n], ""), true
	}
	m.kept += len(text)
	return text
}

// since returns the milliseconds that a run has taken. Clocks can step back.
func (m *meter) since(run *toolRun) int64 { return max(m.now().Sub(run.began).Milliseconds(), 0) }

// copyTo sets in r the usage, cut, agent log and tool texts that were recorded.
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
			r.tools = append(r.tools, run.ToolTexts)
		}
	}
	if len(l.Tools) > 0 || l.LeftOut.Count() > 0 || l.MaxTokens > 0 {
		r.out.AgentLog = &l
	}
}

// maxSealed bounds an answer with the texts of its tools, so that the row fits into every store
// with any answer that fits by itself.
const maxSealed = store.MaxData - 4<<10

// appendTools appends tools to an encoded payload. Texts that exceed maxSealed with it are cut,
// the last ones first.
func appendTools(b []byte, tools []ToolTexts) []byte {
	if len(tools) == 0 {
		return b
	}
	all := encodeTools(tools)
	if excess := len(b) + len(all) - maxSealed; excess > 0 {
		tools = slices.Clone(tools)
		for i := len(tools) - 1; i >= 0 && excess > 0; i-- {
			for _, text := range []*string{&tools[i].Result, &tools[i].Arguments} {
				n := min(max(excess, 0), len(*text))
				excess -= n
				*text = strings.ToValidUTF8((*text)[:len(*text)-n], "")
				tools[i].Cut = tools[i].Cut || n > 0
			}
		}
		if all = encodeTools(tools); len(b)+len(all) > maxSealed {
			return b
		}
	}
	b[0] |= hasTools
	return append(b, all...)
}

func encodeTools(tools []ToolTexts) (b []byte) {
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

// tools reads to the end.
func (d *reader) tools() (all []ToolTexts) {
	for len(d.b) > 0 && !d.bad {
		var t ToolTexts
		t.Name, t.Outcome = d.string(), ToolOutcome(d.string())
		t.MS = int64(d.uvarint(math.MaxInt64))
		t.Cut = d.byte() == 1
		t.Arguments, t.Result = d.string(), d.string()
		all = append(all, t)
	}
	return all
}

// ToolCalls are the calls of tools within a call whose texts are kept.
type ToolCalls struct {
	Position uint64      `json:"position"` // of the request row
	Answered bool        `json:"answered"`
	Tools    []ToolTexts `json:"tools"`
}

// maxToolCalls bounds ReadToolCalls in bytes of texts.
const maxToolCalls = 1 << 20

// ReadToolCalls reads the pair's last n decisions and returns the kept texts of tools, the newest
// first, and how many of these decisions have texts whose key is destroyed.
func (h *Host) ReadToolCalls(ctx context.Context, pair Pair, n int) (all []ToolCalls, destroyed int, err error) {
	rows, err := h.Store.Rows(ctx, pair.Responses(), math.MaxInt64, n, store.Descending)
	if err != nil {
		return nil, 0, h.unavailable(err)
	}
	size := 0
	for _, row := range rows {
		r, err := DecodeResponse(row)
		if err != nil {
			return nil, 0, h.damaged(pair.Responses(), err)
		}
		sealed, bound, hasText := r.SealedCause(pair)
		if r.Kind != RowVoid {
			sealed, bound = r.Sealed(pair)
		} else if !hasText {
			continue
		}
		plain, err := h.Texts.Open(ctx, bound, sealed)
		switch {
		case errors.Is(err, textkeys.ErrGone):
			destroyed++
			continue
		case errors.Is(err, textkeys.ErrDamaged):
			return nil, 0, h.damaged(pair.Responses(), fmt.Errorf("%w: a text does not open", errRow))
		case err != nil:
			return nil, 0, h.unavailable(err)
		}
		var tools []ToolTexts
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
			return nil, 0, h.damaged(pair.Responses(), err)
		}
		if len(tools) == 0 {
			continue
		}
		if all = append(all, ToolCalls{r.Request, r.Kind == RowAnswer, tools}); size > maxToolCalls {
			break
		}
		for _, t := range tools {
			size += len(t.Arguments) + len(t.Result)
		}
	}
	return all, destroyed, nil
}

// AgentError is in the chain of a Behaviour's error if the agent's response is not a valid answer. Its text does not
// contain the body.
type AgentError struct {
	Status int           // HTTP status
	After  time.Duration // time after which the agent wants to be asked again; zero if it says nothing
	Body   string        // the beginning of the body, without secrets (substrate.Excerpt)
	Err    error
}

func (e *AgentError) Error() string { return e.Err.Error() }

// Unwrap returns what was wrong.
func (e *AgentError) Unwrap() error { return e.Err }

// Cause tells the operator why a call is void. It is stored with the void, sealed
// like texts; callers get the kind only.
type Cause struct {
	Kind string `json:"kind"` // word of the problem's kind
	Text string `json:"text"`
	// Status and Body are the agent's answer; 0 and "" if there was none.
	Status int    `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
	TookMS int64  `json:"took_ms"`
}

// maxCause bounds Text in bytes.
const maxCause = 500

// CauseOf describes a failure of a behaviour that took so long.
func CauseOf(failure error, took time.Duration) *Cause {
	err := problem.Of(failure)
	c := &Cause{Kind: err.Kind.String(), Text: err.Text(), TookMS: took.Milliseconds()}
	if err.Err != nil {
		c.Text = problem.Plain(err.Err)
	}
	c.Text = c.Text[:min(len(c.Text), maxCause)]
	var agent *AgentError
	if errors.As(failure, &agent) {
		c.Status, c.Body = agent.Status, agent.Body
	}
	return c
}

// String is the cause in one line.
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
	Tools []byte `json:"tools,omitempty"` // as encodeTools returns them
}

// SealedCause returns the sealed cause of a void and its additional data; ok is
// false if there is none.
func (r *ResponseRow) SealedCause(pair Pair) (s textkeys.Sealed, bound []byte, ok bool) {
	return r.Text, sealedTo(pair.Responses(), r.RequestHash), r.Kind == RowVoid && r.Text.Box != nil
}

// ParseCause reads an opened cause.
func ParseCause(plain []byte) (c Cause, err error) {
	if err := json.Unmarshal(plain, &c); err != nil {
		return c, fmt.Errorf("%w: cause of %d bytes", errRow, len(plain))
	}
	return c, nil
}

// Sink receives the progress of a call: Provisional events between its accept and its
// decision, each before the agent produces the next one, and then one Ended. A refused
// call has no progress. The calls of a Sink do not overlap. A Sink that panics or takes
// longer than sinkTimeout is not called again; the call continues.
type Sink func(Progress)

// Progress is Provisional or Ended.
type Progress interface{ progress() }

// Provisional is an event of the vacant's agent. It is neither signed nor stored, and the
// call may still fail. Exactly one field is set.
type Provisional struct {
	Text    string // a part of the answer
	Thought string
	Tool    string // the name of a tool that the agent calls
	Usage   *Usage // the usage so far
	Last    bool   // no text follows
	// Detail is an agent's report besides the text of its answer. A Sink that knows its
	// type (package task) reads it; others ignore it.
	Detail any
}

// Ended is the result of Send: the reply, signed and stored, or the failure.
type Ended struct{ Outcome Outcome }

func (Provisional) progress() {}
func (Ended) progress()       {}

// sinkTimeout bounds how long a call waits for its Sink.
const sinkTimeout = time.Second

// reporter calls the Sink of one call. A nil reporter does nothing.
type reporter struct {
	mu   sync.Mutex
	sink Sink // nil after the end, or if the Sink failed
}

// Report reports an event to the Sink of the call that ctx belongs to. Without a Sink,
// and after the call was decided, Report does nothing.
func Report(ctx context.Context, p Provisional) {
	if r := runningIn(ctx); r != nil {
		r.reporter.report(p, false)
	}
}

// HasSink reports whether the call that ctx belongs to has a Sink.
func HasSink(ctx context.Context) bool {
	r := runningIn(ctx)
	return r != nil && r.reporter != nil
}

// report returns when the Sink has returned or failed. end marks the last event.
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
	Usage *Usage    // usage that the charge depends on; nil if nothing was used
	Began time.Time // when the behaviour began
}

// Cut decides an accepted call by a part of its answer, if the call is undecided. State is how
// it was decided: Answered, or Unanswered if it was voided before, or if the vacant that would
// sign is gone or cannot sign this text.
func (h *Host) Cut(ctx context.Context, pair Pair, position uint64, why Cut, p Partial, o Options) (State, error) {
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
	case d != nil || closedBy(tip, &row):
		return Unanswered, nil
	}
	void := func(failure error, final bool) (State, error) {
		return h.voidFor(ctx, pair, &row, closing{cause: CauseOf(failure, 0), failure: failure, opts: &o, used: p.Usage, ran: true, final: final})
	}
	r := &request{pair: pair, hash: row.Hash, opts: o, cut: why} // without began: others have the counts
	r.out.Usage = p.Usage
	msg := envelope.Message{Role: envelope.RoleAgent, Parts: []string{p.Text}}
	if err := msg.Check(); err != nil {
		return void(problem.Wrap(problem.BehaviourFailed, err, "the vacant gave an answer that cannot be signed"), false)
	}
	if hosted, err := h.fetchSigner(ctx, r); err != nil {
		return Unknown, err
	} else if !hosted {
		return void(problem.New(problem.Gone, "the vacant is not hosted here any more"), false)
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
	case closed && h.late(&row):
		// Its executor has kept the whole answer, which may wait for its settlement.
		return void(problem.New(problem.Canceled, "the caller canceled the call"), false)
	}
	return Unanswered, nil
}

// fetchSigner reads the vacant that signs the answer to a call that has run. A spent budget keeps it
// from running another call, but not from signing.
func (h *Host) fetchSigner(ctx context.Context, r *request) (hosted bool, err error) {
	r.vacant, hosted, err = h.Directory.Vacant(ctx, r.pair.Vacant, false)
	if err == nil && hosted && r.vacant.Ready != nil {
		if err = r.vacant.Ready(ctx); problem.Is(err, problem.BudgetSpent) {
			err = nil
		}
	}
	return hosted, h.unavailable(err)
}
