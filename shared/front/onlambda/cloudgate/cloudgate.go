// Package cloudgate implements the gate on AWS: it accepts requests, starts the state machine that
// runs an attempt, and reports progress.
//
// An attempt has exactly one execution of the state machine, whose name is derived from the
// attempt. Only the store contains the outcome; the state machine is asked only for the current
// step of an open attempt. If the state machine is unreachable, an attempt stays open, and the same
// request starts it again.
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

func Handler(h *onlambda.Env) http.Handler {
	runs := newRuns(h)
	h.Server.Gate.Running = runs.step
	return h.Server.GateHandler(&cloud{h.Server.Gate, runs})
}

// AdminHandler returns the handler of the admin API, including the current steps of gate attempts,
// AGP, teams and files. If the operator changes a booking, the venue is not informed.
func AdminHandler(h *onlambda.Env) http.Handler {
	if h.Machine != "" {
		h.Server.Gate.Running = newRuns(h).step
	}
	// Direct handles functions.UpgradeEvent.
	h.Direct = func(ctx context.Context, event json.RawMessage) (any, bool, error) {
		var asked struct{ Upgrade bool }
		if json.Unmarshal(event, &asked) != nil || !asked.Upgrade {
			return nil, false, nil
		}
		now := func() time.Time { return time.Now().Round(0) }
		v, err := upgrade.Run(ctx, upgrade.Data{
			Store: h.Store, Vault: h.Vault, Texts: h.Server.Texts, Program: h.Server.Version(), Log: h.Log, Now: now, Rand: rand.Reader,
			Until: now().Add(upgradeTime),
		})
		if err != nil {
			h.Log.LogAttrs(ctx, slog.LevelError, "the documents were not upgraded", slog.String("cause", err.Error()))
			return nil, true, err
		}
		h.Log.LogAttrs(ctx, slog.LevelInfo, "documents upgraded", slog.Int("version", v.Version), slog.Int("current", upgrade.Current))
		return functions.Upgraded{Version: v.Version, Current: upgrade.Current}, true, nil
	}
	h.Server.OperateAGP(h.Server.OpenBookings(nil, nil))
	h.Server.OperateTeam(sqs.New(sqs.Config{Client: sqs.NewClient(h.AWS), URL: h.Tasks, Log: h.Log, Now: time.Now}))
	return h.Server.Admin()
}

// upgradeTime is the time after which an invocation does not begin another page of documents. The
// rest of the function's timeout is for completing the current page.
const upgradeTime = functions.HandlerSeconds * time.Second / 2

// cloud is a gate whose attempts run in a state machine.
type cloud struct {
	*graduation.Service
	runs *runs
}

var _ graduation.Gate = (*cloud)(nil)

func (c *cloud) Submit(ctx context.Context, sub graduation.Submission) (graduation.Status, error) {
	// If the request joins an open attempt, the execution of the attempt may already have been
	// started. Starting it again has no effect.
	st, err := c.Begin(ctx, sub)
	if err != nil || st.Phase != graduation.Open {
		return st, err
	}
	if err := c.runs.start(ctx, &st.Attempt); err != nil {
		return graduation.Status{}, err
	}
	return st, nil
}

// stateMachines contains the used methods of the Step Functions client.
type stateMachines interface {
	StartExecution(context.Context, *sfn.StartExecutionInput, ...func(*sfn.Options)) (*sfn.StartExecutionOutput, error)
	GetExecutionHistory(context.Context, *sfn.GetExecutionHistoryInput, ...func(*sfn.Options)) (*sfn.GetExecutionHistoryOutput, error)
}

type runs struct {
	client  stateMachines
	machine string // ARN of the state machine
	log     *slog.Logger
}

func newRuns(h *onlambda.Env) *runs {
	return &runs{client: sfn.NewFromConfig(h.AWS), machine: h.Machine, log: h.Log}
}

func (r *runs) start(ctx context.Context, a *graduation.Attempt) error {
	input, err := json.Marshal(struct {
		State graduation.State `json:"state"`
	}{a.State()})
	if err != nil {
		return problem.Wrap(problem.Internal, err, "the state of graduation %s", a.ID)
	}
	_, err = r.client.StartExecution(ctx, &sfn.StartExecutionInput{
		StateMachineArn: &r.machine, Name: aws.String(a.Execution()), Input: aws.String(string(input))})
	var there *types.ExecutionAlreadyExists
	// Starting an execution again with the same input has no effect, even after the execution has
	// ended.
	if err == nil || errors.As(err, &there) {
		return nil
	}
	return problem.Wrap(problem.Unavailable, reason(err), "attempt %d of %s has begun and could not be run; send the same request again", a.Position, a.Child.Short())
}

func reason(err error) error {
	// The error is shortened, because callers can cause its log line, and logs are billed by the
	// byte.
	var apiErr smithy.APIError
	if errors.As(err, &apiErr) {
		return errors.New(apiErr.ErrorCode())
	}
	const most = 120
	text := err.Error()
	return errors.New(strings.ToValidUTF8(text[:min(len(text), most)], ""))
}

// recent is the number of newest events that step reads. It is larger than the number of events
// between the starts of two steps, including retries.
const recent = 30

// step returns the current step of an attempt, or "" if it is unknown. An unknown step does not
// fail the request.
func (r *runs) step(ctx context.Context, a *graduation.Attempt) gate.StepName {
	execution := strings.Replace(r.machine, ":stateMachine:", ":execution:", 1) + ":" + a.Execution()
	out, err := r.client.GetExecutionHistory(ctx, &sfn.GetExecutionHistoryInput{
		ExecutionArn: &execution, ReverseOrder: true, MaxResults: recent, IncludeExecutionData: aws.Bool(false)})
	if err != nil {
		r.log.LogAttrs(ctx, slog.LevelWarn, "the current step of the attempt is unknown", slog.String("graduation", a.ID.String()), slog.String("cause", reason(err).Error()))
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
