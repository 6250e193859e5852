package onlambda

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/tamper"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Work handles an event without a waiting caller. It returns attributes for the
// log.
type Work func(ctx context.Context, event json.RawMessage) ([]slog.Attr, error)

// Run runs work for each invocation of f. It does not return.
func Run(f functions.Function, work func(*Env) Work, parts ...Part) {
	env, _ := begin(f, os.Stdout, parts...)
	lambda.Start((&job{log: env.Log, work: work(env)}).invoke)
}

// Watch reports changed and removed rows. It does not return.
func Watch() {
	env, lines := begin(functions.Tamper, os.Stdout)
	watcher := tamper.New(lines, wall)
	lambda.Start((&job{log: env.Log, work: func(ctx context.Context, event json.RawMessage) ([]slog.Attr, error) {
		tampered, err := watcher.Look(ctx, event)
		return []slog.Attr{slog.Int("rows", tampered)}, err
	}}).invoke)
}

// job runs work without a waiting caller. After an error Lambda retries.
type job struct {
	log     *slog.Logger
	work    Work
	started starts
}

func (j *job) invoke(ctx context.Context, event json.RawMessage) (err error) {
	ctx, _ = j.started.usage(ctx)
	var attrs []slog.Attr
	defer func() {
		if cause := recover(); cause != nil {
			err = problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()), "")
		}
		verdict, level := "ok", slog.LevelInfo
		if err != nil {
			p := problem.Of(err)
			verdict, level = p.Kind.String(), slog.LevelError
			attrs = append(attrs, slog.String("cause", p.Error()))
			err = problem.New(p.Kind, "%s", p.Text()) // Lambda stores the error with the event, so it must not contain the cause
		}
		j.log.LogAttrs(context.WithoutCancel(ctx), level, "done", append(attrs, slog.String(obs.Verdict, verdict))...)
	}()
	attrs, err = j.work(ctx, event)
	return err
}
