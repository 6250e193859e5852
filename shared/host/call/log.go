package call

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"

	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Log logs and counts the calls that the pipeline decides. Handlers log refusals and must
// call CountUnaccepted. A nil Log has no effect.
type Log struct {
	Logger *slog.Logger
	// LogsCauses logs responses of agents. It must be set only where the log is as private as the
	// texts.
	LogsCauses bool

	answered, refused, failed, canceled atomic.Uint64
}

type Counts struct{ Answered, Refused, Failed, Canceled uint64 }

func (c *Counts) Calls() uint64 { return c.Answered + c.Failed + c.Canceled }

func (l *Log) CountUnaccepted(o problem.Outcome) {
	switch {
	case l == nil:
	case o == problem.Refused:
		l.refused.Add(1)
	case o == problem.Failed:
		l.failed.Add(1)
	}
}

func (l *Log) Counts() Counts {
	return Counts{l.answered.Load(), l.refused.Load(), l.failed.Load(), l.canceled.Load()}
}

type callEnd struct {
	voidReason
	pair      Pair
	row       *RequestRow
	hasReply  bool
	cutReason CutReason
}

var (
	errNotAnswered = problem.New(problem.DeadlineExceeded, "the call was not answered in time")
	errReset       = problem.New(problem.Canceled, "the caller reset the chain before the call ended")
)

func (h *Host) logEnd(ctx context.Context, e callEnd) {
	l := h.Log
	if l == nil {
		return
	}
	verdict, status, outcome := problem.VerdictOK, http.StatusOK, problem.Answered
	var p *problem.Error
	if !e.hasReply {
		p = errNotAnswered
		if e.failure != nil {
			p = problem.AsError(e.failure)
		}
		verdict, status, outcome = p.Kind.String(), p.Kind.Forms().HTTPStatus, p.Kind.Outcome()
	}
	switch {
	case e.hasReply:
		l.answered.Add(1)
	case outcome == problem.Refused && e.failure != errReset:
		l.canceled.Add(1)
	default:
		l.CountUnaccepted(outcome)
	}
	if l.Logger == nil {
		return
	}
	level := slog.LevelInfo
	attrs := append(make([]slog.Attr, 0, 8), slog.String(obs.AttrPair, e.pair.Caller.Short()+">"+e.pair.Vacant.Short()), slog.Int64(obs.AttrSeq, e.row.Seq))
	if e.opts.Operation != "" {
		attrs = append(attrs, slog.String(obs.AttrOperation, e.opts.Operation))
	}
	if e.opts.Task != "" {
		attrs = append(attrs, slog.String("task", e.opts.Task))
	}
	if e.cutReason != "" {
		attrs = append(attrs, slog.String(obs.AttrCut, string(e.cutReason)))
	}
	if e.usage != nil {
		attrs = append(attrs, slog.Any("usage", e.usage))
	}
	attrs = append(attrs, e.agentLog.Attrs()...)
	if outcome == problem.Failed {
		level = slog.LevelError
		if l.LogsCauses && e.cause != nil {
			attrs = append(attrs, slog.Any(obs.AttrFailure, e.cause))
		}
		attrs = append(attrs, slog.String("cause", p.Error()))
	}
	start := cmp.Or(e.arrival, e.opts.Arrival)
	if start.IsZero() {
		start = e.row.Time // another process accepted the call and stored only this time
	}
	attrs = append(attrs, slog.String(obs.AttrVerdict, verdict), slog.Int(obs.AttrStatus, status), obs.DurationAttr(max(h.Now().Sub(start), 0)))
	if !e.logsRequestCounts {
		ctx = obs.WithoutCounts(ctx)
	}
	l.Logger.LogAttrs(context.WithoutCancel(ctx), level, obs.CallMessage, attrs...)
}
