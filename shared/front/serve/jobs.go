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
	Run   func(context.Context) (Done, error)

	later bool            // on a local host, the first run starts after one interval
	wake  <-chan struct{} // starts the next run on a local host early
}

// Done is the result of a run.
type Done struct {
	Counts []slog.Attr
	// News is a message that a local host logs with the counts. It may be "".
	News  string
	Level slog.Level // level of News
	More  bool       // the next run should start immediately
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
		jobs = append(jobs, Job{Name: "usage", Every: time.Second, Run: func(ctx context.Context) (Done, error) {
			folded, err := h.fold(ctx, meter)
			return Done{Counts: folded}, err
		}})
	}
	// Jobs run concurrently, so each job needs a meter of its own.
	if meter := h.Meter(); meter != nil && p.Exports != nil {
		jobs = append(jobs, Job{Name: "exports", Every: time.Hour, Run: func(ctx context.Context) (Done, error) {
			// An incomplete fold would lead to incomplete exports.
			counts, err := h.fold(ctx, meter)
			files := 0
			if err == nil {
				var blobs blob.Blobs
				if blobs, err = p.Exports(); err == nil {
					files, err = (&exports.Exporter{Billing: h.Billing, Blobs: blobs}).Run(ctx)
				}
			}
			return Done{Counts: append(counts, slog.Int("files", files))}, err
		}})
	}
	if h.Billing != nil {
		jobs = append(jobs, Job{Name: "calls", Every: time.Minute, Run: func(ctx context.Context) (Done, error) {
			swept, err := h.Billing.Sweep(ctx, h.Calls)
			done := Done{Counts: []slog.Attr{slog.Int("decided", swept.Finished), slog.Int("waiting", swept.Waiting)}}
			if swept.Waiting > 0 {
				done.News, done.Level = "priced calls wait for their settlement", slog.LevelWarn
			}
			return done, err
		}}, Job{Name: "keys", Every: time.Minute, Run: func(ctx context.Context) (Done, error) {
			ended, err := h.Billing.EndTrees(ctx) // complete interrupted revocations of keys
			return Done{Counts: []slog.Attr{slog.Int("ended", ended)}}, err
		}})
	}
	if p.Bookings != nil {
		jobs = append(jobs, Job{Name: "bookings", Every: time.Minute, Run: func(ctx context.Context) (Done, error) {
			swept, err := p.Bookings(ctx)
			return Done{Counts: []slog.Attr{slog.Int("bookings", swept.Waiting)}}, err
		}})
	}
	if h.Files != nil {
		jobs = append(jobs, Job{Name: "files", Every: time.Hour, later: true, Run: func(ctx context.Context) (Done, error) {
			// A stage (a deployment on AWS) runs the job every minute. Listing the bucket costs
			// money, so only one run per hour does it.
			if h.config.Stage != "" && h.config.Now().Minute() != 0 {
				return Done{}, nil
			}
			deleted, err := h.Files.Sweep(ctx)
			return Done{Counts: []slog.Attr{slog.Int("blobs", deleted)}}, err
		}})
	}
	leapt := ""
	probe := registry.NewProbe(h.Outbound)
	jobs = append(jobs, Job{Name: "texts", Every: time.Minute, Run: func(ctx context.Context) (Done, error) {
		// Text keys expire after hours, and keys in memory after minutes.
		days, err := h.Maintain(ctx)
		done := Done{Counts: []slog.Attr{slog.Int("days", days)}}
		if days > 0 {
			done.News = "expired text keys are destroyed; their texts can no longer be read"
		}
		// Maintain keeps all keys if the newest key is old, because the clock may be wrong. An old
		// key is normal on a host without calls, so the job does not fail. A local host logs the
		// reason only once, because it would otherwise log the same reason for days.
		if leap := new(textkeys.ClockLeapError); errors.As(err, &leap) {
			done.Counts, err = append(done.Counts, slog.String("kept", leap.Error())), nil
			if leapt != leap.Error() {
				leapt = leap.Error()
				done.News, done.Level = "expired text keys were not destroyed", slog.LevelWarn
			}
		}
		return done, err
	}}, Job{Name: "nextday", Every: time.Minute, Run: func(ctx context.Context) (Done, error) {
		return Done{}, h.Texts.CreateNext(ctx)
	}}, Job{Name: "endpoints", Every: time.Minute, wake: h.Registry.Waiting(), Run: func(ctx context.Context) (Done, error) {
		// Reach lists the endpoints of other hosts that answer. A local host also probes after each
		// publication.
		reached, err := h.Registry.Reach(ctx, probe)
		return Done{Counts: []slog.Attr{slog.Int("listed", reached.Listed), slog.Int("silent", reached.Silent), slog.Bool("more", reached.More)}, More: reached.More}, err
	}})
	if p.Expire != nil {
		jobs = append(jobs, Job{Name: "expiry", Every: time.Minute, Run: func(ctx context.Context) (Done, error) {
			const page = 1000
			n, err := p.Expire(ctx, page)
			return Done{Counts: []slog.Attr{slog.Int("expired", n)}, More: n == page}, err
		}})
	}
	if h.config.HoldsIdentity {
		// A local host creates the key when a receipt needs it.
		jobs = append(jobs, Job{Name: "signing", Run: func(ctx context.Context) (Done, error) {
			ctx, cancel := context.WithTimeout(ctx, signingTime)
			defer cancel()
			return Done{}, h.SigningKeys.RenewIfDue(ctx)
		}})
	}
	if p.Log != nil {
		jobs = append(jobs, Job{Name: "log", Every: time.Minute, later: true, Run: func(ctx context.Context) (Done, error) {
			sealed, err := p.Log.Seal(ctx)
			if problem.Is(err, problem.Conflict) {
				return Done{Counts: []slog.Attr{slog.String("sealing", "another")}}, nil
			}
			done := Done{Counts: []slog.Attr{slog.Uint64("size", sealed.Size), slog.Uint64("added", sealed.Added)}}
			if err == nil && sealed.Added > 0 {
				done.News = "the log is sealed"
			}
			return done, err
		}})
	}
	return jobs
}

// signingTime limits the creation of a signing key, so that other jobs of the function have time
// left.
const signingTime = 10 * time.Second

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
	if j.later && !wait() {
		return
	}
	for last := ""; ; {
		done, err := j.Run(ctx)
		if done.News != "" {
			log.LogAttrs(ctx, done.Level, done.News, done.Counts...)
		}
		failure := ""
		if err != nil {
			failure = err.Error()
		}
		if err != nil && ctx.Err() == nil && (failure != last || j.Every >= time.Minute) {
			log.LogAttrs(ctx, slog.LevelError, "a job failed", slog.String("job", j.Name), slog.String("cause", failure))
		}
		last = failure
		if (err != nil || !done.More) && !wait() {
			return
		}
	}
}

// trimmed is a metric. It counts the folds in which rows were missing, because the store's feed
// keeps rows only for a limited time. A fold adds new rows of calls to the usage.
const trimmed = "trimmed"

func (h *Server) fold(ctx context.Context, meter *usage.Meter) ([]slog.Attr, error) {
	log := h.config.Log
	folded, err := meter.Fold(ctx)
	for _, entry := range folded.Unreported {
		// This line is logged once per vacant and hour. The unreported tokens are free.
		log.LogAttrs(ctx, slog.LevelWarn, "the agent does not report all tokens, so a price by tokens does not charge for them",
			slog.String("vacant", entry.Vacant.String()), slog.Time("hour", entry.Start), slog.Uint64("answers", entry.Unreported))
	}
	if errors.Is(err, store.ErrTrimmed) {
		// Fold has already folded the remaining rows. The alarm usage-lost counts these lines.
		log.LogAttrs(ctx, slog.LevelError, "the stream dropped rows before they were folded into usage", slog.String("cause", err.Error()),
			slog.Int(trimmed, 1), obs.Block(h.config.Now(), trimmed))
		err = nil
	}
	return []slog.Attr{slog.Int("rows", folded.Rows), slog.Int("commits", folded.Commits)}, err
}

// Maintain deletes expired text keys and wipes keys that were in memory for a long time. It returns
// the number of days whose texts became unreadable.
func (h *Server) Maintain(ctx context.Context) (days int, err error) {
	h.Vacants.Sweep()
	h.SigningKeys.Sweep()
	return h.Texts.Sweep(ctx)
}
