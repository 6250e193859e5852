package vacantcmd

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
)

func budgetCommand(a *kit.App) *cobra.Command {
	return a.ParentCommand(&cobra.Command{
		Use:   "budget",
		Short: "Show or set the daily budget for models",
		Long: `Show or set how much the models of a tenant's vacants may cost per UTC day ($5 by default). For
vacants without a tenant, the flag --model-budget of "dev" and "serve" sets this budget. An agent
may also limit the cost of its day (daily_budget) and of each call (budget): see "vacancy help
agent-files".

The host reserves the highest possible cost of a turn before it asks the model. It refunds the
unused part afterwards. Once a daily budget is spent, calls are refused until 00:00 UTC.`,
		Example: "  vacancy budget show\n  vacancy budget set 2.50 --tenant acme",
	},
		kit.Operation[admin.TenantRef, spend.Budget]{
			Use:     "show",
			Short:   "Show a daily budget and its use",
			Example: "  vacancy budget show\n  vacancy budget show --tenant acme --json",
			Op:      admin.GetBudget,
			API:     kit.NewTenantAPI("the budget of a tenant, instead of the host's"),
			Request: func(q kit.Request) (admin.TenantRef, error) { return q.TenantRef(), nil },
			Print:   printBudget,
		}.Command(a),
		kit.Operation[admin.TenantRequest[admin.DailyBudget], spend.Budget]{
			Use:     "set DOLLARS --tenant T",
			Short:   "Set a tenant's daily budget for models",
			Long:    `Set the daily budget for the models of a tenant's vacants; 0 refuses all paid models.`,
			Example: "  vacancy budget set 2.50 --tenant acme",
			Op:      admin.SetBudget,
			API:     kit.NewTenantAPI("the tenant"),
			Request: func(q kit.Request) (in admin.TenantRequest[admin.DailyBudget], err error) {
				if q.Tenant == "" {
					return in, kit.WithHint(problem.New(problem.Usage, "--tenant: expected a tenant, got none; the flag --model-budget sets the host's own budget"), "vacancy serve --model-budget %s", q.Args[0])
				}
				daily, err := money.Parse(q.Args[0])
				if err != nil {
					return in, problem.WithPlace(problem.Usage, "DOLLARS", err)
				}
				return admin.NewTenantRequest(q.Tenant, admin.DailyBudget{Daily: daily}), nil
			},
			Print: printBudget,
		}.Command(a),
	)
}

func printBudget(w io.Writer, r spend.Budget) {
	owner := "vacants without a tenant"
	if r.Tenant != "" {
		owner = "tenant " + kit.EscapeLine(r.Tenant)
	}
	fmt.Fprintf(w, "daily budget for models of %s: %s; spent or reserved on %s: %s\n", owner, r.Daily, kit.EscapeLine(r.Day), r.Spent)
}

func modelsCommand(a *kit.App) *cobra.Command {
	cmd := kit.Operation[op.None, models.Table]{
		Use:   "models",
		Short: "Show the prices of models",
		Long: `Show the host's table of models, with prices in dollars per million tokens. An entry also applies
to versions of the model, such as NAME-20260401 and NAME-latest.

A model at Bedrock or with a secret must be in the table, or its agent must state a price. A model
of a tenant's vacant must be in the table, because the operator pays for it. There the agent's
price is used only if it is higher than the table's.`,
		Example: "  vacancy models\n  vacancy models --json > models.json\n  vacancy models set models.json",
		Op:      admin.GetModels,
		Print:   printModels,
	}.Command(a)
	cmd.AddCommand(kit.Operation[op.Body[op.Raw[models.TableDocument]], models.Table]{
		Use:   "set FILE",
		Short: "Replace the table of models",
		Long: `Replace the host's table of models with a file in the format of "vacancy models --json". Its prices
are in micro-dollars per million tokens. The versions of the table are numbered. The row of a call
names the version that priced the call.`,
		Example: "  vacancy models set models.json",
		Op:      admin.SetModels,
		Request: func(q kit.Request) (in op.Body[op.Raw[models.TableDocument]], err error) {
			file, err := os.ReadFile(q.Args[0])
			if err != nil {
				return in, problem.Wrap(problem.NotFound, err, "read %s", q.Args[0])
			}
			file = canon.TrimByteOrderMark(file)
			if _, err := models.Parse(file); err != nil {
				return in, problem.WithPlace(problem.Usage, q.Args[0], err)
			}
			return op.NewBody(op.Raw[models.TableDocument](file)), nil
		},
		Print: printModels,
	}.Command(a))
	return cmd
}

func printModels(w io.Writer, t models.Table) {
	fmt.Fprintf(w, "version %d, dollars per million tokens\n", t.Version)
	rows := [][]any{{"provider", "model", "in", "out", "cached", "tier"}}
	for _, m := range t.Models {
		rows = append(rows, []any{m.Provider, m.Name, m.InputPrice, m.OutputPrice, m.CachedPrice, m.Tier})
	}
	for _, line := range kit.FormatColumns(rows...) {
		fmt.Fprintln(w, line)
	}
}
