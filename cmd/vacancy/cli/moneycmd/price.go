// Package moneycmd contains the commands for money: prices, accounts with their keys and payments,
// usage, statements and receipts.
package moneycmd

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/problem"
)

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
	var in, out, maxPrice string
	var p price.Price
	var set bool
	return kit.Operation[admin.VacantRequest, vacantPrice]{
		Use:   "price VACANT [DOLLARS]",
		Short: "Show or set the price of a vacant's calls",
		Long: `Show the price of a vacant's calls, or set it, from the next call on. 0 makes calls free.

DOLLARS is the price of a call. --in and --out are the prices of a million tokens that the
vacant's agent reports; --most is then the maximum cost of a call. This amount is held when a
call is accepted, and the unused part is released with the answer. A call without an answer
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
		Flags: func(fs *pflag.FlagSet) {
			fs.StringVar(&in, "in", "", "`DOLLARS` for a million tokens of input")
			fs.StringVar(&out, "out", "", "`DOLLARS` for a million tokens of output")
			fs.StringVar(&maxPrice, "most", "", "the maximum `DOLLARS` that a call costs, if tokens have a price")
			fs.Int64Var(&p.Free, "free", 0, "free calls a UTC day for each caller that signs")
			fs.Int64Var(&p.FreeAddress, "free-address", 0, "free calls a UTC day for each address (default 3 times --free)")
			fs.Int64Var(&p.FreeAll, "free-all", 0, "free calls a UTC day altogether; 0 for no limit (default 100 times --free)")
		},
		Request: func(q kit.Request) (vacant admin.VacantRequest, err error) {
			vacant.Vacant = q.Args[0]
			if set = len(q.Args) == 2; !set {
				for _, name := range []string{"in", "out", "most", "free", "free-address", "free-all"} {
					if q.Changed(name) {
						return vacant, kit.WithHint(problem.New(problem.Usage, "--%s: not supported without DOLLARS", name), "vacancy price %s 0 --%s …", q.Args[0], name)
					}
				}
				return vacant, nil
			}
			for _, amount := range []struct {
				flag, text string
				to         *money.Amount
			}{{"DOLLARS", q.Args[1], &p.Flat}, {"--in", in, &p.In}, {"--out", out, &p.Out}, {"--most", maxPrice, &p.MaxCharge}} {
				if amount.text == "" {
					continue
				}
				n, err := kit.MicroDollars(amount.flag, amount.text)
				if err != nil {
					return vacant, err
				}
				*amount.to = money.Amount(n)
			}
			p.SetDefaultFreeLimits(q.Changed("free-address"), q.Changed("free-all"))
			if err := p.Check(); err != nil {
				return vacant, problem.WithPlace(problem.Usage, "price", err)
			}
			return vacant, nil
		},
		Op: kit.CallerFunc[admin.VacantRequest, vacantPrice](func(ctx context.Context, c op.Client, vacant admin.VacantRequest) (vacantPrice, error) {
			if !set {
				now, err := admin.GetPrice.Call(ctx, c, admin.PriceVersion{VacantRequest: vacant})
				return vacantPrice{vacant.Vacant, now}, err
			}
			v, err := admin.SetPrice.Call(ctx, c, admin.ForVacant(vacant.Vacant, admin.PriceOf(p)))
			r := vacantPrice{Vacant: v.Name}
			if v.Price != nil {
				r.Price = *v.Price
			}
			return r, err
		}),
		Print: func(w io.Writer, r vacantPrice) {
			fmt.Fprintf(w, "%s%s: %s%s\n", kit.Printable(r.Vacant), kit.FormatIf(set, " now"), r.Price.String(), kit.FormatIf(r.Version > 0, " (version %d)", r.Version))
			free := kit.Join(", ",
				kit.FormatIf(r.Free > 0, "%d for each caller that signs", r.Free), kit.FormatIf(r.FreeAddress > 0, "%d for each address", r.FreeAddress),
				kit.FormatIf(r.FreeAll > 0, "%d altogether", r.FreeAll),
			)
			fmt.Fprint(w, kit.FormatIf(free != "" && !r.Price.IsFree(), "free calls a day: %s\n", free),
				kit.FormatIf(r.Unreported > 0, "unreported: %d answers of the last seven days, whose tokens the agent did not report\n", r.Unreported),
				kit.FormatIf(r.FeeBasisPoints > 0, "the host's fee: %g %%\n", float64(r.FeeBasisPoints)/100))
		},
	}.Command(a)
}

type vacantPrice struct {
	Vacant string `json:"vacant"`
	admin.CurrentPrice
}
