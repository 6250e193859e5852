package kit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

type LogEvent struct {
	Time    time.Time
	level   string
	message string
	Fields  map[string]any
}

func ParseEvent(line []byte) (e LogEvent, ok bool) {
	if json.Unmarshal(line, &e.Fields) != nil || e.Fields == nil {
		return e, false
	}
	e.Time, _ = time.Parse(time.RFC3339Nano, FieldText(e.Fields[slog.TimeKey]))
	e.level, e.message = FieldText(e.Fields[slog.LevelKey]), FieldText(e.Fields[slog.MessageKey])
	return e, true
}

func newEvent(r slog.Record, attrs []slog.Attr) LogEvent {
	e := LogEvent{Time: r.Time, level: r.Level.String(), message: r.Message, Fields: map[string]any{}}
	add := func(a slog.Attr) bool {
		v := a.Value.Resolve().Any()
		switch v.(type) {
		case string, int64, uint64, float64, bool, nil:
		default:
			if b, err := json.Marshal(v); err == nil {
				var plain any
				_ = json.Unmarshal(b, &plain)
				v = plain
			}
		}
		e.Fields[a.Key] = v
		return true
	}
	for _, a := range attrs {
		add(a)
	}
	r.Attrs(add)
	return e
}

func (e *LogEvent) isCall() bool { return FieldText(e.Fields[FieldPair]) != "" }

func (e *LogEvent) HasParty(shortID string) bool {
	from, to, _ := strings.Cut(FieldText(e.Fields[FieldPair]), ">")
	return from == shortID || to == shortID
}

func (e *LogEvent) IsFailed() bool {
	return e.level == slog.LevelError.String() || e.Fields[obs.AttrFailure] != nil || e.outcome() == problem.Failed
}

func (e *LogEvent) IsRefused() bool {
	return e.isCall() && !e.IsFailed() && e.outcome() == problem.Refused
}

func (e *LogEvent) outcome() problem.Outcome {
	verdict := FieldText(e.Fields[obs.AttrVerdict])
	if verdict == "" || e.isRepeat() {
		return ""
	}
	status, _ := e.Fields[obs.AttrStatus].(float64)
	return problem.OutcomeOf(verdict, int(status))
}

// isRepeat reports whether e is about a repeated request. Earlier versions wrote such lines.
func (e *LogEvent) isRepeat() bool {
	switch verdict := FieldText(e.Fields[obs.AttrVerdict]); FieldText(e.Fields["state"]) {
	case "answered", "pending":
		return true
	case "unanswered":
		return verdict == problem.Replay.String()
	}
	return false
}

func (e *LogEvent) FormatLine(w io.Writer) string {
	var b strings.Builder
	b.WriteString(Paint(w, Dim, e.Time.Local().Format(time.TimeOnly)) + "  ")
	if !e.isCall() {
		if e.level != slog.LevelInfo.String() {
			b.WriteString(Paint(w, Bad, EscapeLine(e.level)) + " ")
		}
		b.WriteString(EscapeLine(e.message))
		for _, name := range VisibleFields(e.Fields) {
			fmt.Fprintf(&b, " %s=%s", EscapeLine(name), EscapeLine(FieldText(e.Fields[name])))
		}
		return b.String()
	}
	verdict := FieldText(e.Fields[obs.AttrVerdict])
	label := e.message
	if label == obs.CallMessage {
		label = "call"
	}
	for _, field := range []string{obs.AttrSeq, obs.AttrOperation} {
		if text := FieldText(e.Fields[field]); text != "" {
			label += " " + text
		}
	}
	from, to, _ := strings.Cut(FieldText(e.Fields[FieldPair]), ">")
	caller, vacant := cmp.Or(FieldText(e.Fields[fieldCaller]), from), cmp.Or(FieldText(e.Fields[FieldVacant]), to)
	fmt.Fprintf(&b, "%s -> %s  %s", EscapeLine(caller), EscapeLine(vacant), EscapeLine(label))
	// A line without a verdict reports an agent's actions, not the end of a call.
	if verdict != "" {
		fmt.Fprintf(&b, "  %s  %s ms", PaintVerdict(w, e.outcome() == problem.Answered, EscapeLine(verdict)), FieldText(e.Fields["ms"]))
	}
	if reason := e.reason(); reason != "" {
		b.WriteString("  " + EscapeLine(reason))
	}
	if cutReason := FieldText(e.Fields[obs.AttrCut]); cutReason != "" {
		b.WriteString("  cut: " + EscapeLine(cutReason))
	}
	var u *call.Usage
	e.decodeField("usage", &u)
	b.WriteString(FormatUsage(u))
	b.WriteString(e.formatAgentLog())
	return b.String()
}

func (e *LogEvent) decodeField(field string, v any) {
	if e.Fields[field] == nil {
		return
	}
	if b, err := json.Marshal(e.Fields[field]); err == nil {
		_ = json.Unmarshal(b, v)
	}
}

func (e *LogEvent) formatAgentLog() string {
	var tools []call.ToolUse
	e.decodeField("tools", &tools)
	var toolTexts []string
	for _, t := range tools {
		toolTexts = append(toolTexts, fmt.Sprintf("%s %s %d ms", t.Name, t.Outcome, t.DurationMS))
	}
	if more := FieldText(e.Fields["more_tools"]); more != "" {
		toolTexts = append(toolTexts, more+" more")
	}
	s := ""
	if len(toolTexts) > 0 {
		s += "  tools: " + EscapeLine(strings.Join(toolTexts, ", "))
	}
	var omitted call.OmittedTools
	e.decodeField("left_out", &omitted)
	if lines := OmittedToolLines(omitted); len(lines) > 0 {
		s += "  not offered: " + strings.Join(lines, "; ")
	}
	if n := FieldText(e.Fields["max_tokens"]); n != "" {
		s += "  max_tokens: " + EscapeLine(n) + ", limited by the rest of a budget"
	}
	return s
}

func (e *LogEvent) formatTimeField(field string) string {
	timestamp, _ := time.Parse(time.RFC3339Nano, FieldText(e.Fields[field]))
	return FormatTime(timestamp)
}

func (e *LogEvent) reason() string {
	failure, ok := e.Fields[obs.AttrFailure].(map[string]any)
	if !ok && e.Fields[obs.AttrRestored] != nil {
		reason := "restored from a backup at " + e.formatTimeField(obs.AttrRestored)
		if FieldText(e.Fields[obs.AttrVerdict]) == problem.BelowFloor.String() {
			reason += ": accepts only messages signed after " + e.formatTimeField(obs.AttrFloor)
		}
		return reason
	}
	if !ok {
		return FieldText(e.Fields["cause"])
	}
	reason := FieldText(failure["text"])
	if body := FieldText(failure["body"]); body != "" {
		reason += fmt.Sprintf("; it answered %q", body)
	}
	return reason
}

// humanLog is a slog.Handler that writes lines for people. If a second has more than
// maxLinesPerSecond calls, it only counts the other calls.
type humanLog struct {
	*cappedOutput
	attrs []slog.Attr
}

func newHumanLog(out io.Writer) *humanLog { return &humanLog{cappedOutput: &cappedOutput{out: out}} }

type cappedOutput struct {
	out io.Writer

	mu            sync.Mutex
	currentSecond time.Time
	lineCount     int
	omittedCalls  map[string]int // keyed by verdict
	summaryTimer  *time.Timer
}

const maxLinesPerSecond = 5

func (h *humanLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h *humanLog) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pair, verdict := h.callAttrs(r); pair != "" && !h.admitLine(r.Time) {
		h.omittedCalls[verdict]++
		return nil
	}
	e := newEvent(r, h.attrs)
	_, err := io.WriteString(h.out, e.FormatLine(h.out)+"\n")
	return err
}

// callAttrs creates no LogEvent, because under load most records are only counted.
func (h *humanLog) callAttrs(r slog.Record) (pair, verdict string) {
	visit := func(a slog.Attr) bool {
		switch a.Key {
		case FieldPair:
			pair = a.Value.String()
		case obs.AttrVerdict:
			verdict = a.Value.String()
		}
		return true
	}
	for _, a := range h.attrs {
		visit(a)
	}
	r.Attrs(visit)
	return pair, verdict
}

// admitLine counts a call line and reports whether it may be written. If it returns false, the
// caller must count the line as omitted.
func (h *cappedOutput) admitLine(recordTime time.Time) bool {
	if second := recordTime.Truncate(time.Second); !second.Equal(h.currentSecond) {
		h.writeSummary()
		h.currentSecond, h.lineCount = second, 0
	}
	if h.lineCount++; h.lineCount <= maxLinesPerSecond {
		return true
	}
	if h.omittedCalls == nil {
		h.omittedCalls = map[string]int{}
		h.summaryTimer = time.AfterFunc(time.Second, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.writeSummary()
		})
	}
	return false
}

func (h *cappedOutput) writeSummary() {
	if h.omittedCalls == nil {
		return
	}
	h.summaryTimer.Stop()
	total, verdicts := 0, []string{}
	for _, verdict := range slices.Sorted(maps.Keys(h.omittedCalls)) {
		total += h.omittedCalls[verdict]
		verdicts = append(verdicts, fmt.Sprintf("%d %s", h.omittedCalls[verdict], EscapeLine(verdict)))
	}
	fmt.Fprintf(h.out, "%s  and %d more calls: %s\n", h.currentSecond.Local().Format(time.TimeOnly), total, strings.Join(verdicts, ", "))
	h.omittedCalls = nil
}

func (h *cappedOutput) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.writeSummary()
}

func (h *humanLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &humanLog{cappedOutput: h.cappedOutput, attrs: append(slices.Clone(h.attrs), attrs...)}
}

func (h *humanLog) WithGroup(string) slog.Handler { return h }
