package call

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"
)

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

// Bounds of an AgentLog.
const (
	MaxToolUses = 64
	MaxLeftOut  = 20
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

// toolRun is a call of a tool that may still run.
type toolRun struct {
	ToolTexts
	began time.Time
}

// BeginTool notes a call of a tool by the agent of the call that ctx belongs to. end notes its
// outcome. A tool that has not ended when its call ends timed out. arguments and result are
// kept with the row that decides the call, sealed; they are "" if the agent does not keep them.
func BeginTool(ctx context.Context, name, arguments string) (end func(o ToolOutcome, result string)) {
	m, ok := ctx.Value(meterKey{}).(*meter)
	if !ok {
		return func(ToolOutcome, string) {}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.tools) == MaxToolUses {
		m.log.MoreTools++
		return func(ToolOutcome, string) {}
	}
	run := &toolRun{ToolTexts{ToolUse: ToolUse{Name: name, Outcome: ToolTimedOut}}, m.now()}
	run.Arguments = m.room(run, arguments)
	m.tools = append(m.tools, run)
	return func(o ToolOutcome, result string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		run.Outcome, run.MS = o, m.since(run)
		run.began = time.Time{}
		run.Result = m.room(run, result)
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

// texts returns a run until now.
func (m *meter) texts(run *toolRun) ToolTexts {
	t := run.ToolTexts
	if !run.began.IsZero() {
		t.MS = m.since(run)
	}
	return t
}

// toolTexts returns the texts until now. m.mu is held.
func (m *meter) toolTexts() (all []ToolTexts) {
	if m.kept == 0 {
		return nil
	}
	for _, run := range m.tools {
		all = append(all, m.texts(run))
	}
	return all
}

// since returns the milliseconds that a run has taken. Clocks can step back.
func (m *meter) since(run *toolRun) int64 { return max(m.now().Sub(run.began).Milliseconds(), 0) }

// NoteLeftOut notes the tools that the agent of the call that ctx belongs to is not offered.
func NoteLeftOut(ctx context.Context, l LeftOut) {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.log.LeftOut = l
	}
}

// NoteMaxTokens notes that budgets left only n of the agent's max_tokens for a turn of the call
// that ctx belongs to.
func NoteMaxTokens(ctx context.Context, n int) {
	if m, ok := ctx.Value(meterKey{}).(*meter); ok {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.log.MaxTokens == 0 || n < m.log.MaxTokens {
			m.log.MaxTokens = n
		}
	}
}

// agentLog returns the log until now, nil if there is nothing to tell. m.mu is held.
func (m *meter) agentLog() *AgentLog {
	l := m.log
	for _, run := range m.tools {
		l.Tools = append(l.Tools, m.texts(run).ToolUse)
	}
	l.LeftOut.Tools = slices.Clone(l.LeftOut.Tools)
	if len(l.Tools) == 0 && l.LeftOut.Count() == 0 && l.MaxTokens == 0 {
		return nil
	}
	return &l
}
