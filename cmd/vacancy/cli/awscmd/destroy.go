package awscmd

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func destroyCommand(a *kit.App) *cobra.Command {
	var stageName string
	var yes bool
	cmd := &cobra.Command{
		Use:   "destroy --stage STAGE",
		Short: "Remove a deployed host",
		Long: `Delete the stacks of a stage, the last deployed first, and this machine's record of the stage.

By default (context keep=true) the tables, the bucket and the keys stay in the account.
With keep=false they are deleted with their contents; the bucket is emptied first. Nothing
is deleted before the command has shown what it deletes and what it keeps, and you have typed
the stage's name.

It also lists orphans: tables, buckets and keys of earlier deploys of the stage that no
stack owns, and that cost money. It deletes none of them.`,
		Example: `  vacancy destroy --stage try
  vacancy destroy --stage try --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if stageName == "" {
				return kit.WithHint(problem.New(problem.Usage, "--stage: expected the stage to remove, for example dev, got none"), "vacancy destroy --stage STAGE")
			}
			return destroy(a, cmd.Context(), stageName, yes)
		},
	}
	cmd.Flags().StringVar(&stageName, "stage", "", "the stage (required: $VACANCY_STAGE is not used)")
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for confirmation")
	return cmd
}

// firstFailure is a stack to delete, with its data resources.
type firstFailure struct {
	cloud.Stack
	goes  []cloud.Resource // data resources that are deleted with the stack
	stays []cloud.Resource // data resources that remain after the stack is deleted
	count int              // number of all resources
}

type destroyResult struct {
	Stage  string       `json:"stage"`
	Stacks []string     `json:"stacks"` // deleted stacks, in this order
	Kept   []keptResult `json:"kept"`
	// Orphans contains the tables, buckets and keys of earlier deploys.
	Orphans []keptResult `json:"orphans"`
}

// keptResult is a data resource that was not deleted.
type keptResult struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

func (r destroyResult) Print(w io.Writer) {
	if len(r.Stacks) == 0 {
		fmt.Fprintf(w, "stage %s had no stacks\n", r.Stage)
	} else {
		fmt.Fprintf(w, "stage %s is removed: %s\n", r.Stage, strings.Join(r.Stacks, ", "))
	}
	for _, k := range r.Kept {
		fmt.Fprintf(w, "kept  %s  %s\n", k.Type, k.Name)
	}
	if len(r.Kept) > 0 {
		fmt.Fprintln(w, "a new stage of this name gets its own tables, bucket and keys; it does not use the kept ones")
	}
	for _, o := range r.Orphans {
		fmt.Fprintf(w, "orphan  %s  %s\n", o.Type, o.Name)
	}
	if len(r.Orphans) > 0 {
		fmt.Fprintln(w, "orphans are data of earlier deploys that no stack owns: infra/README.md tells how to delete them, below \"When something goes wrong\"")
	}
}

func destroy(a *kit.App, ctx context.Context, stageName string, yes bool) error {
	name, err := a.StageName(stageName)
	if err != nil {
		return err
	}
	_, c, err := a.OpenStage(ctx, name)
	if err != nil {
		return err
	}
	plan, err := destroyPlan(ctx, c, name)
	if err != nil {
		return err
	}
	r := destroyResult{Stage: name, Stacks: []string{}, Kept: []keptResult{}, Orphans: []keptResult{}}
	tagged, err := c.Tagged(ctx, name)
	if err != nil { // removing the stage does not require these permissions
		a.Note("Data of earlier deploys could not be listed: %s", problem.AsError(err).Text())
	}
	for _, o := range tagged {
		owns := func(owned cloud.Resource) bool { return owned.Physical == o.Physical }
		if !slices.ContainsFunc(plan, func(d firstFailure) bool {
			return slices.ContainsFunc(d.goes, owns) || slices.ContainsFunc(d.stays, owns)
		}) {
			r.Orphans = append(r.Orphans, keptResult{o.Type, o.Physical})
		}
	}
	if len(plan) > 0 {
		full, err := hasData(ctx, c, plan)
		if err != nil {
			return err
		}
		a.Note("stage %s in Region %s:", name, c.Region())
		for _, d := range plan {
			a.Note("  delete  stack %s, %d resources", d.Name, d.count)
			for _, r := range d.goes {
				a.Note("  delete  %s %s", r.Type, r.Physical)
			}
			for _, r := range d.stays {
				a.Note("  keep    %s %s", r.Type, r.Physical)
			}
		}
		if full {
			a.Note("The deletion includes data: vacants, their keys and all messages. It cannot be undone.")
		}
		if !yes {
			if err := a.Ask(ctx, "Type the stage's name to go on:", name); err != nil {
				return kit.WithHint(err, "vacancy destroy --stage %s --yes", name)
			}
		}
	}
	for _, d := range plan {
		if err := deleteStack(a, ctx, c, d); err != nil {
			return err
		}
		r.Stacks = append(r.Stacks, d.Name)
		for _, k := range d.stays {
			r.Kept = append(r.Kept, keptResult{k.Type, k.Physical})
		}
	}
	records, err := a.Stages()
	if err != nil {
		return err
	}
	if err := records.Remove(name); err != nil {
		return err
	}
	return a.Show(r)
}

// destroyPlan lists the existing stacks in the order of their deletion, which is the reverse of
// their deployment.
func destroyPlan(ctx context.Context, c cloud.Cloud, stageName string) ([]firstFailure, error) {
	var plan []firstFailure
	names := kit.StackNames(stageName)
	slices.Reverse(names)
	for _, name := range names {
		s, err := c.Stack(ctx, name)
		if problem.Is(err, problem.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		d := firstFailure{Stack: s}
		resources, err := c.Resources(ctx, name)
		if err != nil {
			return nil, err
		}
		d.count = len(resources)
		template, err := c.Template(ctx, name)
		if err != nil {
			return nil, err
		}
		parsed, err := assembly.Parse(template)
		if err != nil {
			return nil, err
		}
		for _, r := range resources {
			switch {
			case !assembly.IsData(r.Type) || r.Physical == "":
			case parsed.IsRetained(r.Logical):
				d.stays = append(d.stays, r)
			default:
				d.goes = append(d.goes, r)
			}
		}
		plan = append(plan, d)
	}
	return plan, nil
}

// Types of resources whose content is checked.
const (
	bucketType = "AWS::S3::Bucket"
	tableType  = "AWS::DynamoDB::Table"
	globalType = "AWS::DynamoDB::GlobalTable"
)

func hasData(ctx context.Context, c cloud.Cloud, plan []firstFailure) (bool, error) {
	for _, d := range plan {
		for _, r := range d.goes {
			var full bool
			var err error
			switch r.Type {
			case bucketType:
				full, err = c.HasObjects(ctx, r.Physical)
			case tableType, globalType:
				full, err = c.HasItems(ctx, r.Physical)
			}
			if full || err != nil {
				return full, err
			}
		}
	}
	return false, nil
}

// deleteStack empties a stack's buckets and deletes the stack. If the deletion is already in
// progress, for example after an interrupt, it waits for its end.
func deleteStack(a *kit.App, ctx context.Context, c cloud.Cloud, d firstFailure) error {
	progress := a.ProgressLine()
	defer progress.Clear()
	for _, r := range d.goes {
		if r.Type != bucketType {
			continue
		}
		gone := 0
		if err := c.Empty(ctx, r.Physical, func(n int) { gone = n; progress.Show("bucket %s: %d objects deleted", r.Physical, n) }); err != nil {
			return err
		}
		progress.Clear()
		if gone > 0 {
			a.Note("  bucket %s is empty: %d objects and versions deleted", r.Physical, gone)
		}
	}
	watch, err := c.Watch(ctx, d.ID)
	if err != nil {
		return err
	}
	if err := c.Delete(ctx, d.ID); err != nil {
		return err
	}
	s, events, err := cloud.AwaitStack(ctx, c, watch, d.ID, func(e cloud.Event) { noteEvent(a, e) })
	if err != nil {
		return kit.WithHint(err, "the same command again: it continues where this one ended")
	}
	if s.Status == "DELETE_COMPLETE" {
		return nil
	}
	var left []string // remaining resources with the reasons
	for _, e := range events {
		if e.Status == "DELETE_FAILED" && !e.IsStackEvent() {
			left = append(left, fmt.Sprintf("%s (%s): %s", e.Resource, e.Type, e.Reason))
		}
	}
	if len(left) == 0 {
		left = append(left, s.Reason)
	}
	return problem.New(problem.Conflict, "%s is %s; not deleted: %s", d.Name, s.Status, strings.Join(left, "; "))
}

func noteEvent(a *kit.App, e cloud.Event) {
	if e.IsStackEvent() {
		a.Note("  %-28s %s", e.Status, kit.Printable(e.Stack))
		return
	}
	line := fmt.Sprintf("  %-28s %s (%s)", e.Status, e.Resource, strings.TrimPrefix(e.Type, "AWS::"))
	if e.IsFailure() && e.Reason != "" {
		line += ": " + e.Reason
	}
	a.Note("%s", kit.Printable(line))
}
