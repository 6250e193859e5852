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

// documentUpgrade is the upgrade of a stage's documents by a deploy. The stage is paused during the
// upgrade, because the functions of an earlier program would fail calls and store documents without
// the data that current functions add. If a deploy is interrupted, the next deploy continues the
// upgrade.
type documentUpgrade struct {
	*deployment
	// fromVersion is the version before the upgrade, or 0 if the stage has no documents or its
	// first deploy failed.
	fromVersion int
	// originalTemplate is the template of the functions before the pause, or nil if this deploy has
	// not paused the stage.
	originalTemplate []byte
	sleep            func(context.Context, time.Duration) error
}

// planUpgrade reads the version of the stage's documents.
func (d *deployment) planUpgrade(ctx context.Context) (documentUpgrade, error) {
	u := documentUpgrade{deployment: d, sleep: cloud.Sleep}
	tables, err := d.cloud.OpenTables(ctx, d.rec.Stage, 0, d.Now)
	if problem.Is(err, problem.NotFound) {
		return u, nil
	}
	if err != nil {
		return u, err
	}
	v, err := upgrade.ReadVersion(ctx, tables)
	u.fromVersion = v.Version
	if err == nil && u.isNeeded() {
		// A stage without an operator key never had a vacant or an account, because its first
		// deploy failed.
		var key store.Doc
		if key, err = tables.Doc(ctx, operator.DocKey()); err == nil && key.Version == 0 {
			u.fromVersion = 0
		}
	}
	return u, errors.Join(err, tables.Close())
}

func (u *documentUpgrade) isNeeded() bool {
	return u.fromVersion > 0 && u.fromVersion < upgrade.CurrentVersion
}

// drainDuration is the maximum time for which a function runs after the pause has begun.
const drainDuration = functions.TurnSeconds * time.Second

func (u *documentUpgrade) announcePause() {
	if u.isNeeded() {
		u.PrintNote("this deploy upgrades the documents of stage %s from version %d to %d. It pauses the stage for about %.0f minutes and the time of the deploy, because the current functions cannot serve upgraded documents. Callers get 429 during the pause",
			u.rec.Stage, u.fromVersion, upgrade.CurrentVersion, drainDuration.Minutes())
	}
}

func (u *documentUpgrade) pauseStage(ctx context.Context) error {
	if !u.isNeeded() {
		return nil
	}
	var err error
	if u.originalTemplate, err = u.cloud.Template(ctx, stage.FullName(u.rec.Stage, "functions")); err != nil {
		return err
	}
	for _, f := range functions.All() {
		err := u.cloud.SetReservedConcurrency(ctx, stage.FullName(u.rec.Stage, f.Name), 0)
		if err != nil && !problem.Is(err, problem.NotFound) { // this deploy will create a missing function
			return err
		}
	}
	u.PrintNote("stage %s is paused; waiting %.0f minutes until its last turns have ended", u.rec.Stage, drainDuration.Minutes())
	return u.sleep(ctx, drainDuration)
}

// upgradeDocuments upgrades the documents with the function admin, and ends the pause.
func (u *documentUpgrade) upgradeDocuments(ctx context.Context) error {
	agent := stage.FullName(u.rec.Stage, functions.Agent.Name)
	reserved, err := u.cloud.ReservedConcurrency(ctx, agent)
	if err != nil {
		return err
	}
	if u.fromVersion == upgrade.CurrentVersion {
		// An earlier deploy may have been interrupted between the upgrade and the end of the pause.
		if reserved == 0 {
			return u.resumeFunctions(ctx, functions.All())
		}
		return nil
	}
	if err := u.resumeFunctions(ctx, []functions.Function{functions.Admin}); err != nil {
		return err
	}
	for lastVersion := u.fromVersion; ; {
		payload, err := u.invokeUpgrade(ctx)
		if err != nil {
			return problem.Wrap(problem.AsError(err).Kind, err, "the documents were not upgraded. Stage %s stays paused until you run the same command successfully: %s", u.rec.Stage, problem.AsError(err).Text())
		}
		var upgraded functions.Upgraded
		if err := json.Unmarshal(payload, &upgraded); err != nil || upgraded.Current == 0 {
			return problem.Wrap(problem.Damaged, err, "the function admin answered the upgrade with %.80q", payload)
		}
		if upgraded.Version > lastVersion && u.isNeeded() {
			u.PrintNote("the documents have version %d of %d", upgraded.Version, upgraded.Current)
		}
		if lastVersion = upgraded.Version; lastVersion == upgraded.Current {
			break
		}
	}
	if u.originalTemplate == nil && reserved != 0 {
		return nil // the stage is new
	}
	return u.resumeFunctions(ctx, functions.All())
}

func (u *documentUpgrade) invokeUpgrade(ctx context.Context) (payload []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, firstAnswerTimeout)
	defer cancel()
	// The function may still be paused, so the call is retried.
	err = retryUnavailable(ctx, func() error {
		payload, err = kit.InvokeFunction(ctx, u.cloud, u.rec.Stage, functions.Admin.Name, functions.UpgradeEvent)
		return err
	})
	return payload, err
}

// resumeFunctions sets the concurrency of functions to the value in their template. It resumes
// Agent last, because upgradeDocuments detects a paused stage by the concurrency of Agent.
func (u *documentUpgrade) resumeFunctions(ctx context.Context, functionList []functions.Function) error {
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
	functionList = slices.Clone(functionList)
	slices.Reverse(functionList)
	for _, f := range functionList {
		name := stage.FullName(u.rec.Stage, f.Name)
		n, hasReservation := reserved[name]
		if !hasReservation {
			n = cloud.Unreserved
		}
		if err := u.cloud.SetReservedConcurrency(ctx, name, n); err != nil && !problem.Is(err, problem.NotFound) {
			return err
		}
	}
	return nil
}

// undoPause ends the pause if a failed deploy has not changed the functions. It returns err. After an interruption the
// stage stays paused, because CloudFormation may still deploy the new functions.
func (u *documentUpgrade) undoPause(ctx context.Context, err error) error {
	if u.originalTemplate == nil {
		return err
	}
	currentTemplate, undoErr := u.cloud.Template(context.WithoutCancel(ctx), stage.FullName(u.rec.Stage, "functions"))
	if ctx.Err() == nil && undoErr == nil && bytes.Equal(currentTemplate, u.originalTemplate) {
		if undoErr = u.resumeFunctions(ctx, functions.All()); undoErr == nil {
			return err
		}
	}
	u.PrintNote("stage %s stays paused until you run the same command successfully", u.rec.Stage)
	return err
}
