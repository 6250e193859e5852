// Package moneycmd has the commands about money: prices, accounts, their keys and
// payments, usage, statements and receipts.
package moneycmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Group is the commands about money.
var Group = kit.Group{
	Topic: "money",
	Title: "Money:",
	Commands: func(a *kit.App) []*cobra.Command {
		return []*cobra.Command{
			priceCommand(a), accountCommand(a), keysCommand(a), creditCommand(a), paymentsCommand(a), usageCommand(a), statementCommand(a),
			receiptCommand(a), issuerCommand(a),
		}
	},
}

func priceCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var in, out, most string
	var p price.Price
	cmd := &cobra.Command{
		Use:   "price VACANT [DOLLARS]",
		Short: "Show or set the price of a vacant's calls",
		Long: `Show the price of a vacant's calls, or set it, from the next call on. 0 makes calls free.

DOLLARS is the price of a call. --in and --out are the prices of a million tokens that the
vacant's agent reports; --most is then the most that a call costs. This amount is held when a
call is accepted, and the unused part is given back with the answer. A call without an answer
costs nothing.
Tokens that the agent does not report cost nothing either, unless the answer is canceled or cut
off: then they are estimated. "unreported" counts such answers.

The payer is the account of the key that a request has, or the account that the caller's id
is linked to ("vacancy account link"). Callers without an account have the free calls of a
UTC day: --free for each caller that signs, --free-address for each address (default 3
times --free), --free-all altogether (default 100 times --free). Parents, siblings and the
host call free. Each setting is a version that is kept for ever; the vacant's listing and
card show the price.`,
		Example: `  vacancy price clerk 0.002
  vacancy price clerk 0.002 --free 10
  vacancy price clerk 0 --in 3 --out 15 --most 0.05
  vacancy price clerk 0`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return showPrice(a, cmd, w, args[0])
			}
			for _, one := range []struct {
				flag, text string
				to         *money.Amount
			}{{"DOLLARS", args[1], &p.Flat}, {"--in", in, &p.In}, {"--out", out, &p.Out}, {"--most", most, &p.Most}} {
				if one.text == "" {
					continue
				}
				n, err := kit.MicroDollars(one.flag, one.text)
				if err != nil {
					return err
				}
				*one.to = money.Amount(n)
			}
			flags := cmd.Flags()
			p.BoundFree(flags.Changed("free-address"), flags.Changed("free-all"))
			if err := p.Check(); err != nil {
				return problem.Within(problem.Usage, "price", err)
			}
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
				v, err := admin.SetPrice.Call(cmd.Context(), c, admin.About(args[0], admin.PriceOf(p)))
				if err != nil {
					return err
				}
				r := priceResult{Vacant: v.Name, set: true}
				if v.Price != nil {
					r.Price = *v.Price
				}
				return a.Show(r)
			})
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&in, "in", "", "`DOLLARS` for a million tokens of input")
	fs.StringVar(&out, "out", "", "`DOLLARS` for a million tokens of output")
	fs.StringVar(&most, "most", "", "the most `DOLLARS` that a call costs, if tokens have a price")
	fs.Int64Var(&p.Free, "free", 0, "free calls a UTC day for each caller that signs")
	fs.Int64Var(&p.FreeAddress, "free-address", 0, "free calls a UTC day for each address (default 3 times --free)")
	fs.Int64Var(&p.FreeAll, "free-all", 0, "free calls a UTC day altogether; 0 for no bound (default 100 times --free)")
	kit.HostFlags(fs, &w)
	return cmd
}

// showPrice shows the price of a vacant's calls.
func showPrice(a *kit.App, cmd *cobra.Command, w kit.Where, vacant string) error {
	for _, name := range []string{"in", "out", "most", "free", "free-address", "free-all"} {
		if cmd.Flags().Changed(name) {
			return kit.WithHint(problem.New(problem.Usage, "--%s goes with DOLLARS", name), "vacancy price %s 0 --%s …", vacant, name)
		}
	}
	return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
		p, err := admin.GetPrice.Call(cmd.Context(), c, admin.PriceVersion{One: admin.One{Vacant: vacant}})
		if err != nil {
			return err
		}
		return a.Show(priceResult{Vacant: vacant, CurrentPrice: p})
	})
}

type priceResult struct {
	Vacant string `json:"vacant"`
	admin.CurrentPrice

	set bool
}

func (r priceResult) Print(w io.Writer) {
	now := ""
	if r.set {
		now = " now"
	}
	fmt.Fprintf(w, "%s%s: %s", kit.Printable(r.Vacant), now, r.Price.String())
	if r.Version > 0 {
		fmt.Fprintf(w, " (version %d)", r.Version)
	}
	fmt.Fprintln(w)
	var free []string
	for _, one := range []struct {
		n  int64
		of string
	}{{r.Free, "for each caller that signs"}, {r.FreeAddress, "for each address"}, {r.FreeAll, "altogether"}} {
		if one.n > 0 {
			free = append(free, fmt.Sprintf("%d %s", one.n, one.of))
		}
	}
	if len(free) > 0 && !r.Price.IsFree() {
		fmt.Fprintf(w, "free calls a day: %s\n", strings.Join(free, ", "))
	}
	if r.Unreported > 0 {
		fmt.Fprintf(w, "unreported: %d answers of the last seven days, whose tokens the agent did not report\n", r.Unreported)
	}
	if r.Fee > 0 {
		fmt.Fprintf(w, "the host's fee: %g %%\n", float64(r.Fee)/100)
	}
}
