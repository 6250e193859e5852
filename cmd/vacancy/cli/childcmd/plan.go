package childcmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/yamldoc"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/substrate/plan"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func planCommand(a *kit.App) *cobra.Command {
	return a.ParentCommand(&cobra.Command{
		Use:   "plan",
		Short: "Set the plan by which a composite delegates",
		Long: `A vacant with a plan is a composite: it delegates each call to its children, one after
the other or in parallel, and combines their answers.`,
		Example: `  vacancy plan set lawfirm plan.yaml
  vacancy plan show lawfirm`,
	},
		kit.Operation[admin.VacantRequest[op.Raw[plan.Document]], admin.Plan]{
			Use:   "set VACANT FILE",
			Short: "Set the plan of a vacant",
			Long: `Set the plan of a hosted vacant from FILE, YAML or JSON; - is standard input. The next
call uses it. Children are named by name or id. They must be the vacant's own children
and hosted on the same host; a plan that leads back to the vacant is refused.

  version: 1
  parallel: true              # false: one after the other, with {previous}
  on_failure: abort           # or skip
  delegate:
    - child: reviewer
      kind: review
      task: "Review this: {input}"
  aggregate:
    how: join                 # list, join, first, vote or substrate`,
			Example: `  vacancy plan set lawfirm plan.yaml
  vacancy plan show lawfirm --json | jq .plan | vacancy plan set other -`,
			Op: admin.SetPlan,
			Request: func(q kit.Request) (admin.VacantRequest[op.Raw[plan.Document]], error) {
				document, err := readDocument(a, q.Args[1])
				return admin.NewVacantRequest(q.Args[0], op.Raw[plan.Document](document)), err
			},
			Print: printPlan,
		}.Command(a),
		kit.Operation[admin.VacantRef, admin.Plan]{
			Use:     "show VACANT",
			Short:   "Show the plan of a vacant",
			Example: "  vacancy plan show lawfirm",
			Op:      admin.GetPlan,
			Request: func(q kit.Request) (admin.VacantRef, error) { return admin.VacantRef{Vacant: q.Args[0]}, nil },
			Print:   printPlan,
		}.Command(a),
	)
}

func readDocument(a *kit.App, path string) (json.RawMessage, error) {
	var in io.Reader = a.In
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, yamldoc.MaxBytes+1))
	if err != nil {
		return nil, err
	}
	if len(b) > yamldoc.MaxBytes {
		return nil, problem.New(problem.TooLarge, "%s: expected at most %d bytes", path, yamldoc.MaxBytes)
	}
	doc, err := yamldoc.ToJSON(b)
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "%s: %s", path, problem.AsError(err).Text())
	}
	return doc, nil
}

func printPlan(w io.Writer, r admin.Plan) {
	fmt.Fprintf(w, "%s answers by plan %s\n", r.Vacant.Name, r.Hash)
	var b bytes.Buffer
	if json.Indent(&b, r.Plan, "", "  ") == nil {
		fmt.Fprintln(w, kit.EscapeControls(b.String(), "\n"))
	}
}
