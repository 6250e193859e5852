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

func (d *deployment) confirmChanges(ctx context.Context, newAssembly *assembly.Assembly, changes []stackChange, oldEdge cloud.Stack) error {
	if oldEdge.ID != "" {
		d.PrintNote("stack %s would be deleted: the host's address changes from CloudFront to its Function URL", oldEdge.Name)
	}
	if !d.JSON {
		d.printSettingChanges()
		if err := d.printDiff(ctx, newAssembly, changes); err != nil {
			return err
		}
	}
	if d.flags.skipQuestion {
		return nil
	}
	question := fmt.Sprintf("Deploy this to stage %s in account %s, Region %s? Type yes:", d.rec.Stage, d.rec.Account, d.rec.Region)
	if err := d.AskToConfirm(ctx, question, "yes"); err != nil {
		return kit.WithHint(err, "vacancy deploy --stage %s --yes", d.rec.Stage)
	}
	return nil
}

func wrapWords(words []string) (lines []string) {
	const maxColumns = 100
	line := ""
	for i, word := range words {
		if i < len(words)-1 {
			word += ","
		}
		if line != "" && len(line)+1+len(word) > maxColumns {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}

func countTypes(t assembly.Template) (counts []string, total int) {
	for _, c := range t.CountTypes() {
		counts = append(counts, fmt.Sprintf("%d %s", c.ResourceCount, kit.EscapeLine(strings.TrimPrefix(c.Type, "AWS::"))))
		total += c.ResourceCount
	}
	return counts, total
}

// printDiff lists the resources of new stacks by type, because CDK's diff of a new stack has a
// thousand lines. It prints CDK's diff of existing stacks.
func (d *deployment) printDiff(ctx context.Context, newAssembly *assembly.Assembly, changes []stackChange) error {
	args := []string{"diff", "--app", newAssembly.Dir, "--method", "template", "--no-color", "--exclusively"}
	optionCount := len(args)
	for _, s := range newAssembly.Stacks {
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
		d.PrintNote("%s is new:", s.Name)
		for _, line := range wrapWords(counts) {
			d.PrintNote("    %s", line)
		}
	}
	if len(args) == optionCount {
		return nil
	}
	out, err := d.cdk.Command(ctx, d.checkoutDir, d.environ(), args...).CombinedOutput()
	if ctx.Err() != nil {
		return problem.New(problem.Canceled, "interrupted: nothing was deployed")
	}
	if err != nil {
		return problem.Wrap(problem.Internal, err, "cdk diff failed: %s", findErrorLine(out))
	}
	d.PrintNote("%s", kit.EscapeControls(strings.TrimSpace(string(out)), "\n\t"))
	return nil
}
