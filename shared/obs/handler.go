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

// Failure is the attribute of a line that tells why an agent failed.
const Failure = "failure"

// CallLine is the message of the row of a call, which is written when the call ends.
const CallLine = "send"

// Pair is the attribute with the short ids of a call's caller and vacant, joined by ">", Seq the one
// with the number of its envelope, and Operation the one with the caller's request in the words of its
// protocol. Verdict is the attribute that marks the log line of a call; the first such line carries the invocation's counts. Status is the attribute with its HTTP
// status, Cut the one that says why its answer ends before its end. Restored and Floor
// are times of a call that a vacant refused after it came back from a backup: when it came
// back, and until when calls must have been signed to be refused.
const (
	Pair      = "pair"
	Seq       = "seq"
	Operation = "operation"
	Verdict   = "verdict"
	Status    = "status"
	Cut       = "cut"
	Restored  = "restored"
	Floor     = "floor"
)

// Config holds the attributes that every line of a process carries.
type Config struct {
	Stage, Function string
	Version         string // not on lines of calls, which are many
	// Units makes metrics of trips, wcu and rcu, which are billed by the metric.
	// Otherwise they are in the lines only.
	Units bool
	// Public marks a process that strangers call: lines of requests that wrote
	// nothing are limited to QuietPerSecond.
	Public bool
}

// NewHandler writes records as JSON lines. Within an invocation (With), each
// line has its request and trace id; the line of the call also has its counts
// and an embedded metrics block, from which CloudWatch makes the metrics calls,
// ms, failed and refused by stage and function, and with Units also trips, wcu
// and rcu. Zero values except ms are omitted, because log bytes are billed. A
// line with more than one call sums up requests that were not logged; its ms
// belongs to the last.
//
// The line of a successful call has at most 470 bytes, which the cost model
// relies on.
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

// part is a group and its attributes; the first part has no name.
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

// Handle writes one line. Attributes that obs adds stand at the root whatever
// groups are open, because CloudWatch looks for metrics only there.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	var attrs []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	verdict, outcome := judged(attrs, r.Level)
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
		line.AddAttrs(present("request", u.call.Request)...)
		line.AddAttrs(present("trace", u.call.Trace)...)
	} else {
		line.AddAttrs(present("version", h.config.Version)...)
	}
	line.AddAttrs(attrs...)
	if u != nil && verdict {
		if counts, first := u.tell(); first {
			held, ok := h.quiet.take(counts, outcome, r.Time)
			if !ok {
				return nil
			}
			held.add(counts, outcome)
			line.Time = time.Time{} // the metrics block has the time
			line.AddAttrs(metrics(u, held, counts.Writes, timed(attrs), h.config.Units, r.Time)...)
		}
	}
	return h.out.Handle(ctx, line)
}

func present(key, value string) []slog.Attr {
	if value == "" {
		return nil
	}
	return []slog.Attr{slog.String(key, value)}
}

// judged returns the outcome of the request that a record with a verdict is about. Level Error means
// failed.
func judged(attrs []slog.Attr, level slog.Level) (hasVerdict bool, o problem.Outcome) {
	status, verdict := 0, ""
	for _, a := range attrs {
		switch {
		case a.Key == Status && a.Value.Kind() == slog.KindInt64:
			status = int(a.Value.Int64())
		case a.Key == Verdict:
			hasVerdict, verdict = true, a.Value.String()
		}
	}
	if level >= slog.LevelError {
		return hasVerdict, problem.Failed
	}
	return hasVerdict, problem.OutcomeOf(verdict, status)
}

// timed reports whether the record itself holds the duration of its call.
func timed(attrs []slog.Attr) bool {
	for _, a := range attrs {
		if a.Key == "ms" && a.Value.Kind() == slog.KindFloat64 {
			return true
		}
	}
	return false
}

// metrics returns the counts of an invocation, added to the counts of the
// requests that it sums up, and the block that names them. units tells whether
// trips and units are metrics.
func metrics(u *Usage, h held, writes float64, timed, units bool, at time.Time) []slog.Attr {
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
	return append(attrs, Block(at, names...))
}

// Block returns the embedded metrics block of a line. The named members must be
// numbers at the root of the line; they become metrics by stage and function.
func Block(at time.Time, names ...string) slog.Attr {
	var b strings.Builder
	b.WriteString(`{"Timestamp":` + strconv.FormatInt(at.UnixMilli(), 10) +
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
