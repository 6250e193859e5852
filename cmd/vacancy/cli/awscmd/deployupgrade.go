package awscmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/keys/operator"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// upgrading is the upgrade of a stage's documents by a deploy. The stage is paused during the
// upgrade, because the functions of an earlier program do not know the documents' new version. They
// would fail calls, and would store records, names and accounts without the data that current
// functions add. If a deploy is interrupted, the next one continues.
type upgrading struct {
	*deployment
	// from is the version of the stored documents before the upgrade. It is 0 if the stage has none
	// or if its first deploy failed.
	from int
	// paused is the template of the functions before they were paused. It is nil before the pause.
	paused []byte
	// wait sleeps while running functions of the earlier release end. Tests replace it.
	wait func(context.Context, time.Duration) error
}

// planUpgrade reads the version of the stage's documents. The error is of kind Conflict if a newer
// program wrote them.
func (d *deployment) planUpgrade(ctx context.Context) (upgrading, error) {
	u := upgrading{deployment: d, wait: cloud.Wait}
	tables, err := d.cloud.Tables(ctx, d.rec.Stage, 0, d.Now)
	if problem.Is(err, problem.NotFound) {
		return u, nil
	}
	if err != nil {
		return u, err
	}
	v, err := upgrade.Read(ctx, tables)
	u.from = v.Version
	if err == nil && u.isNeeded() {
		// A stage without an operator key never had a vacant or an account, because its first
		// deploy failed.
		var key store.Doc
		if key, err = tables.Doc(ctx, operator.Key()); err == nil && key.Version == 0 {
			u.from = 0
		}
	}
	return u, errors.Join(err, tables.Close())
}

func (u *upgrading) isNeeded() bool { return u.from > 0 && u.from < upgrade.Current }

// drainTime is the maximum time for which a function runs after the stage was paused.
const drainTime = functions.TurnSeconds * time.Second

func (u *upgrading) explain() {
	if u.isNeeded() {
		u.Note("this deploy upgrades the documents of stage %s from version %d to %d and pauses the stage for about %.0f minutes and the time of the deploy: the functions that run now cannot serve upgraded documents. Callers get 429 meanwhile",
			u.rec.Stage, u.from, upgrade.Current, drainTime.Minutes())
	}
}

// pause prevents the stage's functions from starting, and waits until running ones have ended.
func (u *upgrading) pause(ctx context.Context) error {
	if !u.isNeeded() {
		return nil
	}
	var err error
	if u.paused, err = u.cloud.Template(ctx, stage.FullName(u.rec.Stage, "functions")); err != nil {
		return err
	}
	for _, f := range functions.All() {
		err := u.cloud.SetConcurrency(ctx, stage.FullName(u.rec.Stage, f.Name), 0)
		if err != nil && !problem.Is(err, problem.NotFound) { // this deploy will create a missing function
			return err
		}
	}
	u.Note("stage %s is paused; waiting %.0f minutes until its last turns have ended", u.rec.Stage, drainTime.Minutes())
	return u.wait(ctx, drainTime)
}

// run upgrades the documents with the deployed function admin, and ends the pause.
func (u *upgrading) run(ctx context.Context) error {
	agent := stage.FullName(u.rec.Stage, functions.Agent.Name)
	reserved, err := u.cloud.Concurrency(ctx, agent)
	if err != nil {
		return err
	}
	if u.from == upgrade.Current {
		// An earlier deploy may have been interrupted between the upgrade and the end of the pause.
		if reserved == 0 {
			return u.resume(ctx, functions.All())
		}
		return nil
	}
	if err := u.resume(ctx, []functions.Function{functions.Admin}); err != nil {
		return err
	}
	for last := u.from; ; {
		payload, err := u.invoke(ctx)
		if err != nil {
			return problem.Wrap(problem.AsError(err).Kind, err, "the documents were not upgraded, and stage %s is paused until the same command has completed: %s", u.rec.Stage, problem.AsError(err).Text())
		}
		var done functions.Upgraded
		if err := json.Unmarshal(payload, &done); err != nil || done.Current == 0 {
			return problem.Wrap(problem.Damaged, err, "the function admin answered the upgrade with %.80q", payload)
		}
		if done.Version > last && u.isNeeded() {
			u.Note("the documents have version %d of %d", done.Version, done.Current)
		}
		if last = done.Version; last == done.Current {
			break
		}
	}
	if u.paused == nil && reserved != 0 {
		return nil // the stage is new
	}
	return u.resume(ctx, functions.All())
}

func (u *upgrading) invoke(ctx context.Context) (payload []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	// The function may still be paused, so the call is retried.
	err = retryThrottled(ctx, func() error {
		payload, err = kit.InvokeStage(ctx, u.cloud, u.rec.Stage, functions.Admin.Name, functions.UpgradeEvent)
		return err
	})
	return payload, err
}

// resume sets the concurrency of functions to the value in their template. Agent is resumed last,
// because run checks its concurrency to detect a paused stage.
func (u *upgrading) resume(ctx context.Context, resumed []functions.Function) error {
	b, err := u.cloud.Template(ctx, stage.FullName(u.rec.Stage, "functions"))
	if err != nil {
		return err
	}
	var template struct {
		Resources map[string]struct {
			Type       string
			Properties struct {
				FunctionName                 any
				ReservedConcurrentExecutions *int
			}
		}
	}
	if err := json.Unmarshal(b, &template); err != nil {
		return problem.Wrap(problem.Damaged, err, "the template of the functions of stage %s cannot be read", u.rec.Stage)
	}
	reserved := map[any]int{}
	for _, r := range template.Resources {
		if n := r.Properties.ReservedConcurrentExecutions; r.Type == "AWS::Lambda::Function" && n != nil {
			reserved[r.Properties.FunctionName] = *n
		}
	}
	resumed = slices.Clone(resumed)
	slices.Reverse(resumed)
	for _, f := range resumed {
		name := stage.FullName(u.rec.Stage, f.Name)
		n, named := reserved[name]
		if !named {
			n = cloud.Unreserved
		}
		if err := u.cloud.SetConcurrency(ctx, name, n); err != nil && !problem.Is(err, problem.NotFound) {
			return err
		}
	}
	return nil
}

// undo ends the pause of a failed deploy, if the deployed functions are still the paused ones, and
// returns err. After an interruption the stage stays paused, because CloudFormation may still
// deploy the new functions.
func (u *upgrading) undo(ctx context.Context, err error) error {
	if u.paused == nil {
		return err
	}
	now, failed := u.cloud.Template(context.WithoutCancel(ctx), stage.FullName(u.rec.Stage, "functions"))
	if ctx.Err() == nil && failed == nil && bytes.Equal(now, u.paused) {
		if failed = u.resume(ctx, functions.All()); failed == nil {
			return err
		}
	}
	u.Note("stage %s stays paused until the same command has completed", u.rec.Stage)
	return err
}
