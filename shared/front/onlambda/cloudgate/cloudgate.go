// Package cloudgate implements the gate on AWS: it accepts requests, starts the state machine that
// runs an attempt, and reports progress.
//
// An attempt has exactly one execution of the state machine. If the state machine is unreachable,
// the attempt stays open, and the same request starts it again.
package cloudgate

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"

	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/shared/host/queue/sqs"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func Handler(env *onlambda.Env) http.Handler {
	executions := newExecutionClient(env)
	env.Server.Gate.RunningStep = executions.currentStep
	return env.Server.GateHandler(&cloudGate{env.Server.Gate, executions})
}

// AdminHandler returns the handler of the admin API.
func AdminHandler(env *onlambda.Env) http.Handler {
	if env.StateMachineARN != "" {
		env.Server.Gate.RunningStep = newExecutionClient(env).currentStep
	}
	env.HandleDirect = func(ctx context.Context, event json.RawMessage) (any, bool, error) {
		var command struct{ Upgrade bool }
		if json.Unmarshal(event, &command) != nil || !command.Upgrade {
			return nil, false, nil
		}
		now := func() time.Time { return time.Now().Round(0) }
		result, err := upgrade.Run(ctx, upgrade.Data{
			Store: env.Store, Vault: env.Vault, Texts: env.Server.Texts, Program: env.Server.Version(), Log: env.Log, Now: now, Rand: rand.Reader,
			StopAt: now().Add(upgradeTimeLimit),
		})
		if err != nil {
			env.Log.LogAttrs(ctx, slog.LevelError, "the documents were not upgraded", slog.String("cause", err.Error()))
			return nil, true, err
		}
		env.Log.LogAttrs(ctx, slog.LevelInfo, "documents upgraded", slog.Int("version", result.Version), slog.Int("current", upgrade.CurrentVersion))
		return functions.Upgraded{Version: result.Version, Current: upgrade.CurrentVersion}, true, nil
	}
	env.Server.AddAGPRoutes(env.Server.OpenBookings(nil, nil))
	env.Server.AddTeamRoutes(sqs.New(sqs.Config{Client: sqs.NewClient(env.AWS), URL: env.TaskQueueURL, Log: env.Log, Now: time.Now}))
	return env.Server.Admin()
}

// upgradeTimeLimit leaves time for completing the current page of documents.
const upgradeTimeLimit = functions.HandlerSeconds * time.Second / 2

type cloudGate struct {
	*graduation.Service
	executions *executionClient
}

var _ graduation.Gate = (*cloudGate)(nil)

func (c *cloudGate) Submit(ctx context.Context, sub graduation.Submission) (graduation.Status, error) {
	// Starting the execution of an open attempt again has no effect.
	st, err := c.Begin(ctx, sub)
	if err != nil || st.Phase != graduation.Open {
		return st, err
	}
	if err := c.executions.startExecution(ctx, &st.Attempt); err != nil {
		return graduation.Status{}, err
	}
	return st, nil
}

type stateMachines interface {
	StartExecution(context.Context, *sfn.StartExecutionInput, ...func(*sfn.Options)) (*sfn.StartExecutionOutput, error)
	GetExecutionHistory(context.Context, *sfn.GetExecutionHistoryInput, ...func(*sfn.Options)) (*sfn.GetExecutionHistoryOutput, error)
}

type executionClient struct {
	client          stateMachines
	stateMachineARN string
	log             *slog.Logger
}

func newExecutionClient(env *onlambda.Env) *executionClient {
	return &executionClient{client: sfn.NewFromConfig(env.AWS), stateMachineARN: env.StateMachineARN, log: env.Log}
}

func (r *executionClient) startExecution(ctx context.Context, a *graduation.Attempt) error {
	input, err := json.Marshal(struct {
		State graduation.RunState `json:"state"`
	}{a.InitialState()})
	if err != nil {
		return problem.Wrap(problem.Internal, err, "cannot encode the state of graduation %s", a.ID)
	}
	_, err = r.client.StartExecution(ctx, &sfn.StartExecutionInput{
		StateMachineArn: &r.stateMachineARN, Name: aws.String(a.ExecutionName()), Input: aws.String(string(input))})
	var alreadyExists *types.ExecutionAlreadyExists
	if err == nil || errors.As(err, &alreadyExists) {
		return nil
	}
	return problem.Wrap(problem.Unavailable, shortError(err), "attempt %d of %s has begun but its execution could not be started; send the same request again", a.Position, a.Child.Short())
}

func shortError(err error) error {
	// Callers can cause this log line, and logs are billed by the byte.
	var apiErr smithy.APIError
	if errors.As(err, &apiErr) {
		return errors.New(apiErr.ErrorCode())
	}
	const maxBytes = 120
	text := err.Error()
	return errors.New(strings.ToValidUTF8(text[:min(len(text), maxBytes)], ""))
}

// recentEvents exceeds the number of events between the starts of two steps.
const recentEvents = 30

// currentStep returns "" if the step is unknown.
func (r *executionClient) currentStep(ctx context.Context, a *graduation.Attempt) gate.StepName {
	executionARN := strings.Replace(r.stateMachineARN, ":stateMachine:", ":execution:", 1) + ":" + a.ExecutionName()
	out, err := r.client.GetExecutionHistory(ctx, &sfn.GetExecutionHistoryInput{
		ExecutionArn: &executionARN, ReverseOrder: true, MaxResults: recentEvents, IncludeExecutionData: aws.Bool(false)})
	if err != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "the current step of the attempt is unknown", slog.String("graduation", a.ID.String()), slog.String("cause", shortError(err).Error()))
		return ""
	}
	for _, e := range out.Events {
		if e.Type != types.HistoryEventTypeTaskStateEntered || e.StateEnteredEventDetails == nil {
			continue
		}
		for _, s := range gate.Steps() {
			if string(s.Name) == aws.ToString(e.StateEnteredEventDetails.Name) {
				return s.Name
			}
		}
	}
	return ""
}
