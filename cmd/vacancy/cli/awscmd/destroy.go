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
	var skipQuestion bool
	cmd := &cobra.Command{
		Use:   "destroy --stage STAGE",
		Short: "Remove a deployed host",
		Long: `Delete the stacks of a stage and this machine's record of the stage. The stack that was
deployed last is deleted first.

By default (context keep=true) the tables, the bucket and the keys stay in the account. With
keep=false they are deleted with their contents. The command first shows what it deletes and
what it keeps. It deletes nothing until you have typed the stage's name.

The command also lists orphans: tables, buckets and keys of earlier deploys of the stage that
no stack owns. They cost money. The command does not delete them.`,
		Example: `  vacancy destroy --stage try
  vacancy destroy --stage try --yes`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if stageName == "" {
				return kit.WithHint(problem.New(problem.Usage, "--stage: expected the stage to remove, for example dev, got none"), "vacancy destroy --stage STAGE")
			}
			return destroy(a, cmd.Context(), stageName, skipQuestion)
		},
	}
	cmd.Flags().StringVar(&stageName, "stage", "", "the stage (required: $VACANCY_STAGE is not used)")
	cmd.Flags().BoolVar(&skipQuestion, "yes", false, "do not ask for confirmation")
	return cmd
}

type stackDeletion struct {
	cloud.Stack
	deletedData   []cloud.Resource
	retainedData  []cloud.Resource
	resourceCount int
}

type destroyResult struct {
	Stage   string           `json:"stage"`
	Stacks  []string         `json:"stacks"` // in the order of their deletion
	Kept    []resourceResult `json:"kept"`
	Orphans []resourceResult `json:"orphans"`
}

type resourceResult struct {
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
		fmt.Fprintln(w, "a new stage of this name gets new tables, a new bucket and new keys; it does not use the kept resources")
	}
	for _, o := range r.Orphans {
		fmt.Fprintf(w, "orphan  %s  %s\n", o.Type, o.Name)
	}
	if len(r.Orphans) > 0 {
		fmt.Fprintln(w, "orphans are data of earlier deploys that no stack owns; \"When something goes wrong\" in infra/README.md explains how to delete them")
	}
}

func destroy(a *kit.App, ctx context.Context, stageName string, skipQuestion bool) error {
	name, err := a.StageName(stageName)
	if err != nil {
		return err
	}
	_, c, err := a.OpenStage(ctx, name)
	if err != nil {
		return err
	}
	plan, err := planDeletions(ctx, c, name)
	if err != nil {
		return err
	}
	r := destroyResult{Stage: name, Stacks: []string{}, Kept: []resourceResult{}, Orphans: []resourceResult{}}
	taggedResources, err := c.TaggedResources(ctx, name)
	if err != nil { // removing the stage does not require these permissions
		a.PrintNote("Data of earlier deploys could not be listed: %s", problem.AsError(err).Text())
	}
	for _, o := range taggedResources {
		isSameResource := func(owned cloud.Resource) bool { return owned.PhysicalID == o.PhysicalID }
		if !slices.ContainsFunc(plan, func(d stackDeletion) bool {
			return slices.ContainsFunc(d.deletedData, isSameResource) || slices.ContainsFunc(d.retainedData, isSameResource)
		}) {
			r.Orphans = append(r.Orphans, resourceResult{o.Type, o.PhysicalID})
		}
	}
	if len(plan) > 0 {
		hasContent, err := hasData(ctx, c, plan)
		if err != nil {
			return err
		}
		a.PrintNote("stage %s in Region %s:", name, c.Region())
		for _, d := range plan {
			a.PrintNote("  delete  stack %s, %d resources", d.Name, d.resourceCount)
			for _, r := range d.deletedData {
				a.PrintNote("  delete  %s %s", r.Type, r.PhysicalID)
			}
			for _, r := range d.retainedData {
				a.PrintNote("  keep    %s %s", r.Type, r.PhysicalID)
			}
		}
		if hasContent {
			a.PrintNote("The deletion includes data: vacants, their keys and all messages. It cannot be undone.")
		}
		if !skipQuestion {
			if err := a.AskToConfirm(ctx, "Type the stage's name to continue:", name); err != nil {
				return kit.WithHint(err, "vacancy destroy --stage %s --yes", name)
			}
		}
	}
	for _, d := range plan {
		if err := deleteStack(a, ctx, c, d); err != nil {
			return err
		}
		r.Stacks = append(r.Stacks, d.Name)
		for _, k := range d.retainedData {
			r.Kept = append(r.Kept, resourceResult{k.Type, k.PhysicalID})
		}
	}
	records, err := a.StageRecords()
	if err != nil {
		return err
	}
	if err := records.Remove(name); err != nil {
		return err
	}
	return a.PrintResult(r)
}

// planDeletions lists the existing stacks in the reverse order of their deployment.
func planDeletions(ctx context.Context, c cloud.Cloud, stageName string) ([]stackDeletion, error) {
	var plan []stackDeletion
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
		deletion := stackDeletion{Stack: s}
		resources, err := c.Resources(ctx, name)
		if err != nil {
			return nil, err
		}
		deletion.resourceCount = len(resources)
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
			case !assembly.IsDataType(r.Type) || r.PhysicalID == "":
			case parsed.IsRetained(r.LogicalID):
				deletion.retainedData = append(deletion.retainedData, r)
			default:
				deletion.deletedData = append(deletion.deletedData, r)
			}
		}
		plan = append(plan, deletion)
	}
	return plan, nil
}

const (
	bucketType      = "AWS::S3::Bucket"
	tableType       = "AWS::DynamoDB::Table"
	globalTableType = "AWS::DynamoDB::GlobalTable"
)

func hasData(ctx context.Context, c cloud.Cloud, plan []stackDeletion) (bool, error) {
	for _, d := range plan {
		for _, r := range d.deletedData {
			var hasContent bool
			var err error
			switch r.Type {
			case bucketType:
				hasContent, err = c.HasObjects(ctx, r.PhysicalID)
			case tableType, globalTableType:
				hasContent, err = c.HasItems(ctx, r.PhysicalID)
			}
			if hasContent || err != nil {
				return hasContent, err
			}
		}
	}
	return false, nil
}

// deleteStack empties a stack's buckets and deletes the stack. If the stack is already being
// deleted, for example after an interrupt, deleteStack waits for the end of the deletion.
func deleteStack(a *kit.App, ctx context.Context, c cloud.Cloud, deletion stackDeletion) error {
	progress := a.ProgressLine()
	defer progress.Clear()
	for _, r := range deletion.deletedData {
		if r.Type != bucketType {
			continue
		}
		deletedCount := 0
		if err := c.EmptyBucket(ctx, r.PhysicalID, func(n int) { deletedCount = n; progress.Show("bucket %s: %d objects deleted", r.PhysicalID, n) }); err != nil {
			return err
		}
		progress.Clear()
		if deletedCount > 0 {
			a.PrintNote("  bucket %s is empty: %d objects and versions deleted", r.PhysicalID, deletedCount)
		}
	}
	watch, err := c.WatchStacks(ctx, deletion.ID)
	if err != nil {
		return err
	}
	if err := c.DeleteStack(ctx, deletion.ID); err != nil {
		return err
	}
	s, events, err := cloud.AwaitStack(ctx, c, watch, deletion.ID, func(e cloud.Event) { printEvent(a, e) })
	if err != nil {
		return kit.WithHint(err, "run the same command again: it continues where this command ended")
	}
	if s.Status == "DELETE_COMPLETE" {
		return nil
	}
	var remaining []string
	for _, e := range events {
		if e.Status == "DELETE_FAILED" && !e.IsStackEvent() {
			remaining = append(remaining, fmt.Sprintf("%s (%s): %s", e.Resource, e.Type, e.Reason))
		}
	}
	if len(remaining) == 0 {
		remaining = append(remaining, s.Reason)
	}
	return problem.New(problem.Conflict, "%s is %s; not deleted: %s", deletion.Name, s.Status, strings.Join(remaining, "; "))
}

func printEvent(a *kit.App, e cloud.Event) {
	if e.IsStackEvent() {
		a.PrintNote("  %-28s %s", e.Status, kit.EscapeLine(e.Stack))
		return
	}
	line := fmt.Sprintf("  %-28s %s (%s)", e.Status, e.Resource, strings.TrimPrefix(e.Type, "AWS::"))
	if e.IsFailure() && e.Reason != "" {
		line += ": " + e.Reason
	}
	a.PrintNote("%s", kit.EscapeLine(line))
}
