package awscmd

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// rollOut builds and compares the templates, refuses losses of data, asks for confirmation and
// deploys. It returns the changes.
func (d *deployment) rollOut(ctx context.Context, dir string, u *documentUpgrade) ([]stackChange, error) {
	edgeRotation, err := d.planRotation(ctx)
	if err != nil {
		return nil, err
	}
	d.PrintNote("building the functions and the templates")
	args := append([]string{"synth", "--quiet", "--output", dir, "--context", "stage=" + d.rec.Stage, "--context", "changes=all"}, contextArgs(d.rec.Context, d.regionalContext, edgeRotation.contextValues())...)
	newAssembly, err := d.buildAssembly(ctx, dir, d.cdk.Command(ctx, d.checkoutDir, d.environ(), args...))
	if err != nil {
		return nil, err
	}
	changes, losses, err := d.compareTemplates(ctx, newAssembly)
	if err != nil {
		return nil, err
	}
	if len(losses) > 0 {
		return nil, d.lossError(losses)
	}
	// If the new stacks have no edge, the deployed edge is deleted first, because its stack imports
	// outputs of the functions' stack.
	var oldEdge cloud.Stack
	name := stage.FullName(d.rec.Stage, "edge")
	if !slices.ContainsFunc(newAssembly.Stacks, func(s assembly.Stack) bool { return s.Name == name }) {
		s, err := d.cloud.Stack(ctx, name)
		switch {
		case err == nil:
			oldEdge = s
		case !problem.Is(err, problem.NotFound):
			return nil, err
		}
	}
	if len(changes) == 0 && oldEdge.ID == "" {
		d.PrintNote("nothing changes: the stacks already match the checkout")
		return nil, u.pauseStage(ctx) // an interrupted upgrade may still have to be completed
	}
	u.announcePause()
	if err := d.confirmChanges(ctx, newAssembly, changes, oldEdge); err != nil {
		return nil, err
	}
	if err := d.checkUnchanged(ctx); err != nil {
		return nil, err
	}
	records, err := d.StageRecords()
	if err != nil {
		return nil, err
	}
	if err := records.Write(d.rec); err != nil { // the choices are stored for the next attempt
		return nil, err
	}
	if oldEdge.ID != "" {
		if err := deleteStack(d.App, ctx, d.cloud, stackDeletion{Stack: oldEdge}); err != nil {
			return nil, err
		}
	}
	if edgeRotation.secretARN != "" { // the templates already contain the new version
		if err := d.cloud.PutSecretVersion(ctx, edgeRotation.secretARN, edgeRotation.newVersion); err != nil {
			return nil, err
		}
	}
	if err := u.pauseStage(ctx); err != nil {
		return nil, u.undoPause(ctx, err)
	}
	var names []string
	for _, s := range newAssembly.Stacks {
		names = append(names, s.Name)
	}
	if err := d.runCDK(ctx, d.checkoutDir, names, "deploy", "--app", dir, "--all", "--require-approval", "never", "--progress", "events"); err != nil {
		return nil, u.undoPause(ctx, err)
	}
	if edgeRotation.secretARN == "" {
		return changes, nil
	}
	// The edge now sends the new version.
	return changes, d.cloud.PromoteSecretVersion(ctx, edgeRotation.secretARN, edgeRotation.newVersion)
}

type stackChange struct {
	Stack   string            `json:"stack"`
	New     bool              `json:"new,omitempty"`
	Changes []assembly.Change `json:"changes"`
}

// contextArgs includes empty values, because for example rate= means no limit.
func contextArgs(contexts ...map[string]string) (args []string) {
	for _, values := range contexts {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			args = append(args, "--context", name+"="+values[name])
		}
	}
	return args
}

func (d *deployment) buildAssembly(ctx context.Context, dir string, cmd *exec.Cmd) (*assembly.Assembly, error) {
	var out outputBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	err := d.ProgressLine().ShowDuring(func() string { return "building" }, time.Now(), tick.C, cmd.Run)
	if ctx.Err() != nil {
		return nil, problem.New(problem.Canceled, "interrupted: nothing was deployed")
	}
	if err != nil {
		if valuesErr := refusedValuesError(out.Bytes()); valuesErr != nil {
			return nil, valuesErr
		}
		return nil, problem.Wrap(problem.Internal, err, "the functions or templates were not built: %s", findErrorLine(out.Bytes()))
	}
	return assembly.Read(dir)
}

func refusedValuesError(out []byte) error {
	// The expression is not anchored, because the app's runtime may have printed other text on the
	// same line.
	pattern := regexp.MustCompile(`(?:context value )?(` + strings.Join(setting.OperatorContexts(), "|") + `): ((?:expected|needs) .*)$`)
	var messages []string
	for line := range strings.Lines(string(out)) {
		if m := pattern.FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil {
			messages = append(messages, "--context "+m[1]+": "+m[2])
		}
	}
	if len(messages) == 0 {
		return nil
	}
	return problem.New(problem.Usage, "%s", strings.Join(messages, "; "))
}

func (d *deployment) compareTemplates(ctx context.Context, newAssembly *assembly.Assembly) (stackChanges []stackChange, losses []string, err error) {
	for _, s := range newAssembly.Stacks {
		deployedJSON, err := d.deployedTemplate(ctx, s.Name)
		if err != nil {
			return nil, nil, err
		}
		deployed, err := assembly.Parse(deployedJSON)
		if err != nil {
			return nil, nil, err
		}
		newTemplate, err := assembly.Parse(s.Template)
		if err != nil {
			return nil, nil, err
		}
		if changes := assembly.Compare(deployed, newTemplate); len(changes) > 0 {
			stackChanges = append(stackChanges, stackChange{s.Name, deployedJSON == nil, changes})
		}
		for _, l := range assembly.ListLosses(deployed, newTemplate) {
			losses = append(losses, s.Name+": "+l.String())
		}
	}
	return stackChanges, losses, nil
}

// deployedTemplate returns nil if the stack has no resources.
func (d *deployment) deployedTemplate(ctx context.Context, name string) ([]byte, error) {
	s, err := d.cloud.Stack(ctx, name)
	if problem.Is(err, problem.NotFound) || err == nil && !s.IsDeployed() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return d.cloud.Template(ctx, name)
}

func (d *deployment) lossError(losses []string) error {
	err := problem.New(problem.Conflict, "refused, because the deployment would lose data; nothing was started. %s", strings.Join(losses, "; "))
	return kit.WithHint(err, "restore the previous checkout, or run vacancy deploy with another --stage")
}

const eventPollInterval = 2 * time.Second

// runCDK runs the CDK in a directory and prints a line for each stack event.
func (d *deployment) runCDK(ctx context.Context, dir string, stacks []string, args ...string) error {
	watch, err := d.cloud.WatchStacks(ctx, stacks...)
	if err != nil {
		return err
	}
	var out outputBuffer
	cmd := d.cdk.Command(ctx, dir, d.environ(), args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }()
	var events []cloud.Event
	pollEvents := func(ctx context.Context) {
		// A failed poll only delays progress lines until the next poll.
		newEvents, _ := watch.Next(ctx)
		for _, e := range newEvents {
			printEvent(d.App, e)
		}
		events = append(events, newEvents...)
	}
	tick := time.NewTicker(eventPollInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			pollEvents(ctx)
		case err := <-done:
			// After an interrupt, ctx has ended, so the last poll needs another context.
			lastCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			pollEvents(lastCtx)
			if err == nil {
				return nil
			}
			return d.explainFailure(lastCtx, ctx.Err() != nil, args[0], stacks, events, out.Bytes())
		}
	}
}

func (d *deployment) explainFailure(ctx context.Context, interrupted bool, command string, stacks []string, events []cloud.Event, out []byte) error {
	state, hint := d.describeStacks(ctx, stacks)
	if interrupted {
		err := problem.New(problem.Canceled, "interrupted, but CloudFormation continues the deployment. %s", state)
		return kit.WithHint(err, "run the same command again: it waits for CloudFormation and continues")
	}
	cause, advice := findErrorLine(out), ""
	if e, ok := cloud.FirstFailure(events); ok {
		cause = fmt.Sprintf("%s: %s (%s): %s", e.Stack, e.Resource, e.Type, e.Reason)
		if text, remedy := d.explainRefusal(e); text != "" {
			advice, hint = ". "+text, cmp.Or(hint, remedy)
		}
	}
	err := problem.New(problem.Internal, "%s failed: %s. Rollback: %s%s", command, strings.TrimSuffix(strings.ReplaceAll(cause, "\n", " "), "."), state, advice)
	if hint != "" {
		return kit.WithHint(err, "%s", hint)
	}
	return err
}

func (d *deployment) describeStacks(ctx context.Context, stacks []string) (line, remedy string) {
	var parts []string
	for _, name := range stacks {
		s, err := d.cloud.Stack(ctx, name)
		switch {
		case problem.Is(err, problem.NotFound):
			parts = append(parts, name+" was never created")
		case err != nil:
			parts = append(parts, name+" could not be checked")
		case s.Status == "ROLLBACK_COMPLETE":
			parts = append(parts, name+" was rolled back completely (ROLLBACK_COMPLETE); the next deploy creates it again")
		case s.Status == "UPDATE_ROLLBACK_COMPLETE":
			parts = append(parts, name+" was rolled back to its previous state (UPDATE_ROLLBACK_COMPLETE)")
		case s.IsBusy(): // CDK has waited for its own change
			parts = append(parts, name+" is "+s.Status+" by another deploy")
			remedy = cmp.Or(remedy, "run the same command again: it waits for the other deploy and keeps its settings")
		default:
			parts = append(parts, name+" is "+s.Status)
		}
		if hint := stuckHint(s); hint != "" && remedy == "" {
			remedy = hint
		}
	}
	return strings.Join(parts, "; "), remedy
}

type outputBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *outputBuffer) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(p)
}

// findErrorLine returns the last line with an error, or otherwise the last line.
func findErrorLine(out []byte) string {
	var lastLine, errorLine, exitLine string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(kit.EscapeLine(strings.TrimRight(line, "\r\n")))
		lower := strings.ToLower(line)
		switch {
		case line == "":
		case strings.Contains(line, "Subprocess exited"):
			exitLine = line
		default:
			lastLine = line
			if strings.Contains(lower, "error") || strings.Contains(lower, "failed:") || strings.Contains(lower, "expected") {
				errorLine = line
			}
		}
	}
	return cmp.Or(errorLine, lastLine, exitLine, "it printed nothing")
}
