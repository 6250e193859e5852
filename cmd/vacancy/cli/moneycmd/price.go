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
	var inputPrice, outputPrice, maxPrice string
	var newPrice price.Price
	var shouldSet bool
	return kit.Operation[admin.VacantRef, priceResult]{
		Use:   "price VACANT [DOLLARS]",
		Short: "Show or set the price of a vacant's calls",
		Long: `Show or set the price of a vacant's calls. A new price applies from the next call on. 0 makes calls
free.

DOLLARS is the price of a call. --in and --out are prices for a million tokens that the vacant's agent
reports. If tokens have a price, --most is the maximum cost of a call. The host holds this amount when
it accepts a call, and releases the unused part with the answer. A call without an answer costs
nothing. Tokens that the agent does not report cost nothing, but if the answer is canceled or cut off,
they are estimated. "unreported" counts answers whose tokens were not reported.

The payer is the account of the request's key, or the account to which the caller's id is linked
("vacancy account link"). Callers without an account get free calls in each UTC day: --free for each
caller that signs, --free-address for each address (default 3 times --free), and --free-all in total
(default 100 times --free). Parents, siblings and the host call for free. Each setting is stored for
ever as a version. The vacant's listing and card show the price.`,
		Example: `  vacancy price clerk 0.002
  vacancy price clerk 0.002 --free 10
  vacancy price clerk 0 --in 3 --out 15 --most 0.05
  vacancy price clerk 0`,
		AddFlags: func(fs *pflag.FlagSet) {
			fs.StringVar(&inputPrice, "in", "", "`DOLLARS` for a million tokens of input")
			fs.StringVar(&outputPrice, "out", "", "`DOLLARS` for a million tokens of output")
			fs.StringVar(&maxPrice, "most", "", "the maximum `DOLLARS` that a call costs, if tokens have a price")
			fs.Int64Var(&newPrice.FreePerSigner, "free", 0, "free calls a UTC day for each caller that signs")
			fs.Int64Var(&newPrice.FreePerAddress, "free-address", 0, "free calls a UTC day for each address (default 3 times --free)")
			fs.Int64Var(&newPrice.FreeTotal, "free-all", 0, "free calls a UTC day altogether; 0 for no limit (default 100 times --free)")
		},
		Request: func(q kit.Request) (req admin.VacantRef, err error) {
			req.Vacant = q.Args[0]
			if shouldSet = len(q.Args) == 2; !shouldSet {
				for _, name := range []string{"in", "out", "most", "free", "free-address", "free-all"} {
					if q.Changed(name) {
						return req, kit.WithHint(problem.New(problem.Usage, "--%s: not supported without DOLLARS", name), "vacancy price %s 0 --%s …", q.Args[0], name)
					}
				}
				return req, nil
			}
			for _, amount := range []struct {
				flag, text string
				to         *money.Amount
			}{{"DOLLARS", q.Args[1], &newPrice.Flat}, {"--in", inputPrice, &newPrice.InputPrice}, {"--out", outputPrice, &newPrice.OutputPrice}, {"--most", maxPrice, &newPrice.MaxCharge}} {
				if amount.text == "" {
					continue
				}
				microDollars, err := kit.ParseMicroDollars(amount.flag, amount.text)
				if err != nil {
					return req, err
				}
				*amount.to = money.Amount(microDollars)
			}
			newPrice.SetDefaultFreeLimits(q.Changed("free-address"), q.Changed("free-all"))
			if err := newPrice.Check(); err != nil {
				return req, problem.WithPlace(problem.Usage, "price", err)
			}
			return req, nil
		},
		Op: kit.CallerFunc[admin.VacantRef, priceResult](func(ctx context.Context, c op.Client, req admin.VacantRef) (priceResult, error) {
			if !shouldSet {
				current, err := admin.GetPrice.Call(ctx, c, admin.PriceRequest{VacantRef: req})
				return priceResult{req.Vacant, current}, err
			}
			v, err := admin.SetPrice.Call(ctx, c, admin.NewVacantRequest(req.Vacant, admin.NewPriceFrom(newPrice)))
			r := priceResult{Vacant: v.Name}
			if v.Price != nil {
				r.Price = *v.Price
			}
			return r, err
		}),
		Print: func(w io.Writer, r priceResult) {
			fmt.Fprintf(w, "%s%s: %s%s\n", kit.EscapeLine(r.Vacant), kit.FormatIf(shouldSet, " now"), r.Price.String(), kit.FormatIf(r.Version > 0, " (version %d)", r.Version))
			free := kit.JoinNonEmpty(", ",
				kit.FormatIf(r.FreePerSigner > 0, "%d for each caller that signs", r.FreePerSigner), kit.FormatIf(r.FreePerAddress > 0, "%d for each address", r.FreePerAddress),
				kit.FormatIf(r.FreeTotal > 0, "%d altogether", r.FreeTotal),
			)
			fmt.Fprint(w, kit.FormatIf(free != "" && !r.Price.IsFree(), "free calls a day: %s\n", free),
				kit.FormatIf(r.UnreportedAnswers > 0, "unreported: %d answers of the last seven days, whose tokens the agent did not report\n", r.UnreportedAnswers),
				kit.FormatIf(r.FeeBasisPoints > 0, "the host's fee: %g %%\n", float64(r.FeeBasisPoints)/100))
		},
	}.Command(a)
}

type priceResult struct {
	Vacant string `json:"vacant"`
	admin.CurrentPrice
}
