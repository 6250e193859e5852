package moneycmd

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/vacantcmd"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func paymentsCommand(a *kit.App) *cobra.Command {
	set := vacantcmd.SetSecretOperation(a, admin.PaymentKeys, "the `HOST` that the key is sent to (default Stripe's)")
	set.Use, set.Short = "set stripe|stripe-webhook < FILE", "Set a key of payments"
	set.Long = `Set a key of payments. The value is read from standard input. The host seals it, and never
shows it again. The old value is used for at most ten more seconds.

--for sends the API key to a host other than Stripe, such as a test server on this machine.`
	set.Example = "  vacancy payments set stripe < key.txt\n  vacancy payments set stripe --for 127.0.0.1:12111 < key.txt"
	list := vacantcmd.ListSecretsOperation(admin.PaymentKeys)
	list.Use, list.Short, list.Example = "list", "List the keys of payments, without their values", "  vacancy payments list --json"
	remove := vacantcmd.DeleteSecretOperation(admin.PaymentKeys)
	remove.Use, remove.Short = "delete stripe|stripe-webhook", "Delete a key of payments"
	remove.Long = `Delete a key of payments. Without the key, the host accepts neither payments nor webhooks about
earlier payments.`
	remove.Example = "  vacancy payments delete stripe"
	return a.ParentCommand(&cobra.Command{
		Use:   "payments",
		Short: "Manage the keys by which a host takes payments by card",
		Long: `Manage the keys by which a host takes payments by card. Tenants pay on a page of Stripe
("vacancy account pay"). Stripe's webhooks then credit the account, debit payments that are refunded or
disputed, and credit the amount of a failed refund again. A host needs both keys:

  stripe          a secret key, or a restricted one that may write Checkout Sessions
  stripe-webhook  the signing secret of an endpoint at Stripe

The endpoint is the host's URL with /v1/account/stripe. It needs the events
checkout.session.completed, checkout.session.async_payment_succeeded, charge.refunded,
charge.refund.updated, refund.created, refund.updated, refund.failed, charge.dispute.created,
charge.dispute.updated and charge.dispute.closed.`,
		Example: `  vacancy payments set stripe < key.txt
  vacancy payments set stripe-webhook < signing-secret.txt
  vacancy payments list`,
	}, set.Command(a), list.Command(a), remove.Command(a))
}

func accountPayCommand(a *kit.App) *cobra.Command {
	var key string
	return kit.Operation[account.PaymentRequest, billing.Checkout]{
		Use:   "pay DOLLARS",
		Short: "Create a page where you pay into your account by card",
		Long: `Create a page where you pay into the account of the key in $VACANCY_KEY, by card. The account
is credited as soon as the payment is confirmed. The key needs the scope manage.`,
		Example: "  VACANCY_KEY=vac_live_… vacancy account pay 25",
		Op:      account.MakePayment,
		API:     kit.NewAccountAPI(),
		AddFlags: func(fs *pflag.FlagSet) {
			fs.StringVar(&key, "key", "", "an idempotency `KEY`; repeating a KEY creates no second page")
		},
		Request: func(q kit.Request) (in account.PaymentRequest, err error) {
			microDollars, err := kit.ParseMicroDollars("DOLLARS", q.Args[0])
			if err == nil && a.Env[kit.AccountKeyEnv] == "" {
				err = kit.WithHint(problem.New(problem.Usage, "expected a key of the account in $%s", kit.AccountKeyEnv), "vacancy keys create TENANT --scope call,read,manage")
			}
			return account.PaymentRequest{Body: account.Limit{Amount: money.Amount(microDollars)}, Key: key}, err
		},
		AddHint: func(_ kit.Request, err error) error {
			if problem.Is(err, problem.NotFound) {
				err = kit.WithHint(err, "ask the host's operator to run vacancy credit TENANT DOLLARS")
			}
			return err
		},
		Print: func(w io.Writer, page billing.Checkout) {
			fmt.Fprintf(w, "pay %s at %s\nuntil %s\n", page.Amount, kit.EscapeLine(page.URL), page.Expires.Format(time.RFC3339))
		},
	}.Command(a)
}
