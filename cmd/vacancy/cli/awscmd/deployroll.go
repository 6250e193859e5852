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

// rollOut deploys the checkout's stacks: it builds and compares the templates, refuses losses of data,
// shows the changes, asks and deploys. It returns the changes.
func (d *deployment) rollOut(ctx context.Context, dir string, u *upgrading) ([]stackChange, error) {
	edge, err := d.rotation(ctx)
	if err != nil {
		return nil, err
	}
	d.Note("building the functions and the templates")
	args := append([]string{"synth", "--quiet", "--output", dir, "--context", "stage=" + d.rec.Stage, "--context", "changes=all"}, contextArgs(d.rec.Context, d.regional, edge.context())...)
	built, err := d.assemble(ctx, dir, d.cdk.Command(ctx, d.top, d.environ(), args...))
	if err != nil {
		return nil, err
	}
	changes, losses, err := d.compare(ctx, built)
	if err != nil {
		return nil, err
	}
	if len(losses) > 0 {
		return nil, d.refuse(losses)
	}
	// If the new stacks do not include the edge, the deployed edge is deleted before the functions are
	// updated, because the edge's stack imports outputs of the functions' stack.
	var dropped cloud.Stack
	name := stage.FullName(d.rec.Stage, "edge")
	if !slices.ContainsFunc(built.Stacks, func(s assembly.Stack) bool { return s.Name == name }) {
		s, err := d.cloud.Stack(ctx, name)
		switch {
		case err == nil:
			dropped = s
		case !problem.Is(err, problem.NotFound):
			return nil, err
		}
	}
	if len(changes) == 0 && dropped.ID == "" {
		d.Note("nothing changes: the stacks already match the checkout")
		return nil, u.pause(ctx) // an interrupted upgrade may still have to be completed
	}
	u.explain()
	if err := d.confirm(ctx, built, changes, dropped); err != nil {
		return nil, err
	}
	if err := d.checkUnchanged(ctx); err != nil {
		return nil, err
	}
	records, err := d.Stages()
	if err != nil {
		return nil, err
	}
	if err := records.Write(d.rec); err != nil { // the choices are stored for the next attempt
		return nil, err
	}
	if dropped.ID != "" {
		if err := deleteStack(d.App, ctx, d.cloud, firstFailure{Stack: dropped}); err != nil {
			return nil, err
		}
	}
	if edge.secret != "" { // the templates already contain the new version
		if err := d.cloud.PutVersion(ctx, edge.secret, edge.next); err != nil {
			return nil, err
		}
	}
	if err := u.pause(ctx); err != nil {
		return nil, u.undo(ctx, err)
	}
	var names []string
	for _, s := range built.Stacks {
		names = append(names, s.Name)
	}
	if err := d.runWatched(ctx, d.top, names, "deploy", "--app", dir, "--all", "--require-approval", "never", "--progress", "events"); err != nil {
		return nil, u.undo(ctx, err)
	}
	if edge.secret == "" {
		return changes, nil
	}
	// The edge now sends the new version.
	return changes, d.cloud.Promote(ctx, edge.secret, edge.next)
}

type stackChange struct {
	Stack   string            `json:"stack"`
	New     bool              `json:"new,omitempty"`
	Changes []assembly.Change `json:"changes"`
}

// contextArgs returns the arguments for context values. Empty values are included, because for
// example rate= means no limit.
func contextArgs(contexts ...map[string]string) (args []string) {
	for _, values := range contexts {
		for _, name := range slices.Sorted(maps.Keys(values)) {
			args = append(args, "--context", name+"="+values[name])
		}
	}
	return args
}

func (d *deployment) assemble(ctx context.Context, dir string, cmd *exec.Cmd) (*assembly.Assembly, error) {
	var out output
	cmd.Stdout, cmd.Stderr = &out, &out
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	err := d.ProgressLine().During(func() string { return "building" }, time.Now(), tick.C, cmd.Run)
	if ctx.Err() != nil {
		return nil, problem.New(problem.Canceled, "interrupted: nothing was deployed")
	}
	if err != nil {
		if refused := refusedValues(out.Bytes()); refused != nil {
			return nil, refused
		}
		return nil, problem.Wrap(problem.Internal, err, "the functions or templates were not built: %s", lastError(out.Bytes()))
	}
	return assembly.Read(dir)
}

// refusedValues returns an error that lists the chosen values that the build refused, or nil if the
// build failed for another reason.
func refusedValues(out []byte) error {
	// The expression is not anchored, because the app's runtime may have printed other text on the
	// same line.
	refused := regexp.MustCompile(`(?:context value )?(` + strings.Join(setting.OperatorContexts(), "|") + `): ((?:expected|needs) .*)$`)
	var messages []string
	for line := range strings.Lines(string(out)) {
		if m := refused.FindStringSubmatch(strings.TrimRight(line, "\r\n")); m != nil {
			messages = append(messages, "--context "+m[1]+": "+m[2])
		}
	}
	if len(messages) == 0 {
		return nil
	}
	return problem.New(problem.Usage, "%s", strings.Join(messages, "; "))
}

func (d *deployment) compare(ctx context.Context, built *assembly.Assembly) (stackChanges []stackChange, losses []string, err error) {
	for _, s := range built.Stacks {
		before, err := d.deployedTemplate(ctx, s.Name)
		if err != nil {
			return nil, nil, err
		}
		deployed, err := assembly.Parse(before)
		if err != nil {
			return nil, nil, err
		}
		is, err := assembly.Parse(s.Template)
		if err != nil {
			return nil, nil, err
		}
		if changes := assembly.Compare(deployed, is); len(changes) > 0 {
			stackChanges = append(stackChanges, stackChange{s.Name, before == nil, changes})
		}
		for _, l := range assembly.Losses(deployed, is) {
			losses = append(losses, s.Name+": "+l.String())
		}
	}
	return stackChanges, losses, nil
}

// deployedTemplate returns the template of a stack, or nil if the stack has no resources.
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

func (d *deployment) refuse(losses []string) error {
	err := problem.New(problem.Conflict, "refused, and nothing was started: this would lose data. %s", strings.Join(losses, "; "))
	return kit.WithHint(err, "restore the previous checkout, or run vacancy deploy with another --stage")
}

// eventPause is the interval between two polls of stack events.
const eventPause = 2 * time.Second

// runWatched runs the CDK in a directory and prints a line for each stack event. Its error contains
// the first cause and the state of the stacks.
func (d *deployment) runWatched(ctx context.Context, dir string, stacks []string, args ...string) error {
	watch, err := d.cloud.Watch(ctx, stacks...)
	if err != nil {
		return err
	}
	var out output
	cmd := d.cdk.Command(ctx, dir, d.environ(), args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	done := make(chan error, 1)
	go func() { done <- cmd.Run() }()
	var events []cloud.Event
	look := func(ctx context.Context) {
		// A failed poll only delays progress lines until the next poll.
		fresh, _ := watch.Next(ctx)
		for _, e := range fresh {
			noteEvent(d.App, e)
		}
		events = append(events, fresh...)
	}
	tick := time.NewTicker(eventPause)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			look(ctx)
		case err := <-done:
			// After an interrupt, ctx has ended, so the last poll needs another context.
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			look(last)
			if err == nil {
				return nil
			}
			return d.explainFailure(last, ctx.Err() != nil, args[0], stacks, events, out.Bytes())
		}
	}
}

func (d *deployment) explainFailure(ctx context.Context, interrupted bool, what string, stacks []string, events []cloud.Event, out []byte) error {
	state, next := d.state(ctx, stacks)
	if interrupted {
		err := problem.New(problem.Canceled, "interrupted; CloudFormation continues what it has begun. %s", state)
		return kit.WithHint(err, "the same command again: it waits for CloudFormation and continues")
	}
	cause, advice := lastError(out), ""
	if e, ok := cloud.Cause(events); ok {
		cause = fmt.Sprintf("%s: %s (%s): %s", e.Stack, e.Resource, e.Type, e.Reason)
		if text, remedy := d.explainRefusal(e); text != "" {
			advice, next = ". "+text, cmp.Or(next, remedy)
		}
	}
	err := problem.New(problem.Internal, "%s failed: %s. Rollback: %s%s", what, strings.TrimSuffix(strings.ReplaceAll(cause, "\n", " "), "."), state, advice)
	if next != "" {
		return kit.WithHint(err, "%s", next)
	}
	return err
}

// state describes the current status of stacks. next is a command that may help, or "".
func (d *deployment) state(ctx context.Context, stacks []string) (line, next string) {
	var parts []string
	for _, name := range stacks {
		s, err := d.cloud.Stack(ctx, name)
		switch {
		case problem.Is(err, problem.NotFound):
			parts = append(parts, name+" was never created")
		case err != nil:
			parts = append(parts, name+" could not be checked")
		case s.Status == "ROLLBACK_COMPLETE":
			parts = append(parts, name+" was rolled back completely (ROLLBACK_COMPLETE); the next deploy rebuilds it")
		case s.Status == "UPDATE_ROLLBACK_COMPLETE":
			parts = append(parts, name+" is as it was before (UPDATE_ROLLBACK_COMPLETE)")
		case s.IsBusy(): // CDK has waited for its own change
			parts = append(parts, name+" is "+s.Status+" by another deploy")
			next = cmp.Or(next, "the same command again: it waits for the other deploy and keeps the settings that it chose")
		default:
			parts = append(parts, name+" is "+s.Status)
		}
		if hint := stuckHint(s); hint != "" && next == "" {
			next = hint
		}
	}
	return strings.Join(parts, "; "), next
}

// output stores a command's output for its error message.
type output struct {
	mu sync.Mutex
	bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.Buffer.Write(p)
}

// lastError returns the line that explains a failed run: the last line with an error, or otherwise
// the last line. CDK's message that its app failed is used only if there is no other line.
func lastError(out []byte) string {
	var last, worst, ended string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(kit.Printable(strings.TrimRight(line, "\r\n")))
		lower := strings.ToLower(line)
		switch {
		case line == "":
		case strings.Contains(line, "Subprocess exited"):
			ended = line
		default:
			last = line
			if strings.Contains(lower, "error") || strings.Contains(lower, "failed:") || strings.Contains(lower, "expected") {
				worst = line
			}
		}
	}
	return cmp.Or(worst, last, ended, "it printed nothing")
}
