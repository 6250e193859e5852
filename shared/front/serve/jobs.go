package serve

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/due"
	"github.com/vacancy-host/vacancy/shared/host/keys/textkeys"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/usage/exports"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/blob"
)

// Job is a background job. A local host runs it at intervals. On AWS, a scheduled function runs it.
type Job struct {
	Name  string
	Every time.Duration // zero if local hosts do not run the job
	Run   func(context.Context) (JobResult, error)

	delayFirstRun bool
	wake          <-chan struct{}
}

type JobResult struct {
	Counts       []slog.Attr
	Message      string
	MessageLevel slog.Level
	RunAgain     bool
}

type JobParts struct {
	Log      *translog.Log
	Bookings func(context.Context) (due.SweepResult, error)
	Exports  func() (blob.Blobs, error)
	Expire   func(ctx context.Context, most int) (int, error)
}

func (h *Server) Jobs(p JobParts) []Job {
	var jobs []Job
	if meter := h.Meter(); meter != nil {
		jobs = append(jobs, Job{Name: "usage", Every: time.Second, Run: func(ctx context.Context) (JobResult, error) {
			folded, err := h.foldAndLog(ctx, meter)
			return JobResult{Counts: folded}, err
		}})
	}
	// Jobs run concurrently, so each job needs a meter of its own.
	if meter := h.Meter(); meter != nil && p.Exports != nil {
		jobs = append(jobs, Job{Name: "exports", Every: time.Hour, Run: func(ctx context.Context) (JobResult, error) {
			counts, err := h.foldAndLog(ctx, meter)
			files := 0
			if err == nil { // an incomplete fold would lead to incomplete exports
				var blobs blob.Blobs
				if blobs, err = p.Exports(); err == nil {
					files, err = (&exports.Exporter{Billing: h.Billing, Blobs: blobs}).Run(ctx)
				}
			}
			return JobResult{Counts: append(counts, slog.Int("files", files))}, err
		}})
	}
	if h.Billing != nil {
		jobs = append(jobs, Job{Name: "calls", Every: time.Minute, Run: func(ctx context.Context) (JobResult, error) {
			sweep, err := h.Billing.Sweep(ctx, h.Calls)
			result := JobResult{Counts: []slog.Attr{slog.Int("decided", sweep.Finished), slog.Int("waiting", sweep.Waiting)}}
			if sweep.Waiting > 0 {
				result.Message, result.MessageLevel = "priced calls wait for their settlement", slog.LevelWarn
			}
			return result, err
		}}, Job{Name: "keys", Every: time.Minute, Run: func(ctx context.Context) (JobResult, error) {
			endedCount, err := h.Billing.EndTrees(ctx) // completes interrupted revocations of keys
			return JobResult{Counts: []slog.Attr{slog.Int("ended", endedCount)}}, err
		}})
	}
	if p.Bookings != nil {
		jobs = append(jobs, Job{Name: "bookings", Every: time.Minute, Run: func(ctx context.Context) (JobResult, error) {
			sweep, err := p.Bookings(ctx)
			return JobResult{Counts: []slog.Attr{slog.Int("bookings", sweep.Waiting)}}, err
		}})
	}
	if h.Files != nil {
		jobs = append(jobs, Job{Name: "files", Every: time.Hour, delayFirstRun: true, Run: func(ctx context.Context) (JobResult, error) {
			// Listing the bucket costs money, and a stage on AWS runs this job every minute.
			if h.config.Stage != "" && h.config.Now().Minute() != 0 {
				return JobResult{}, nil
			}
			deleted, err := h.Files.Sweep(ctx)
			return JobResult{Counts: []slog.Attr{slog.Int("blobs", deleted)}}, err
		}})
	}
	lastClockLeap := ""
	probe := registry.NewProbe(h.Outbound)
	jobs = append(jobs, Job{Name: "texts", Every: time.Minute, Run: func(ctx context.Context) (JobResult, error) {
		days, err := h.SweepKeys(ctx)
		result := JobResult{Counts: []slog.Attr{slog.Int("days", days)}}
		if days > 0 {
			result.Message = "expired text keys are destroyed; their texts can no longer be read"
		}
		// Texts.Sweep keeps all keys if the newest key is old, because the clock may be wrong. On a
		// host without calls, the newest key is also old, so the job does not fail.
		if leap := new(textkeys.ClockLeapError); errors.As(err, &leap) {
			result.Counts, err = append(result.Counts, slog.String("kept", leap.Error())), nil
			if lastClockLeap != leap.Error() {
				lastClockLeap = leap.Error()
				result.Message, result.MessageLevel = "expired text keys were not destroyed", slog.LevelWarn
			}
		}
		return result, err
	}}, Job{Name: "nextday", Every: time.Minute, Run: func(ctx context.Context) (JobResult, error) {
		return JobResult{}, h.Texts.CreateNext(ctx)
	}}, Job{Name: "endpoints", Every: time.Minute, wake: h.Registry.ProbesNeeded(), Run: func(ctx context.Context) (JobResult, error) {
		probed, err := h.Registry.ProbeEndpoints(ctx, probe)
		return JobResult{Counts: []slog.Attr{slog.Int("listed", probed.Listed), slog.Int("silent", probed.Unanswered), slog.Bool("more", probed.HasMore)}, RunAgain: probed.HasMore}, err
	}})
	if p.Expire != nil {
		jobs = append(jobs, Job{Name: "expiry", Every: time.Minute, Run: func(ctx context.Context) (JobResult, error) {
			const page = 1000
			n, err := p.Expire(ctx, page)
			return JobResult{Counts: []slog.Attr{slog.Int("expired", n)}, RunAgain: n == page}, err
		}})
	}
	if h.config.HoldsIdentity {
		jobs = append(jobs, Job{Name: "signing", Run: func(ctx context.Context) (JobResult, error) {
			ctx, cancel := context.WithTimeout(ctx, signingTimeout)
			defer cancel()
			return JobResult{}, h.SigningKeys.RenewIfDue(ctx)
		}})
	}
	if p.Log != nil {
		jobs = append(jobs, Job{Name: "log", Every: time.Minute, delayFirstRun: true, Run: func(ctx context.Context) (JobResult, error) {
			sealed, err := p.Log.Seal(ctx)
			if problem.Is(err, problem.Conflict) {
				return JobResult{Counts: []slog.Attr{slog.String("sealing", "another")}}, nil
			}
			result := JobResult{Counts: []slog.Attr{slog.Uint64("size", sealed.Size), slog.Uint64("added", sealed.AddedLeaves)}}
			if err == nil && sealed.AddedLeaves > 0 {
				result.Message = "the log is sealed"
			}
			return result, err
		}})
	}
	return jobs
}

const signingTimeout = 10 * time.Second

// Loop runs the job immediately and then at intervals, until ctx ends. It logs failures and retries.
func (j Job) Loop(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(j.Every)
	defer tick.Stop()
	wait := func() bool {
		select {
		case <-j.wake:
		case <-tick.C:
		case <-ctx.Done():
		}
		return ctx.Err() == nil
	}
	if j.delayFirstRun && !wait() {
		return
	}
	for lastFailure := ""; ; {
		result, err := j.Run(ctx)
		if result.Message != "" {
			log.LogAttrs(ctx, result.MessageLevel, result.Message, result.Counts...)
		}
		failure := ""
		if err != nil {
			failure = err.Error()
		}
		if err != nil && ctx.Err() == nil && (failure != lastFailure || j.Every >= time.Minute) {
			log.LogAttrs(ctx, slog.LevelError, "a job failed", slog.String("job", j.Name), slog.String("cause", failure))
		}
		lastFailure = failure
		if (err != nil || !result.RunAgain) && !wait() {
			return
		}
	}
}

const trimmedMetric = "trimmed"

func (h *Server) foldAndLog(ctx context.Context, meter *usage.Meter) ([]slog.Attr, error) {
	log := h.config.Log
	folded, err := meter.Fold(ctx)
	for _, entry := range folded.UnreportedHours {
		log.LogAttrs(ctx, slog.LevelWarn, "the agent does not report all tokens, so a price by tokens does not charge for them",
			slog.String("vacant", entry.Vacant.String()), slog.Time("hour", entry.Start), slog.Uint64("answers", entry.UnreportedAnswers))
	}
	if errors.Is(err, store.ErrTrimmed) {
		// Fold has already folded the remaining rows. The alarm usage-lost counts these log lines.
		log.LogAttrs(ctx, slog.LevelError, "the stream dropped rows before they were folded into usage", slog.String("cause", err.Error()),
			slog.Int(trimmedMetric, 1), obs.MetricsBlock(h.config.Now(), trimmedMetric))
		err = nil
	}
	return []slog.Attr{slog.Int("rows", folded.Rows), slog.Int("commits", folded.Commits)}, err
}

// SweepKeys deletes expired text keys. It returns the number of days whose texts became unreadable.
func (h *Server) SweepKeys(ctx context.Context) (days int, err error) {
	h.Vacants.Sweep()
	h.SigningKeys.Sweep()
	return h.Texts.Sweep(ctx)
}
