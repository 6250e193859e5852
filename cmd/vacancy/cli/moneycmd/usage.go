package moneycmd

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/booking"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/vacants"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// usageResult is the usage of an account, or of the operator's vacants.
type usageResult struct {
	account.Usage

	csv   bool
	names kit.Names
}

// eachLine calls fn for each line. side is "paid" or "earned".
func (r usageResult) eachLine(fn func(side string, l *account.Line)) {
	for i := range r.Paid {
		fn("paid", &r.Paid[i])
	}
	for i := range r.Earned {
		fn("earned", &r.Earned[i])
	}
}

const ungroupedLabel = "all"

func lineLabel(l *account.Line) string {
	if l.Name != "" {
		return l.Name + " (" + l.Subject + ")"
	}
	for _, s := range []string{l.Hour, l.Day, l.Vacant, l.Caller, l.Subject} {
		if s != "" {
			return s
		}
	}
	return ungroupedLabel
}

func (r usageResult) displayLabel(l *account.Line) string {
	if text := lineLabel(l); text != ungroupedLabel {
		return r.names.NameOrText(text)
	}
	return "other calls" // for example unsigned calls with --by caller
}

func (r usageResult) Print(w io.Writer) {
	if r.csv {
		out := csv.NewWriter(w)
		_ = out.Write([]string{"side", "of", "answers", "voids", "charge_micros", "fee_micros", "tokens_in", "tokens_out", "unreported"})
		r.eachLine(func(side string, l *account.Line) {
			format := func(v uint64) string { return strconv.FormatUint(v, 10) }
			_ = out.Write([]string{side, lineLabel(l), format(l.Answers), format(l.Voids), strconv.FormatInt(int64(l.Charge), 10), strconv.FormatInt(int64(l.Fee), 10), format(l.InputTokens), format(l.OutputTokens), format(l.UnreportedAnswers)})
		})
		out.Flush() // an error is reported when standard output is closed
		return
	}
	if len(r.Events) > 0 {
		var bookings, cents int64
		for _, e := range r.Events {
			cents += e.Cents
			if e.Cents > 0 {
				bookings++
			}
		}
		fmt.Fprintf(w, "%d bookings, %s\n", bookings, money.Amount(cents)*booking.Cent)
	}
	if len(r.Paid)+len(r.Earned) == 0 {
		fmt.Fprintln(w, "no calls yet; a call is counted a second after its answer")
		return
	}
	rows := [][]any{{"", "", "answers", "voids", "charge", "fee"}}
	addRow := func(side, name string, c usage.Counts) {
		rows = append(rows, []any{side, name, c.Answers, c.Voids, c.Charge, c.Fee})
	}
	for i, lines := range [][]account.Line{r.Paid, r.Earned} {
		side := []string{"paid", "earned"}[i]
		var sum usage.Counts
		for i := range lines {
			addRow(side, r.displayLabel(&lines[i]), lines[i].Counts)
			sum.Add(lines[i].Counts)
		}
		if len(lines) > 1 {
			addRow("", "total", sum)
		}
	}
	for _, line := range kit.FormatColumns(rows...) {
		fmt.Fprintln(w, line)
	}
	for i := range r.Earned {
		if l := &r.Earned[i]; l.UnreportedAnswers > 0 {
			fmt.Fprintf(w, "unreported: %d answers of %s have a price by tokens, but the agent did not report the tokens\n", l.UnreportedAnswers, r.displayLabel(l))
		}
	}
}

type recountResult usage.RecountResult

func (r recountResult) Print(w io.Writer) {
	fmt.Fprintf(w, "recounted all rows and corrected %d documents of usage\n", r.Corrected)
	if r.Changed > 0 {
		fmt.Fprintf(w, "%d changed during the recount and were not corrected; run the same command again\n", r.Changed)
	}
}

func recountUsage(a *kit.App, ctx context.Context, where kit.HostFlags, readFlags kit.ReadFlags, args []string) error {
	if len(args) > 0 {
		return problem.New(problem.Usage, "--recount: not supported together with TENANT, because it recounts all usage")
	}
	host, err := a.FindRemoteHost(where)
	if err == nil {
		err = readFlags.CheckHost(host)
	}
	switch {
	case err != nil:
		return err
	case host != nil && host.AWS:
		return recountStage(a, ctx, host.Stage, readFlags)
	}
	return a.WithAdmin(where, false, func(c *kit.AdminAPI) error {
		r, err := admin.RecountUsage.Call(ctx, c, op.None{})
		if host != nil && problem.Is(err, problem.NotFound) {
			return kit.WithHint(err, "vacancy usage --recount --host aws, for a host on AWS")
		}
		if err != nil {
			return err
		}
		return a.PrintResult(recountResult(r))
	})
}

// recountStage recounts the usage of a stage from its tables. Before the usage is corrected, the
// function meter adds new rows to it.
func recountStage(a *kit.App, ctx context.Context, stage string, readFlags kit.ReadFlags) (err error) {
	_, c, err := a.OpenStage(ctx, stage)
	if err != nil {
		return err
	}
	tables, err := c.OpenTables(ctx, stage, readFlags.UnitsPerSecond, a.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	recounter := usage.Recounter{
		Meter: &usage.Meter{Store: tables, Now: a.Now, Rand: a.Rand, TenantOf: func(ctx context.Context, id identity.ID) (string, error) {
			return vacants.TenantOf(ctx, tables, id)
		}},
		Rows: tables,
		Fold: func(ctx context.Context) error {
			_, err := kit.InvokeFunction(ctx, c, stage, "meter", `{}`)
			return err
		},
	}
	result, err := recounter.Recount(ctx)
	if err != nil {
		return err
	}
	return a.PrintResult(recountResult(result))
}

func usageCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var groupBy, from, until string
	var asCSV, shouldRecount bool
	var readFlags kit.ReadFlags
	cmd := &cobra.Command{
		Use:   "usage [TENANT]",
		Short: "Show an account's spending, and the earnings of its vacants",
		Long: `Show what TENANT's account spent on calls and what the tenant's vacants earned, by default in the
current UTC month. Without TENANT, the key in $VACANCY_KEY chooses the account. Without a key, the
command shows the earnings of the operator's own vacants. The numbers are a second late, and on AWS up
to two minutes late.

"voids" counts calls without an answer. They failed or were canceled by their callers, and cost nothing.
"unreported" counts answers with a price by tokens whose tokens the agent did not report. These tokens
cost nothing, but they are estimated if the answer was canceled or cut off.

--recount reads all rows and corrects usage that differs from them. It corrects only hours and days that
ended at least ten minutes ago, and does not change exported files of days. With --host aws it reads the
stage's tables with your AWS credentials, at --read-units a second.`,
		Example: `  vacancy usage acme
  vacancy usage acme --by day --from 2026-11-01 --until 2026-12-01 --csv > november.csv
  vacancy usage
  vacancy usage --recount
  vacancy usage --recount --host aws --stage prod --read-units 200`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if asCSV && a.JSON {
				return problem.New(problem.Usage, "--csv and --json: not supported together")
			}
			if shouldRecount {
				return recountUsage(a, cmd.Context(), where, readFlags, args)
			}
			if readFlags != (kit.ReadFlags{}) {
				return problem.New(problem.Usage, "--read-units: not supported without --recount")
			}
			span := account.Span{From: from, Until: until, By: groupBy}
			printUsage := func(c op.Client, u account.Usage, err error) error {
				if err != nil {
					return err
				}
				r := usageResult{Usage: u, csv: asCSV}
				if !asCSV && !a.JSON {
					var vacants []identity.ID
					r.eachLine(func(_ string, l *account.Line) {
						if id, err := identity.ParseID(l.Vacant); err == nil {
							vacants = append(vacants, id)
						}
					})
					r.names = a.HostNames(cmd.Context(), where, c, vacants)
				}
				return a.PrintResult(r)
			}
			tenant := kit.OptionalArgument(args)
			if tenant == "" && a.Env[kit.AccountKeyEnv] == "" {
				err := a.WithAdmin(where, false, func(c *kit.AdminAPI) error {
					u, err := account.GetOperatorUsage.Call(cmd.Context(), c, span)
					return printUsage(c, u, err)
				})
				if problem.Is(err, problem.NotFound) { // the user may be a caller of another host
					err = kit.WithHint(err, "%s=KEY vacancy usage --host URL, for the account of a key at another host", kit.AccountKeyEnv)
				}
				return err
			}
			return a.WithAccount(cmd.Context(), where, tenant, func(c op.Client, ref account.Ref) error {
				u, err := account.GetUsage.Call(cmd.Context(), c, account.UsageRequest{Ref: ref, Span: span})
				return printUsage(c, u, err)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&groupBy, "by", account.ByVacant, "how to group calls: by vacant, caller, subject, day or hour")
	fs.StringVar(&from, "from", "", "from this UTC `DAY` on, such as 2026-11-01 (default: the current month)")
	fs.StringVar(&until, "until", "", "before this UTC `DAY`")
	fs.BoolVar(&shouldRecount, "recount", false, "count all rows again, and correct usage that differs")
	fs.BoolVar(&asCSV, "csv", false, "print comma-separated values, money in micro-dollars")
	kit.AddHostFlags(fs, &where)
	kit.AddReadUnitsFlag(fs, &readFlags)
	return cmd
}

func statementCommand(a *kit.App) *cobra.Command {
	var month string
	return kit.Operation[account.MonthRequest, account.Statement]{
		Use:     "statement [TENANT]",
		Short:   "Show a month of an account: credited, spent, earned, owed",
		Example: "  vacancy statement acme --month 2026-11",
		Op:      account.GetStatement,
		API:     kit.NewAccountAPI(),
		AddFlags: func(fs *pflag.FlagSet) {
			fs.StringVar(&month, "month", "", "the UTC `MONTH`, such as 2026-11 (default: the current month)")
		},
		Request: func(q kit.Request) (account.MonthRequest, error) {
			return account.MonthRequest{Ref: q.Account(), Month: month}, nil
		},
		Print: func(w io.Writer, r account.Statement) {
			fmt.Fprintf(w, "%s, %s\n  credited  %12s\n  spent     %12s\n  earned    %12s gross, %s fee, %s net\n  balance   %12s now\n", kit.EscapeLine(r.Tenant), kit.EscapeLine(r.Month), r.Credited, r.Spent, r.Gross, r.Fee, r.Net, r.Balance)
			fmt.Fprint(w, kit.FormatIf(r.Owed > 0, "  owed      %12s now\n", r.Owed))
		},
	}.Command(a)
}
