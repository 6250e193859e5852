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

func (d *deployment) confirm(ctx context.Context, built *assembly.Assembly, changes []stackChange, dropped cloud.Stack) error {
	if dropped.ID != "" {
		d.Note("stack %s would be deleted: the host moves from CloudFront to its Function URL", dropped.Name)
	}
	if !d.JSON {
		d.noteSettings()
		if err := d.noteDiff(ctx, built, changes); err != nil {
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

func wrap(list []string) (lines []string) {
	// The words are joined with commas into lines of at most a hundred columns.
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

func countTypes(t assembly.Template) (counts []string, sum int) {
	for _, c := range t.Counts() {
		counts = append(counts, fmt.Sprintf("%d %s", c.N, kit.Printable(strings.TrimPrefix(c.Type, "AWS::"))))
		sum += c.N
	}
	return counts, sum
}

// noteDiff lists the resources of new stacks by type, and prints CDK's diff of existing stacks that
// change. CDK's diff of a new stack would be a thousand lines, because it contains every property
// and policy.
func (d *deployment) noteDiff(ctx context.Context, built *assembly.Assembly, changes []stackChange) error {
	args := []string{"diff", "--app", built.Dir, "--method", "template", "--no-color", "--exclusively"}
	options := len(args) // number of arguments before the stacks
	for _, s := range built.Stacks {
		i := slices.IndexFunc(changes, func(c stackChange) bool { return c.Stack == s.Name })
		if i < 0 {
			continue
		}
		if !changes[i].New {
			args = append(args, s.ID)
			continue
		}
		t, err := assembly.Parse(s.Template)
		if err != nil {
			return err
		}
		counts, _ := countTypes(t)
		d.Note("%s is new:", s.Name)
		for _, line := range wrap(counts) {
			d.Note("    %s", line)
		}
	}
	if len(args) == options {
		return nil
	}
	out, err := d.cdk.Command(ctx, d.top, d.environ(), args...).CombinedOutput()
	if ctx.Err() != nil {
		return problem.New(problem.Canceled, "interrupted: nothing was deployed")
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "cdk diff failed: %s", lastError(out))
	}
	d.Note("%s", kit.EscapeControls(strings.TrimSpace(string(out)), "\n\t"))
	return nil
}
