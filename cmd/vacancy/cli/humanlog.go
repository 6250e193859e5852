package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/message"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/obs"
)

// logEvent is one line of a host's log.
type logEvent struct {
	at     time.Time
	level  string
	msg    string
	fields map[string]any
}

// readEvent reads a JSON line of a journal; ok is false if it is none.
func readEvent(line []byte) (e logEvent, ok bool) {
	if json.Unmarshal(line, &e.fields) != nil || e.fields == nil {
		return e, false
	}
	e.at, _ = time.Parse(time.RFC3339Nano, textOf(e.fields[slog.TimeKey]))
	e.level, e.msg = textOf(e.fields[slog.LevelKey]), textOf(e.fields[slog.MessageKey])
	return e, true
}

// eventOf makes an event of a record, with the values that its JSON would have.
func eventOf(r slog.Record, before []slog.Attr) logEvent {
	e := logEvent{at: r.Time, level: r.Level.String(), msg: r.Message, fields: map[string]any{}}
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
		e.fields[a.Key] = v
		return true
	}
	for _, a := range before {
		add(a)
	}
	r.Attrs(add)
	return e
}

// isCall reports whether e is about a request of a pair.
func (e *logEvent) isCall() bool { return textOf(e.fields[fieldPair]) != "" }

// of reports whether e is about a request of a pair with a short id.
func (e *logEvent) of(short string) bool {
	from, to, _ := strings.Cut(textOf(e.fields[fieldPair]), ">")
	return from == short || to == short
}

// failed reports whether e tells of something that went wrong.
func (e *logEvent) failed() bool {
	verdict := textOf(e.fields[obs.Verdict])
	return e.level == slog.LevelError.String() || verdict != "" && verdict != "ok"
}

// vacant is what e calls the vacant: its name, else its short id.
func (e *logEvent) vacant() string {
	if name := textOf(e.fields[fieldVacant]); name != "" {
		return name
	}
	_, to, _ := strings.Cut(textOf(e.fields[fieldPair]), ">")
	return to
}

func (e *logEvent) caller() string {
	if name := textOf(e.fields[fieldCaller]); name != "" {
		return name
	}
	from, _, _ := strings.Cut(textOf(e.fields[fieldPair]), ">")
	return from
}

// Colours of a terminal.
const (
	green  = "\x1b[32m"
	red    = "\x1b[31m"
	dim    = "\x1b[2m"
	normal = "\x1b[0m"
)

// line is e for people.
func (e *logEvent) line(colour bool) string {
	paint := func(c, s string) string {
		if !colour {
			return s
		}
		return c + s + normal
	}
	var b strings.Builder
	b.WriteString(paint(dim, e.at.Local().Format(time.TimeOnly)) + "  ")
	if !e.isCall() {
		if e.level != slog.LevelInfo.String() {
			b.WriteString(paint(red, printable(e.level)) + " ")
		}
		b.WriteString(printable(e.msg))
		for _, name := range orderedFields(e.fields) {
			fmt.Fprintf(&b, " %s=%s", printable(name), printable(textOf(e.fields[name])))
		}
		return b.String()
	}
	verdict, shade := textOf(e.fields[obs.Verdict]), green
	if e.failed() {
		shade = red
	}
	what := e.msg
	if what == message.CallLine {
		what = "call"
	}
	if seq := textOf(e.fields[message.Seq]); seq != "" {
		what += " " + seq
	} else if operation := textOf(e.fields["operation"]); operation != "" {
		what += " " + operation
	}
	fmt.Fprintf(&b, "%s -> %s  %s  %s  %s ms", printable(e.caller()), printable(e.vacant()),
		printable(what), paint(shade, printable(verdict)), textOf(e.fields["ms"]))
	if why := e.why(); why != "" {
		b.WriteString("  " + printable(why))
	}
	if cut := textOf(e.fields[obs.Cut]); cut != "" {
		b.WriteString("  cut: " + printable(cut))
	}
	b.WriteString(used(e.usage()))
	return b.String()
}

// usage is what the vacant's agent used for the call; nil if it does not say.
func (e *logEvent) usage() *call.Usage {
	if e.fields["usage"] == nil {
		return nil
	}
	b, err := json.Marshal(e.fields["usage"])
	u := &call.Usage{}
	if err != nil || json.Unmarshal(b, u) != nil {
		return nil
	}
	return u
}

// why is the cause of a failure: what the agent did, or what the host says.
func (e *logEvent) why() string {
	failure, ok := e.fields["failure"].(map[string]any)
	if !ok {
		return textOf(e.fields["cause"])
	}
	why := textOf(failure["text"])
	if body := textOf(failure["body"]); body != "" {
		why += fmt.Sprintf("; it answered %q", body)
	}
	return why
}

// colours reports whether standard error is a terminal that shows colours.
func (a *app) colours() bool {
	f, ok := a.err.(*os.File)
	if !ok || a.env["NO_COLOR"] != "" || a.env["TERM"] == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// humanLog is a slog.Handler that writes lines for people. Of many calls in one
// second the first lines are written, and then how many more there were.
type humanLog struct {
	out    io.Writer
	colour bool
	before []slog.Attr

	mu     sync.Mutex
	second time.Time
	lines  int            // of calls in this second
	more   map[string]int // verdicts of calls that were not written
	timer  *time.Timer
}

// maxLines is how many calls of one second are written.
const maxLines = 5

func (h *humanLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h *humanLog) Handle(_ context.Context, r slog.Record) error {
	e := eventOf(r, h.before)
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.isCall() {
		if second := e.at.Truncate(time.Second); !second.Equal(h.second) {
			h.summarise()
			h.second, h.lines = second, 0
		}
		if h.lines++; h.lines > maxLines {
			if h.more == nil {
				h.more = map[string]int{}
				h.timer = time.AfterFunc(time.Second, func() {
					h.mu.Lock()
					defer h.mu.Unlock()
					h.summarise()
				})
			}
			h.more[textOf(e.fields[obs.Verdict])]++
			return nil
		}
	}
	_, err := io.WriteString(h.out, e.line(h.colour)+"\n")
	return err
}

// summarise writes what was left out.
func (h *humanLog) summarise() {
	if h.more == nil {
		return
	}
	h.timer.Stop()
	all, kinds := 0, []string{}
	for _, verdict := range slices.Sorted(maps.Keys(h.more)) {
		all += h.more[verdict]
		kinds = append(kinds, fmt.Sprintf("%d %s", h.more[verdict], printable(verdict)))
	}
	fmt.Fprintf(h.out, "%s  and %d more calls: %s\n", h.second.Local().Format(time.TimeOnly), all, strings.Join(kinds, ", "))
	h.more = nil
}

// Close writes what was left out.
func (h *humanLog) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.summarise()
}

func (h *humanLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &humanLog{out: h.out, colour: h.colour, before: append(slices.Clone(h.before), attrs...)}
}

// WithGroup returns the handler as it is: a line for people has no groups.
func (h *humanLog) WithGroup(string) slog.Handler { return h }
