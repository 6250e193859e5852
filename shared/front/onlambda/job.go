package onlambda

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/tamper"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// WorkFunc handles an event and returns attributes for the log.
type WorkFunc func(ctx context.Context, event json.RawMessage) ([]slog.Attr, error)

// RunWork runs work for each invocation of f. It never returns.
func RunWork(f functions.Function, work func(*Env) WorkFunc, features ...Feature) {
	env, _ := openOrExit(f, os.Stdout, features...)
	lambda.Start((&job{log: env.Log, work: work(env)}).invoke)
}

// RunJobs runs, at each invocation of f, the jobs that f.Jobs names. A failed job does not stop the
// following jobs. RunJobs never returns.
func RunJobs(f functions.Function, jobParts func(*Env) serve.JobParts, features ...Feature) {
	RunWork(f, func(env *Env) WorkFunc {
		var p serve.JobParts
		if jobParts != nil {
			p = jobParts(env)
		}
		p.Log = env.openRegistryLog()
		allJobs := env.Server.Jobs(p)
		var jobs []serve.Job
		for _, name := range strings.Fields(f.Jobs) {
			i := slices.IndexFunc(allJobs, func(j serve.Job) bool { return j.Name == name })
			if i < 0 {
				// The main package did not pass a part that the job needs.
				panic("this process has no job " + name)
			}
			jobs = append(jobs, allJobs[i])
		}
		return func(ctx context.Context, _ json.RawMessage) (counts []slog.Attr, err error) {
			for _, j := range jobs {
				result, jobErr := j.Run(ctx)
				counts, err = append(counts, result.Counts...), errors.Join(err, jobErr)
			}
			return counts, err
		}
	}, features...)
}

func RunTamperWatch() {
	env, logHandler := openOrExit(functions.Tamper, os.Stdout)
	watcher := tamper.New(logHandler, wallClock)
	lambda.Start((&job{log: env.Log, work: func(ctx context.Context, event json.RawMessage) ([]slog.Attr, error) {
		tampered, err := watcher.Check(ctx, event)
		return []slog.Attr{slog.Int("rows", tampered)}, err
	}}).invoke)
}

// job runs work for each event. After an error, Lambda retries the event.
type job struct {
	log       *slog.Logger
	work      WorkFunc
	coldStart coldStart
}

func (j *job) invoke(ctx context.Context, event json.RawMessage) (err error) {
	ctx, _ = j.coldStart.withUsage(ctx)
	var attrs []slog.Attr
	defer func() {
		if cause := recover(); cause != nil {
			err = panicError(cause)
		}
		verdict, level := "ok", slog.LevelInfo
		if err != nil {
			p := problem.AsError(err)
			verdict, level = p.Kind.String(), slog.LevelError
			attrs = append(attrs, slog.String("cause", p.Error()))
			// Lambda stores the error with the event, so the error must not contain the cause.
			err = problem.New(p.Kind, "%s", p.Text())
		}
		j.log.LogAttrs(context.WithoutCancel(ctx), level, "done", append(attrs, slog.String(obs.AttrVerdict, verdict))...)
	}()
	attrs, err = j.work(ctx, event)
	return err
}
