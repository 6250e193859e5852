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

const Namespace = "Vacancy"

const AttrFailure = "failure"

const CallMessage = "send"

const (
	AttrPair      = "pair" // short ids of caller and vacant, joined by ">"
	AttrSeq       = "seq"
	AttrOperation = "operation"
	AttrVerdict   = "verdict"
	AttrStatus    = "status"
	AttrCut       = "cut"
	AttrRestored  = "restored"
	AttrFloor     = "floor" // a restored vacant refuses calls signed until this time
)

type Config struct {
	Stage, Function string
	Version         string
	// PublishUnits publishes trips, wcu and rcu as CloudWatch metrics, which are billed individually.
	PublishUnits bool
	// Public marks a process that strangers can call. It limits the log lines of requests that wrote
	// no data.
	Public bool
}

// NewHandler returns a handler that writes JSON lines. The cost model relies on at most 470 bytes
// for the line of a successful call.
func NewHandler(w io.Writer, c Config) slog.Handler {
	h := &handler{out: slog.NewJSONHandler(w, nil), config: c}
	if c.Public {
		h.limiter = &lineLimiter{}
	}
	return h
}

type handler struct {
	out     slog.Handler
	config  Config
	limiter *lineLimiter
	groups  []attrGroup
}

type attrGroup struct {
	name  string
	attrs []slog.Attr
}

func (h *handler) Enabled(ctx context.Context, l slog.Level) bool { return h.out.Enabled(ctx, l) }

func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	return h.cloneWith(attrGroup{attrs: attrs})
}

func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	return h.cloneWith(attrGroup{name: name})
}

func (h *handler) cloneWith(group attrGroup) slog.Handler {
	groups := append(h.groups[:len(h.groups):len(h.groups)], group)
	return &handler{out: h.out, config: h.config, limiter: h.limiter, groups: groups}
}

// Handle writes the attributes of package obs at the root of the line even within groups, because
// CloudWatch finds metrics only there.
func (h *handler) Handle(ctx context.Context, r slog.Record) error {
	var attrs []slog.Attr
	r.Attrs(func(a slog.Attr) bool {
		attrs = append(attrs, a)
		return true
	})
	hasVerdict, outcome := outcomeOf(attrs, r.Level)
	for i := len(h.groups) - 1; i >= 0; i-- {
		group := h.groups[i]
		attrs = append(group.attrs[:len(group.attrs):len(group.attrs)], attrs...)
		if group.name != "" {
			attrs = []slog.Attr{{Key: group.name, Value: slog.GroupValue(attrs...)}}
		}
	}
	line := slog.NewRecord(r.Time, r.Level, r.Message, r.PC)
	line.AddAttrs(slog.String("stage", h.config.Stage), slog.String("function", h.config.Function))
	u := UsageOf(ctx)
	if u != nil {
		line.AddAttrs(optionalAttr("request", u.invocation.RequestID)...)
		line.AddAttrs(optionalAttr("trace", u.invocation.TraceID)...)
	} else {
		line.AddAttrs(optionalAttr("version", h.config.Version)...)
	}
	line.AddAttrs(attrs...)
	if u != nil && hasVerdict {
		if counts, isFirst := u.claimCounts(); isFirst {
			summary, ok := h.limiter.allow(counts, outcome, r.Time)
			if !ok {
				return nil
			}
			summary.add(counts, outcome)
			line.Time = time.Time{} // the metrics block contains the time
			line.AddAttrs(metricAttrs(u, summary, counts.Writes, hasDuration(attrs), h.config.PublishUnits, r.Time)...)
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

func metricAttrs(u *Usage, summary requestSummary, writes float64, isDurationLogged, publishUnits bool, timestamp time.Time) []slog.Attr {
	names := []string{"calls", "ms"}
	attrs := []slog.Attr{slog.Int("calls", summary.requests)}
	if !isDurationLogged {
		attrs = append(attrs, slog.Float64("ms", u.ElapsedMilliseconds()))
	}
	addUnit := func(name string, v slog.Value) {
		attrs = append(attrs, slog.Attr{Key: name, Value: v})
		if publishUnits {
			names = append(names, name)
		}
	}
	if summary.Trips > 0 {
		addUnit("trips", slog.IntValue(summary.Trips))
	}
	if writes > 0 {
		addUnit("wcu", slog.Float64Value(writes))
	}
	if summary.Reads > 0 {
		addUnit("rcu", slog.Float64Value(summary.Reads))
	}
	if summary.KMS > 0 {
		attrs = append(attrs, slog.Int("kms", summary.KMS))
	}
	if u.invocation.Cold {
		attrs = append(attrs, slog.Bool("cold", true))
	}
	if summary.failed > 0 {
		names, attrs = append(names, "failed"), append(attrs, slog.Int("failed", summary.failed))
	}
	if summary.refused > 0 {
		names, attrs = append(names, "refused"), append(attrs, slog.Int("refused", summary.refused))
	}
	return append(attrs, MetricsBlock(timestamp, names...))
}

// MetricsBlock requires that the named members are numbers at the root of the line.
func MetricsBlock(timestamp time.Time, names ...string) slog.Attr {
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
