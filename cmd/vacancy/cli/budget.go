package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/host/substrate/models"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (a *app) budgetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "budget",
		Short: "Show or set what models may cost in a day",
		Long: `Show or set what the models of a tenant's vacants may cost in a day of UTC, $5 unless it
is set. For vacants without a tenant it is --model-budget of "dev" and "serve". Within it
a vacant has its agent's daily_budget, and a call its budget ("vacancy help agent-files").

The most that a turn may cost is reserved before the model is asked, and what it did not
use comes back. A call whose day is spent is refused until 00:00 UTC.`,
		Example: "  vacancy budget show\n  vacancy budget set 2.50 --tenant acme",
		Args:    arguments(0, 0),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.budgetShowCommand(), a.budgetSetCommand())
	return cmd
}

func (a *app) budgetShowCommand() *cobra.Command {
	var f tenantFlags
	cmd := &cobra.Command{
		Use:     "show",
		Short:   "Show what models may cost in a day, and what is spent of it",
		Example: "  vacancy budget show\n  vacancy budget show --tenant acme --json",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.withAdmin(f.where, false, func(c *adminAPI) error {
				b, err := c.Budget(cmd.Context(), f.tenant)
				if err != nil {
					return err
				}
				return a.show(budgetResult(b))
			})
		},
	}
	f.add(cmd, "the budget of a tenant, instead of the host's")
	return cmd
}

func (a *app) budgetSetCommand() *cobra.Command {
	var f tenantFlags
	cmd := &cobra.Command{
		Use:     "set DOLLARS --tenant T",
		Short:   "Set what the models of a tenant may cost in a day",
		Long:    `Set what the models of a tenant's vacants may cost in a day; 0 is nothing at all.`,
		Example: "  vacancy budget set 2.50 --tenant acme",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			if f.tenant == "" {
				return withHint(problem.New(problem.Usage, "--tenant is missing: the host's own budget is set where it is started"), "vacancy serve --model-budget %s", args[0])
			}
			daily, err := models.ParseMoney(args[0])
			if err != nil {
				return problem.Within(problem.Usage, "DOLLARS", err)
			}
			return a.withAdmin(f.where, false, func(c *adminAPI) error {
				b, err := c.SetBudget(cmd.Context(), f.tenant, daily)
				if err != nil {
					return err
				}
				return a.show(budgetResult(b))
			})
		},
	}
	f.add(cmd, "the tenant")
	return cmd
}

// modelBudgetFlag adds --model-budget.
func modelBudgetFlag(fs *pflag.FlagSet, to *models.Money) {
	*to = spend.DefaultHost
	fs.Var((*moneyFlag)(to), "model-budget", "what the models of vacants without a tenant may cost in a day, in `DOLLARS`")
}

// moneyFlag is a flag of dollars.
type moneyFlag models.Money

// String implements pflag.Value.
func (m *moneyFlag) String() string { return models.Money(*m).String()[1:] }

// Type implements pflag.Value.
func (*moneyFlag) Type() string { return "dollars" }

// Set implements pflag.Value.
func (m *moneyFlag) Set(s string) error {
	is, err := models.ParseMoney(s)
	if err == nil && is > models.MaxBudget {
		err = problem.Invalid("dollars", "at most "+models.MaxBudget.String(), s)
	}
	*m = moneyFlag(is)
	return err
}

// budgetResult is a budget and what is spent of it.
type budgetResult spend.Budget

func (r budgetResult) text(w io.Writer) {
	whose := "vacants without a tenant"
	if r.Tenant != "" {
		whose = "tenant " + printable(r.Tenant)
	}
	fmt.Fprintf(w, "models of %s may cost %s a day; on %s %s is spent or reserved\n", whose, r.Daily, r.Day, r.Spent)
}

func (a *app) modelsCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:   "models",
		Short: "Show what models cost",
		Long: `Show the host's table of models: what a million tokens cost, in dollars. A model that
needs a secret must be in it, or its agent must say its price. Versions of a model with a
date, and its latest, cost what it does.`,
		Example: "  vacancy models\n  vacancy models --json > models.json\n  vacancy models set models.json",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withAdmin(w, false, func(c *adminAPI) error {
				t, err := c.Models(cmd.Context())
				if err != nil {
					return err
				}
				return a.show(modelsResult(t))
			})
		},
	}
	hostFlags(cmd.Flags(), &w)
	cmd.AddCommand(a.modelsSetCommand())
	return cmd
}

func (a *app) modelsSetCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:   "set FILE",
		Short: "Replace the table of models",
		Long: `Replace the host's table of models by a file in the form of "vacancy models --json", with
prices in micro-dollars a million tokens. It is the next version; rows of calls say by
which version they were paid.`,
		Example: "  vacancy models set models.json",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.ReadFile(args[0])
			if err != nil {
				return problem.Wrap(problem.NotFound, err, "%s cannot be read", args[0])
			}
			if _, err := models.Parse(file); err != nil {
				return problem.Within(problem.Usage, args[0], err)
			}
			return a.withAdmin(w, false, func(c *adminAPI) error {
				t, err := c.SetModels(cmd.Context(), file)
				if err != nil {
					return err
				}
				return a.show(modelsResult(t))
			})
		},
	}
	hostFlags(cmd.Flags(), &w)
	return cmd
}

// modelsResult is a version of the table of models.
type modelsResult models.Table

func (r modelsResult) text(w io.Writer) {
	fmt.Fprintf(w, "version %d, dollars a million tokens\n%-12s %-28s %8s %8s %8s  %s\n", r.Version, "provider", "model", "in", "out", "cached", "tier")
	for _, m := range r.Models {
		fmt.Fprintf(w, "%-12s %-28s %8s %8s %8s  %s\n", printable(m.Provider), printable(m.Name), m.In, m.Out, m.Cached, printable(string(m.Tier)))
	}
}
