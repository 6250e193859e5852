package onlambda

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// ServeStep runs a step of the gate for each invocation by the state machine. It never returns.
func ServeStep(f functions.Function, name gate.StepName) {
	env, _ := openOrExit(f, os.Stdout)
	lambda.Start((&stepRunner{name: name, runTask: env.Server.Gate.RunTask, log: env.Log}).invoke)
}

// stepRunner returns refusals and faults as errors with the names that the state machine catches.
type stepRunner struct {
	name      gate.StepName
	runTask   func(context.Context, gate.StepName, graduation.RunState) (graduation.RunState, error)
	log       *slog.Logger
	coldStart coldStart
}

func (s *stepRunner) invoke(ctx context.Context, state graduation.RunState) (next graduation.RunState, err error) {
	ctx, _ = s.coldStart.withUsage(ctx)
	defer func() {
		if cause := recover(); cause != nil {
			err = panicError(cause)
		}
		attrs := []slog.Attr{slog.String("graduation", state.ID().String()), slog.String("step", string(s.name))}
		verdict, level := "ok", slog.LevelInfo
		if err != nil {
			p := problem.AsError(err)
			verdict = p.Kind.String()
			attrs = append(attrs, slog.String("cause", p.Error()))
			if !gate.IsRefusal(s.name, p.Kind) {
				level = slog.LevelError
			}
			stepRefusal := graduation.NewRefusal(s.name, err)
			err = messages.InvokeResponse_Error{Type: stepRefusal.Error, Message: stepRefusal.Cause()}
		}
		s.log.LogAttrs(context.WithoutCancel(ctx), level, "step", append(attrs, slog.String(obs.AttrVerdict, verdict))...)
	}()
	return s.runTask(ctx, s.name, state)
}

func panicError(cause any) error {
	return problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()), "")
}

// RunRecorder records the outcomes of graduation attempts in which a step has failed. It never
// returns.
func RunRecorder() {
	RunWork(functions.Record, func(env *Env) WorkFunc { return recorder(env.Server.Gate) })
}

type failedStep struct {
	State graduation.RunState `json:"state"`
	Error struct {
		Error string
		Cause string
	} `json:"error"`
}

func recorder(service *graduation.Service) WorkFunc {
	return func(ctx context.Context, event json.RawMessage) ([]slog.Attr, error) {
		var step failedStep
		if err := json.Unmarshal(event, &step); err != nil {
			return nil, problem.Wrap(problem.Malformed, err, "the event does not come from the state machine")
		}
		id := step.State.ID()
		attrs := []slog.Attr{slog.String("graduation", id.String()), slog.String("error", truncate(step.Error.Error))}
		st, err := service.Record(ctx, step.State, graduation.ParseCause(step.State.NextStep(), step.Error.Error, step.Error.Cause))
		if err != nil {
			return attrs, err
		}
		return append(attrs, slog.String("state", string(st.Phase)), slog.String("step", string(st.Step))), nil
	}
}
