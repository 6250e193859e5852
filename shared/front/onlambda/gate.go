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

	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/obs"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// Step runs a step of the gate whenever the state machine asks for it, for ever.
// It is given the state of an attempt, and gives the one after.
func Step(f Function, name gate.StepName) {
	env, _ := begin(f, os.Stdout)
	lambda.Start((&step{name: name, task: env.Server.Gate.Task, log: env.Log}).invoke)
}

// step is a task of the state machine. What it refuses, and what it breaks on,
// is an error by the name that the machine catches it under.
type step struct {
	name    gate.StepName
	task    func(context.Context, gate.StepName, graduation.State) (graduation.State, error)
	log     *slog.Logger
	started starts
}

func (s *step) invoke(ctx context.Context, state graduation.State) (next graduation.State, err error) {
	ctx, _ = s.started.usage(ctx)
	defer func() {
		if cause := recover(); cause != nil {
			err = panicked(cause)
		}
		stepped(ctx, s.log, state.ID(), s.name, err)
		if err != nil {
			refused := graduation.Refuse(s.name, err)
			err = messages.InvokeResponse_Error{Type: refused.Error, Message: refused.Cause()}
		}
	}()
	return s.task(ctx, s.name, state)
}

// stepped writes the line of a step: a refusal is what it is there for, anything
// else a fault.
func stepped(ctx context.Context, log *slog.Logger, id graduation.ID, name gate.StepName, err error) {
	attrs := []slog.Attr{slog.String("graduation", id.String()), slog.String("step", string(name))}
	verdict, level := "ok", slog.LevelInfo
	if err != nil {
		p := problem.Of(err)
		verdict = p.Kind.String()
		attrs = append(attrs, slog.String("cause", p.Error()))
		if !gate.Refuses(name, p.Kind) {
			level = slog.LevelError
		}
	}
	log.LogAttrs(context.WithoutCancel(ctx), level, "step", append(attrs, slog.String(obs.Verdict, verdict))...)
}

func panicked(cause any) error {
	return problem.Wrap(problem.Internal, fmt.Errorf("panic: %v\n%s", cause, debug.Stack()), "")
}

// Recorder writes down how attempts ended that did not pass, whenever the state
// machine asks for it, for ever.
func Recorder() {
	Run(Record, func(h *Env) Work { return recorder(h.Server.Gate) })
}

// caught is what the machine hands over: the state that the step was given, and
// the error that it ended in.
type caught struct {
	State graduation.State `json:"state"`
	Error struct {
		Error string
		Cause string
	} `json:"error"`
}

func recorder(service *graduation.Service) Work {
	return func(ctx context.Context, event json.RawMessage) ([]slog.Attr, error) {
		var c caught
		if err := json.Unmarshal(event, &c); err != nil {
			return nil, problem.Wrap(problem.Malformed, err, "the event is not what the state machine sends")
		}
		id := c.State.ID()
		attrs := []slog.Attr{slog.String("graduation", id.String()), slog.String("error", clip(c.Error.Error))}
		st, err := service.Record(ctx, c.State, graduation.ReadCause(c.State.Next(), c.Error.Error, c.Error.Cause))
		if err != nil {
			return attrs, err
		}
		return append(attrs, slog.String("state", string(st.Phase)), slog.String("step", string(st.Step))), nil
	}
}
