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

// LogEvent is one line of a host's log.
type LogEvent struct {
	At     time.Time
	level  string
	msg    string
	Fields map[string]any
}

func ReadEvent(line []byte) (e LogEvent, ok bool) {
	if json.Unmarshal(line, &e.Fields) != nil || e.Fields == nil {
		return e, false
	}
	e.At, _ = time.Parse(time.RFC3339Nano, TextOf(e.Fields[slog.TimeKey]))
	e.level, e.msg = TextOf(e.Fields[slog.LevelKey]), TextOf(e.Fields[slog.MessageKey])
	return e, true
}

func eventOf(r slog.Record, before []slog.Attr) LogEvent {
	e := LogEvent{At: r.Time, level: r.Level.String(), msg: r.Message, Fields: map[string]any{}}
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
	for _, a := range before {
		add(a)
	}
	r.Attrs(add)
	return e
}

func (e *LogEvent) isCall() bool { return TextOf(e.Fields[FieldPair]) != "" }

func (e *LogEvent) IsOf(short string) bool {
	from, to, _ := strings.Cut(TextOf(e.Fields[FieldPair]), ">")
	return from == short || to == short
}

func (e *LogEvent) IsFailed() bool {
	return e.level == slog.LevelError.String() || e.Fields[obs.AttrFailure] != nil || e.outcome() == problem.Failed
}

func (e *LogEvent) IsRefused() bool {
	return e.isCall() && !e.IsFailed() && e.outcome() == problem.Refused
}

func (e *LogEvent) outcome() problem.Outcome {
	verdict := TextOf(e.Fields[obs.AttrVerdict])
	if verdict == "" || e.isRepeat() {
		return ""
	}
	status, _ := e.Fields[obs.AttrStatus].(float64)
	return problem.OutcomeOf(verdict, int(status))
}

// isRepeat reports whether e is a line about a repeated request. Earlier versions of this program
// wrote such lines. The call's outcome is in a line of its own.
func (e *LogEvent) isRepeat() bool {
	switch verdict := TextOf(e.Fields[obs.AttrVerdict]); TextOf(e.Fields["state"]) {
	case "answered", "pending":
		return true
	case "unanswered":
		return verdict == problem.Replay.String()
	}
	return false
}

func (e *LogEvent) Line(w io.Writer) string {
	var b strings.Builder
	b.WriteString(Paint(w, Dim, e.At.Local().Format(time.TimeOnly)) + "  ")
	if !e.isCall() {
		if e.level != slog.LevelInfo.String() {
			b.WriteString(Paint(w, Bad, Printable(e.level)) + " ")
		}
		b.WriteString(Printable(e.msg))
		for _, name := range OrderedFields(e.Fields) {
			fmt.Fprintf(&b, " %s=%s", Printable(name), Printable(TextOf(e.Fields[name])))
		}
		return b.String()
	}
	verdict := TextOf(e.Fields[obs.AttrVerdict])
	what := e.msg
	if what == obs.CallLine {
		what = "call"
	}
	for _, field := range []string{obs.AttrSeq, obs.AttrOperation} {
		if text := TextOf(e.Fields[field]); text != "" {
			what += " " + text
		}
	}
	// Callers and vacants without a name are shown by their short ids.
	from, to, _ := strings.Cut(TextOf(e.Fields[FieldPair]), ">")
	caller, vacant := cmp.Or(TextOf(e.Fields[fieldCaller]), from), cmp.Or(TextOf(e.Fields[FieldVacant]), to)
	fmt.Fprintf(&b, "%s -> %s  %s", Printable(caller), Printable(vacant), Printable(what))
	// A line without a verdict reports an agent's actions and not the end of a call.
	if verdict != "" {
		fmt.Fprintf(&b, "  %s  %s ms", Verdict(w, e.outcome() == problem.Answered, Printable(verdict)), TextOf(e.Fields["ms"]))
	}
	if why := e.why(); why != "" {
		b.WriteString("  " + Printable(why))
	}
	if cut := TextOf(e.Fields[obs.AttrCut]); cut != "" {
		b.WriteString("  cut: " + Printable(cut))
	}
	var u *call.Usage // nil if the vacant's agent does not report its usage
	e.read("usage", &u)
	b.WriteString(UsageText(u))
	b.WriteString(e.agentLog())
	return b.String()
}

func (e *LogEvent) read(field string, v any) {
	if e.Fields[field] == nil {
		return
	}
	if b, err := json.Marshal(e.Fields[field]); err == nil {
		_ = json.Unmarshal(b, v)
	}
}

func (e *LogEvent) agentLog() string {
	var tools []call.ToolUse
	e.read("tools", &tools)
	var parts []string
	for _, t := range tools {
		parts = append(parts, fmt.Sprintf("%s %s %d ms", t.Name, t.Outcome, t.MS))
	}
	if more := TextOf(e.Fields["more_tools"]); more != "" {
		parts = append(parts, more+" more")
	}
	s := ""
	if len(parts) > 0 {
		s += "  tools: " + Printable(strings.Join(parts, ", "))
	}
	var left call.OmittedTools
	e.read("left_out", &left)
	if lines := LeftOutLines(left); len(lines) > 0 {
		s += "  not offered: " + strings.Join(lines, "; ")
	}
	if n := TextOf(e.Fields["max_tokens"]); n != "" {
		s += "  max_tokens: " + Printable(n) + ", because a budget left no more"
	}
	return s
}

func (e *LogEvent) moment(field string) string {
	timestamp, _ := time.Parse(time.RFC3339Nano, TextOf(e.Fields[field]))
	return Moment(timestamp)
}

func (e *LogEvent) why() string {
	failure, ok := e.Fields[obs.AttrFailure].(map[string]any)
	if !ok && e.Fields[obs.AttrRestored] != nil {
		why := "restored from a backup at " + e.moment(obs.AttrRestored)
		if TextOf(e.Fields[obs.AttrVerdict]) == problem.Floor.String() {
			why += ": accepts only messages signed after " + e.moment(obs.AttrFloor)
		}
		return why
	}
	if !ok {
		return TextOf(e.Fields["cause"])
	}
	why := TextOf(failure["text"])
	if body := TextOf(failure["body"]); body != "" {
		why += fmt.Sprintf("; it answered %q", body)
	}
	return why
}

// humanLog is a slog.Handler that writes lines for people. Of the calls in one second it writes the
// first maxLines, and then a line with the number of the other calls.
type humanLog struct {
	*cappedLines
	before []slog.Attr // attributes from WithAttrs
}

func newHumanLog(out io.Writer) *humanLog { return &humanLog{cappedLines: &cappedLines{out: out}} }

// cappedLines is the output of a log. The handlers that WithAttrs returns share it.
type cappedLines struct {
	out io.Writer

	mu     sync.Mutex
	second time.Time
	lines  int            // number of calls in this second, including omitted ones
	more   map[string]int // numbers of calls that were not written, keyed by verdict
	timer  *time.Timer
}

// maxLines limits the call lines in one second.
const maxLines = 5

func (h *humanLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h *humanLog) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pair, verdict := h.readCall(r); pair != "" && !h.hasRoom(r.Time) {
		h.more[verdict]++
		return nil
	}
	e := eventOf(r, h.before)
	_, err := io.WriteString(h.out, e.Line(h.out)+"\n")
	return err
}

// readCall returns the pair and the verdict of a record. It creates no LogEvent, because under load
// most records are only counted.
func (h *humanLog) readCall(r slog.Record) (pair, verdict string) {
	find := func(a slog.Attr) bool {
		switch a.Key {
		case FieldPair:
			pair = a.Value.String()
		case obs.AttrVerdict:
			verdict = a.Value.String()
		}
		return true
	}
	for _, a := range h.before {
		find(a)
	}
	r.Attrs(find)
	return pair, verdict
}

// hasRoom counts a call line and reports whether it may be written. If it may not be written, the
// caller must count it as omitted.
func (h *cappedLines) hasRoom(recordTime time.Time) bool {
	if second := recordTime.Truncate(time.Second); !second.Equal(h.second) {
		h.summarise()
		h.second, h.lines = second, 0
	}
	if h.lines++; h.lines <= maxLines {
		return true
	}
	if h.more == nil {
		h.more = map[string]int{}
		h.timer = time.AfterFunc(time.Second, func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.summarise()
		})
	}
	return false
}

func (h *cappedLines) summarise() {
	if h.more == nil {
		return
	}
	h.timer.Stop()
	total, kinds := 0, []string{}
	for _, verdict := range slices.Sorted(maps.Keys(h.more)) {
		total += h.more[verdict]
		kinds = append(kinds, fmt.Sprintf("%d %s", h.more[verdict], Printable(verdict)))
	}
	fmt.Fprintf(h.out, "%s  and %d more calls: %s\n", h.second.Local().Format(time.TimeOnly), total, strings.Join(kinds, ", "))
	h.more = nil
}

func (h *cappedLines) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.summarise()
}

func (h *humanLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &humanLog{cappedLines: h.cappedLines, before: append(slices.Clone(h.before), attrs...)}
}

func (h *humanLog) WithGroup(string) slog.Handler { return h } // lines for people have no groups
