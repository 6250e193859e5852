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

// Job is a background job. A local host runs its jobs at intervals. On AWS, a scheduled function
// runs the jobs that the table of functions lists for it.
type Job struct {
	Name  string
	Every time.Duration // interval on a local host; zero if local hosts do not run the job
	Run   func(context.Context) (JobResult, error)

	delayFirstRun bool            // on a local host, the first run starts after one interval
	wake          <-chan struct{} // starts the next run on a local host early
}

// JobResult is the result of a run.
type JobResult struct {
	Counts []slog.Attr
	// Message is a message that a local host logs with the counts. It may be "".
	Message      string
	MessageLevel slog.Level // level of Message
	RunAgain     bool       // the next run should start immediately
}

// JobParts contains dependencies of jobs that only some processes have. Server.Jobs omits a job if
// the process lacks one of its dependencies: a field of JobParts, accounts, a feed, files or the
// host's identity.
type JobParts struct {
	Log      *translog.Log                                  // log to be sealed
	Bookings func(context.Context) (due.SweepResult, error) // processes due bookings
	Exports  func() (blob.Blobs, error)                     // storage of exported usage
	// Expire deletes at most the given number of expired documents and returns how many it deleted.
	// It is nil if the store deletes expired documents itself.
	Expire func(ctx context.Context, most int) (int, error)
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
			// An incomplete fold would lead to incomplete exports.
			counts, err := h.foldAndLog(ctx, meter)
			files := 0
			if err == nil {
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
			endedCount, err := h.Billing.EndTrees(ctx) // complete interrupted revocations of keys
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
			// A stage (a deployment on AWS) runs the job every minute. Listing the bucket costs
			// money, so only one run per hour does it.
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
		// Text keys expire after hours, and keys in memory after minutes.
		days, err := h.SweepKeys(ctx)
		result := JobResult{Counts: []slog.Attr{slog.Int("days", days)}}
		if days > 0 {
			result.Message = "expired text keys are destroyed; their texts can no longer be read"
		}
		// Texts.Sweep keeps all keys if the newest key is old, because the clock may be wrong. An old key
		// is normal on a host without calls, so the job does not fail. A local host logs the reason only
		// once, because it would otherwise log the same reason for days.
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
		// ProbeEndpoints lists the endpoints of other hosts that answer. A local host also probes after
		// each publication.
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
		// A local host creates the key when a receipt needs it.
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

// signingTimeout limits the creation of a signing key, so that other jobs of the function have time
// left.
const signingTimeout = 10 * time.Second

// Loop runs the job immediately and then at intervals, until ctx ends. It logs failures and
// retries. A job that runs more often than once per minute does not log the same failure
// repeatedly.
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

// trimmedMetric counts the folds in which rows were missing, because the store's feed keeps rows
// only for a limited time. A fold adds new rows of calls to the usage.
const trimmedMetric = "trimmed"

func (h *Server) foldAndLog(ctx context.Context, meter *usage.Meter) ([]slog.Attr, error) {
	log := h.config.Log
	folded, err := meter.Fold(ctx)
	for _, entry := range folded.UnreportedHours {
		// This line is logged once per vacant and hour. The unreported tokens are free.
		log.LogAttrs(ctx, slog.LevelWarn, "the agent does not report all tokens, so a price by tokens does not charge for them",
			slog.String("vacant", entry.Vacant.String()), slog.Time("hour", entry.Start), slog.Uint64("answers", entry.UnreportedAnswers))
	}
	if errors.Is(err, store.ErrTrimmed) {
		// Fold has already folded the remaining rows. The alarm usage-lost counts these lines.
		log.LogAttrs(ctx, slog.LevelError, "the stream dropped rows before they were folded into usage", slog.String("cause", err.Error()),
			slog.Int(trimmedMetric, 1), obs.MetricsBlock(h.config.Now(), trimmedMetric))
		err = nil
	}
	return []slog.Attr{slog.Int("rows", folded.Rows), slog.Int("commits", folded.Commits)}, err
}

// SweepKeys deletes expired text keys and wipes keys that were in memory for a long time. It
// returns the number of days whose texts became unreadable.
func (h *Server) SweepKeys(ctx context.Context) (days int, err error) {
	h.Vacants.Sweep()
	h.SigningKeys.Sweep()
	return h.Texts.Sweep(ctx)
}
