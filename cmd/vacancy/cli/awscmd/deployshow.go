package awscmd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// confirm shows the changes and asks.
func (d *deployment) confirm(ctx context.Context, built *assembly.Assembly, changes []stackChange, dropped cloud.Stack) error {
	if dropped.ID != "" {
		d.Note("stack %s would be deleted: the host moves from CloudFront to its Function URL", dropped.Name)
	}
	if !d.JSON {
		d.noteSettings()
		if err := d.tellNew(built, changes); err != nil {
			return err
		}
		if err := d.tellDiff(ctx, built, changes); err != nil {
			return err
		}
	}
	if d.flags.yes {
		return nil
	}
	question := fmt.Sprintf("Deploy this to stage %s in account %s, Region %s? Type yes:", d.rec.Stage, d.rec.Account, d.rec.Region)
	if err := d.Ask(ctx, question, "yes"); err != nil {
		return kit.WithHint(err, "vacancy deploy --stage %s --yes", d.rec.Stage)
	}
	return nil
}

// tellNew summarizes each new stack. CDK's diff of it would list all policies,
// which nobody reads.
func (d *deployment) tellNew(built *assembly.Assembly, changes []stackChange) error {
	for _, s := range built.Stacks {
		if !slices.ContainsFunc(changes, func(c stackChange) bool { return c.Stack == s.Name && c.New }) {
			continue
		}
		t, err := assembly.Parse(s.Template)
		if err != nil {
			return err
		}
		counts, _ := countTypes(t)
		d.Note("%s is new:", s.Name)
		d.noteWrapped(counts)
		for _, o := range together(t.Openings()) {
			d.Note("  %s", kit.Printable(openLine(o)))
			if len(o.resources) > 1 {
				d.noteWrapped(o.resources)
			}
		}
		if roles := t.Roles(); len(roles) > 0 {
			d.Note("  roles, each with the policy in infra/policies:")
			d.noteWrapped(roles)
		}
	}
	return nil
}

// opening holds the resources of equal openings.
type opening struct {
	assembly.Opening
	resources []string
}

// together merges successive openings of one resource, and then of the same actions.
func together(openings []assembly.Opening) (all []opening) {
	var each []assembly.Opening
	for _, o := range openings {
		if n := len(each) - 1; n >= 0 && each[n].Resource == o.Resource && each[n].ByURL == o.ByURL && slices.Equal(each[n].Where, o.Where) {
			each[n].Actions = slices.Concat(each[n].Actions, o.Actions)
			continue
		}
		each = append(each, o)
	}
	for _, o := range each {
		if n := len(all) - 1; n >= 0 && all[n].ByURL == o.ByURL && slices.Equal(all[n].Where, o.Where) && slices.Equal(all[n].Actions, o.Actions) {
			all[n].resources = append(all[n].resources, kit.Printable(o.Resource))
			continue
		}
		all = append(all, opening{o, []string{kit.Printable(o.Resource)}})
	}
	return all
}

// openLine says what a statement allows, and to whom.
func openLine(o opening) string {
	to, way := "to anybody", ""
	if len(o.Where) > 0 {
		to = "to whoever has the " + strings.Join(o.Where, " and ") + " it names"
	}
	if o.ByURL {
		way = " by its Function URL"
	}
	of := o.Resource + way
	if len(o.resources) > 1 {
		of = "each of these" + way + ":"
	}
	return fmt.Sprintf("open %s: %s of %s", to, strings.Join(o.Actions, ", "), of)
}

// noteWrapped prints a list, indented and wrapped.
func (d *deployment) noteWrapped(list []string) {
	for _, line := range wrap(list) {
		d.Note("    %s", line)
	}
}

// wrap joins a list by commas into lines of a hundred columns.
func wrap(list []string) (lines []string) {
	const most = 100
	line := ""
	for i, word := range list {
		if i < len(list)-1 {
			word += ","
		}
		if line != "" && len(line)+1+len(word) > most {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}

// countTypes lists the types of a template's resources with their numbers.
func countTypes(t assembly.Template) (counts []string, sum int) {
	for _, c := range t.Counts() {
		counts = append(counts, fmt.Sprintf("%d %s", c.N, kit.Printable(strings.TrimPrefix(c.Type, "AWS::"))))
		sum += c.N
	}
	return counts, sum
}

// tellDiff prints CDK's diff of existing stacks that change.
func (d *deployment) tellDiff(ctx context.Context, built *assembly.Assembly, changes []stackChange) error {
	args := []string{"diff", "--app", built.Dir, "--method", "template", "--no-color", "--exclusively"}
	var changed []stackChange
	for _, s := range built.Stacks {
		if i := slices.IndexFunc(changes, func(c stackChange) bool { return c.Stack == s.Name && !c.New }); i >= 0 {
			args, changed = append(args, s.ID), append(changed, changes[i])
		}
	}
	if len(changed) == 0 {
		return nil
	}
	out, err := d.cdk.Command(ctx, d.top, d.environ(), args...).CombinedOutput()
	if ctx.Err() != nil {
		return problem.New(problem.Canceled, "interrupted: nothing was deployed")
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "cdk diff failed: %s", lastWord(out))
	}
	d.Note("%s", kit.EscapeControls(strings.TrimSpace(string(out)), "\n\t"))
	d.tellChanges(changed)
	return nil
}

// tellChanges counts the changes, a line per stack.
func (d *deployment) tellChanges(changes []stackChange) {
	for _, s := range changes {
		count := map[string]int{}
		for _, c := range s.Changes {
			if c.Type != "" {
				count[c.Verb]++
			}
		}
		d.Note("%s: %d to create, %d to update, %d to remove", s.Stack, count[assembly.Create], count[assembly.Update], count[assembly.Remove])
	}
}
