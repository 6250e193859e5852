package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/client/agents"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/money/price"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (a *app) priceCommand() *cobra.Command {
	var w where
	var in, out, most string
	var p price.Price
	cmd := &cobra.Command{
		Use:   "price VACANT [DOLLARS]",
		Short: "Show or set what calls of a vacant cost",
		Long: `Show what a call of a vacant costs, or set it, from the next call on. 0 makes calls free.

DOLLARS are for a call. --in and --out are for a million tokens that the vacant's agent
reports; then --most is the most that a call costs. It is held when a call is accepted, and
what was not used is given back with the answer. A call without an answer costs nothing.
Tokens that the agent does not report cost nothing either; "unreported" counts such answers.

The payer is the account of the key that a request has, or the account that the caller's id
is linked to ("vacancy account link"). Callers without an account have the free calls of a
UTC day: --free for each caller that signs, --free-address for each address (default 3
times --free), --free-all altogether (default 100 times --free). Parents, siblings and the
host call free. Each setting is a version that is kept for ever; the vacant's listing and
card tell the price.`,
		Example: `  vacancy price clerk 0.002
  vacancy price clerk 0.002 --free 10
  vacancy price clerk 0 --in 3 --out 15 --most 0.05
  vacancy price clerk 0`,
		Args: arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return a.showPrice(cmd, w, args[0])
			}
			for _, one := range []struct {
				flag, text string
				to         *money.Amount
			}{{"DOLLARS", args[1], &p.Flat}, {"--in", in, &p.In}, {"--out", out, &p.Out}, {"--most", most, &p.Most}} {
				if one.text == "" {
					continue
				}
				n, err := microDollars(one.flag, one.text)
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
			return a.withAdmin(w, false, func(c *adminAPI) error {
				v, err := admin.SetPrice.Call(cmd.Context(), c, admin.About(args[0], admin.PriceOf(p)))
				if err != nil {
					return err
				}
				r := priceResult{Vacant: v.Name, set: true}
				if v.Price != nil {
					r.Price = *v.Price
				}
				return a.show(r)
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
	hostFlags(fs, &w)
	return cmd
}

// showPrice shows what a call of a vacant costs.
func (a *app) showPrice(cmd *cobra.Command, w where, vacant string) error {
	for _, name := range []string{"in", "out", "most", "free", "free-address", "free-all"} {
		if cmd.Flags().Changed(name) {
			return withHint(problem.New(problem.Usage, "--%s goes with DOLLARS", name), "vacancy price %s 0 --%s …", vacant, name)
		}
	}
	return a.withAdmin(w, false, func(c *adminAPI) error {
		p, err := admin.GetPrice.Call(cmd.Context(), c, admin.PriceVersion{One: admin.One{Vacant: vacant}})
		if err != nil {
			return err
		}
		return a.show(priceResult{Vacant: vacant, CurrentPrice: p})
	})
}

// priceResult is the result of price.
type priceResult struct {
	Vacant string `json:"vacant"`
	admin.CurrentPrice

	set bool
}

func (r priceResult) text(w io.Writer) {
	now := ""
	if r.set {
		now = " now"
	}
	fmt.Fprintf(w, "%s%s: %s", printable(r.Vacant), now, r.Price.String())
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

// checkPrice refuses a call of a target whose card says that it may cost more. A target
// without a card of A2A is left to its host.
func checkPrice(ctx context.Context, web *dispatch.HTTP, t dispatch.Target, most int64) error {
	u, err := dispatch.ParseURL(t.URL)
	if err != nil {
		return err
	}
	c, err := agents.FetchCard(ctx, web, outbound.ReplaceSuffix(u, "/a2a/message/send", "").String())
	if err != nil || c.VacantID != t.ID || c.Price <= most {
		return nil
	}
	return tooDear(t.Name, c.Price, most)
}

func tooDear(name string, price, most int64) error {
	return problem.New(problem.PriceAboveMax, "a call of %s costs up to %s, more than --max-price %s; nothing was sent", printable(name), money.Amount(price), money.Amount(most))
}
