package moneycmd

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/vacantcmd"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func PaymentsCommand(a *kit.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "payments",
		Short: "Manage the keys by which a host takes payments by card",
		Long: `Manage the keys by which a host takes payments by card. Tenants pay on a page of Stripe
("vacancy account pay"), whose webhooks credit their accounts, take back what is refunded or
disputed, and return what a failed refund took. A host needs both keys:

  stripe          a secret key, or a restricted one that may write Checkout Sessions
  stripe-webhook  the signing secret of an endpoint at Stripe

The endpoint is the host's URL with /v1/account/stripe. It needs the events
checkout.session.completed, checkout.session.async_payment_succeeded, charge.refunded,
charge.refund.updated, refund.created, refund.updated, refund.failed, charge.dispute.created,
charge.dispute.updated and charge.dispute.closed.`,
		Example: `  vacancy payments set stripe < key.txt
  vacancy payments set stripe-webhook < signing-secret.txt
  vacancy payments list`,
		Args: a.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(paymentsSetCommand(a), paymentsListCommand(a), paymentsDeleteCommand(a))
	return cmd
}

func paymentsSetCommand(a *kit.App) *cobra.Command {
	var f kit.TenantFlags
	var hosts []string
	cmd := &cobra.Command{
		Use:   "set stripe|stripe-webhook < FILE",
		Short: "Set a key of payments",
		Long: `Set a key of payments. The value is read from standard input. The host seals it, and never
shows it again. The old value is used for at most ten more seconds.

--for sends the key of the API to another host than Stripe's, such as a server for tests on
this machine.`,
		Example: "  vacancy payments set stripe < key.txt\n  vacancy payments set stripe --for 127.0.0.1:12111 < key.txt",
		Args:    kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return vacantcmd.SetSecret(a, cmd, &f, admin.PaymentKeys, args[0], hosts)
		},
	}
	cmd.Flags().StringArrayVar(&hosts, "for", nil, "the `HOST` that the key is sent to (default Stripe's)")
	kit.HostFlags(cmd.Flags(), &f.Where)
	return cmd
}

func paymentsListCommand(a *kit.App) *cobra.Command {
	var f kit.TenantFlags
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the keys of payments, without their values",
		Example: "  vacancy payments list --json",
		Args:    kit.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return vacantcmd.ListSecrets(a, cmd, &f, admin.PaymentKeys)
		},
	}
	kit.HostFlags(cmd.Flags(), &f.Where)
	return cmd
}

func paymentsDeleteCommand(a *kit.App) *cobra.Command {
	var f kit.TenantFlags
	cmd := &cobra.Command{
		Use:   "delete stripe|stripe-webhook",
		Short: "Delete a key of payments",
		Long: `Delete a key of payments. Without it the host takes no payments, and no webhooks of payments
that were made.`,
		Example: "  vacancy payments delete stripe",
		Args:    kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return vacantcmd.DeleteSecret(a, cmd, &f, admin.PaymentKeys, args[0])
		},
	}
	kit.HostFlags(cmd.Flags(), &f.Where)
	return cmd
}

// checkoutResult is a page where somebody pays.
type checkoutResult billing.Checkout

func (r checkoutResult) Print(w io.Writer) {
	fmt.Fprintf(w, "pay %s at %s\nuntil %s\n", r.Amount, kit.Printable(r.URL), r.Expires.Format(time.RFC3339))
}

func accountPayCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var key string
	cmd := &cobra.Command{
		Use:   "pay DOLLARS",
		Short: "Make a page where you pay to your account by card",
		Long: `Make a page where you pay to the account of the key in $VACANCY_KEY, by card. The account
has the money as soon as the payment is confirmed. The key needs the scope manage.`,
		Example: "  VACANCY_KEY=vac_live_… vacancy account pay 25",
		Args:    kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := kit.MicroDollars("DOLLARS", args[0])
			if err != nil {
				return err
			}
			if a.Env[kit.AccountKeyEnv] == "" {
				return kit.WithHint(problem.New(problem.Usage, "expected a key of the account in $%s", kit.AccountKeyEnv), "vacancy keys create TENANT")
			}
			return a.WithAccount(cmd.Context(), w, "", func(c op.Client, of account.One) error {
				page, err := account.MakePayment.Call(cmd.Context(), c, account.Payment{Body: account.Limit{Amount: money.Amount(n)}, Key: key})
				if err != nil {
					return err
				}
				return a.Show(checkoutResult(page))
			})
		},
	}
	cmd.Flags().StringVar(&key, "key", "", "an idempotency `KEY`: the same again makes no second page")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}
