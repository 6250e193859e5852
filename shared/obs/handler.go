package obs

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// Namespace is the CloudWatch namespace of a host's metrics.
const Namespace = "Vacancy"

// AttrFailure is the attribute with the reason for which an agent failed.
const AttrFailure = "failure"

// CallLine is the message of the line that is written when a call ends.
const CallLine = "send"

// Attributes of log lines.
const (
	AttrPair      = "pair"      // short ids of a call's caller and vacant, joined by ">"
	AttrSeq       = "seq"       // number of the call's envelope
	AttrOperation = "operation" // the caller's request, as its protocol names it
	AttrVerdict   = "verdict"   // result of a request; the first line with a verdict carries the invocation's counts
	AttrStatus    = "status"    // HTTP status
	AttrCut       = "cut"       // reason for which an answer ended early
	AttrRestored  = "restored"  // time at which a vacant was restored from a backup
	AttrFloor     = "floor"     // a restored vacant refuses calls signed until this time
)

// Config contains the attributes of every line of a process.
type Config struct {
	Stage, Function string
	Version         string // omitted on lines of invocations, because they are many
	// Units publishes the counts trips, wcu and rcu as CloudWatch metrics, which are billed
	// individually. By default, these counts are only in the log lines.
	Units bool
	// Public marks a process that strangers can call: lines of requests that wrote no data are
	// limited to QuietPerSecond.
	Public bool
}

// NewHandler returns a handler that writes records as JSON lines. The cost model relies on a limit
// of 470 bytes for the line of a successful call.
func NewHandler(w io.Writer, c Config) slog.Handler {
	h := &handler{out: slog.NewJSONHandler(w, nil), config: c}
	if c.Public {
		h.quiet = &quiet{}
	}
	return h
}

type handler struct {
	out    slog.Handler
	config Config
	quiet  *quiet
	within []part // attributes and groups of WithAttrs and WithGroup, outermost first
}

// part is the group of one WithGroup call, or the attributes of one WithAttrs call.
type part struct {
	group string
	attrs []slog.Attr
}

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.out.Enabled(ctx, l) }

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	return h.with(part{attrs: attrs})
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.with(part{group: name})
}

func (h *handler) with(p part) slog.Handler {
	within := append(h.within[:len(h.within):len(h.within)], p)
	return &handler{out: h.out, config: h.config, quiet: h.quiet, within: within}
}

// Handle writes one line. The attributes of package obs are always at the root of the line, even within
// groups, because CloudWatch finds metrics only at the root.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	var attrs []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	verdict, outcome := outcomeOf(attrs, r.Level)
	for i := len(h.within) - 1; i >= 0; i-- {
		p := h.within[i]
		attrs = append(p.attrs[:len(p.attrs):len(p.attrs)], attrs...)
		if p.group != "" {
			attrs = []slog.Attr{{Key: p.group, Value: slog.GroupValue(attrs...)}}
		}
	}
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	line.AddAttrs(slog.String("stage", h.config.Stage), slog.String("function", h.config.Function))
	u := UsageOf(ctx)
	if u != nil {
		line.AddAttrs(optionalAttr("request", u.call.Request)...)
		line.AddAttrs(optionalAttr("trace", u.call.Trace)...)
	} else {
		line.AddAttrs(optionalAttr("version", h.config.Version)...)
	}
	line.AddAttrs(attrs...)
	if u != nil && verdict {
		if counts, first := u.takeCounts(); first {
			held, ok := h.quiet.take(counts, outcome, r.Time)
			if !ok {
				return nil
			}
			held.add(counts, outcome)
			line.Time = time.Time{} // the metrics block contains the time
			line.AddAttrs(metrics(u, held, counts.Writes, hasDuration(attrs), h.config.Units, r.Time)...)
		}
	}
	return h.out.Handle(ctx, line)
}

func optionalAttr(key, value string) []slog.Attr {
	if value == "" {
		return nil
	}
	return []slog.Attr{slog.String(key, value)}
}

// outcomeOf reports whether a record has a verdict, and the outcome of its request. Level Error means
// failed.
func outcomeOf(attrs []slog.Attr, level slog.Level) (hasVerdict bool, o problem.Outcome) {
	status, verdict := 0, ""
	for _, a := range attrs {
		switch {
		case a.Key == AttrStatus && a.Value.Kind() == slog.KindInt64:
			status = int(a.Value.Int64())
		case a.Key == AttrVerdict:
			hasVerdict, verdict = true, a.Value.String()
		}
	}
	if level >= slog.LevelError {
		return hasVerdict, problem.Failed
	}
	return hasVerdict, problem.OutcomeOf(verdict, status)
}

func hasDuration(attrs []slog.Attr) bool {
	for _, a := range attrs {
		if a.Key == "ms" && a.Value.Kind() == slog.KindFloat64 {
			return true
		}
	}
	return false
}

func metrics(u *Usage, h suppressed, writes float64, timed, units bool, timestamp time.Time) []slog.Attr {
	names := []string{"calls", "ms"}
	attrs := []slog.Attr{slog.Int("calls", h.requests)}
	if !timed {
		attrs = append(attrs, slog.Float64("ms", u.Milliseconds()))
	}
	unit := func(name string, v slog.Value) {
		attrs = append(attrs, slog.Attr{Key: name, Value: v})
		if units {
			names = append(names, name)
		}
	}
	if h.Trips > 0 {
		unit("trips", slog.IntValue(h.Trips))
	}
	if writes > 0 {
		unit("wcu", slog.Float64Value(writes))
	}
	if h.Reads > 0 {
		unit("rcu", slog.Float64Value(h.Reads))
	}
	if h.KMS > 0 {
		attrs = append(attrs, slog.Int("kms", h.KMS))
	}
	if u.call.Cold {
		attrs = append(attrs, slog.Bool("cold", true))
	}
	if h.failed > 0 {
		names, attrs = append(names, "failed"), append(attrs, slog.Int("failed", h.failed))
	}
	if h.refused > 0 {
		names, attrs = append(names, "refused"), append(attrs, slog.Int("refused", h.refused))
	}
	return append(attrs, Block(timestamp, names...))
}

// Block returns the embedded metrics block of a line. The named members must be numbers at the root
// of the line. They become metrics by stage and function.
func Block(timestamp time.Time, names ...string) slog.Attr {
	var b strings.Builder
	b.WriteString(`{"Timestamp":` + strconv.FormatInt(timestamp.UnixMilli(), 10) +
		`,"CloudWatchMetrics":[{"Namespace":"` + Namespace + `","Dimensions":[["stage","function"]],"Metrics":[`)
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"Name":` + strconv.Quote(name) + `}`)
	}
	b.WriteString(`]}]}`)
	return slog.Any("_aws", json.RawMessage(b.String()))
}
