package moneycmd

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func accountCommand(a *kit.App) *cobra.Command {
	return a.ParentCommand(&cobra.Command{
		Use:   "account",
		Short: "Manage accounts of tenants, who pay for calls",
		Long: `Manage the accounts of tenants. An account pays for the calls of its keys ("vacancy keys"),
and for the signed calls of the ids that are linked to it.

Operators name the TENANT. Tenants omit it: the key in $VACANCY_KEY selects the account. The host is
--host, $VACANCY_HOST, or the host on this machine.`,
		Example: `  vacancy account open acme
  vacancy account link acme --as alice
  vacancy account show acme
  VACANCY_KEY=vac_live_… vacancy account show`,
	},
		accountOpenCommand(a),
		kit.Operation[account.ListRequest, account.Page]{
			Use:     "list",
			Short:   "List the accounts of a host",
			Example: "  vacancy account list --json",
			Op:      account.ListAccounts,
			AppendPage: func(in *account.ListRequest, list *account.Page, page account.Page) bool {
				list.Accounts, in.Cursor = append(list.Accounts, page.Accounts...), page.Next
				return page.Next != ""
			},
			JSONObject: func(list account.Page) any {
				return map[string]any{"accounts": append([]account.Account{}, list.Accounts...)} // encodes as [] if empty
			},
			Print: func(w io.Writer, page account.Page) {
				list, total := page.Accounts, account.Account{Account: billing.Account{Tenant: "total"}}
				for _, row := range list {
					total.Balance += row.Balance
				}
				if len(list) > 1 {
					list = append(slices.Clone(list), total)
				}
				kit.PrintTable(w, "no accounts", list, func(row account.Account) []any {
					return []any{row.Tenant, row.Balance, row.ID, kit.FormatIf(row.Suspended, "suspended")}
				})
			},
		}.Command(a),
		kit.Operation[account.Ref, account.Account]{
			Use:     "show [TENANT]",
			Short:   "Show an account, its balance and its links",
			Example: "  vacancy account show acme\n  VACANCY_KEY=vac_live_… vacancy account show --host https://agents.example.org",
			Op:      account.ShowAccount,
			API:     kit.NewAccountAPI(),
			Request: func(q kit.Request) (account.Ref, error) { return q.Account(), nil },
			Print:   accountPrinter(a),
		}.Command(a),
		kit.Operation[account.ChangesRequest, account.Changes]{
			Use:     "log [TENANT]",
			Short:   "Show the changes of an account, without its calls",
			Example: "  vacancy account log acme",
			Op:      account.ListChanges,
			API:     kit.NewAccountAPI(),
			Request: func(q kit.Request) (account.ChangesRequest, error) {
				return account.ChangesRequest{Ref: q.Account(), From: 1}, nil
			},
			AppendPage: func(in *account.ChangesRequest, list *account.Changes, page account.Changes) bool {
				list.Changes, in.From = append(list.Changes, page.Changes...), page.Next
				return len(page.Changes) > 0
			},
			JSONObject: func(list account.Changes) any {
				return map[string]any{"changes": append([]account.Change{}, list.Changes...)} // encodes as [] if empty
			},
			Print: func(w io.Writer, list account.Changes) {
				names := a.IdentityNames()
				for _, c := range list.Changes {
					details := append([]string{kit.FormatIf(c.Owed != 0, "owed %s", c.Owed), c.Key, c.Name, names.NameOrText(c.Caller), c.Payment, c.Note, formatMaker(c.Maker)}, c.EndedKeys...)
					for _, caller := range c.EndedCallers {
						details = append(details, names.NameOrText(caller))
					}
					fmt.Fprintf(w, "%4d  %s  %-11s %12s  %s\n", c.Position, c.Time.Format("2006-01-02T15:04:05Z"), kit.EscapeLine(string(c.Kind)), kit.FormatIf(c.Amount != 0, "%s", c.Amount), kit.EscapeLine(kit.JoinNonEmpty(", ", details...)))
				}
			},
		}.Command(a),
		accountLinkCommand(a), accountUnlinkCommand(a),
		kit.Operation[account.Request[account.Limit], account.Account]{
			Use:     "cap TENANT DOLLARS",
			Short:   "Set the daily cap of an account",
			Long:    `Set the maximum amount that the calls of an account may hold in a UTC day. 0 removes the cap.`,
			Example: "  vacancy account cap acme 50",
			Op:      account.SetCap,
			API:     kit.NewAccountAPI(),
			Request: func(q kit.Request) (account.Request[account.Limit], error) {
				microDollars, err := kit.ParseMicroDollars("DOLLARS", q.Args[0])
				return account.NewRequest(q.Account(), account.Limit{Amount: money.Amount(microDollars)}), err
			},
			Print: accountPrinter(a),
		}.Command(a),
		kit.Operation[account.Request[account.Seconds], account.Account]{
			Use:     "task-lifetime TENANT DURATION",
			Short:   "Set the time for which finished tasks can be read",
			Long:    `Set the time for which finished tasks of an account can be read, from 1m to 24h (default 1h).`,
			Example: "  vacancy account task-lifetime acme 12h",
			Op:      account.SetTaskLifetime,
			API:     kit.NewAccountAPI(),
			Request: func(q kit.Request) (account.Request[account.Seconds], error) {
				lifetime, err := time.ParseDuration(q.Args[0])
				if err != nil {
					err = problem.New(problem.Usage, "DURATION: expected a time such as 90m or 12h, got %.40q", q.Args[0])
				}
				return account.NewRequest(q.Account(), account.Seconds{Seconds: int64(lifetime / time.Second)}), err
			},
			Print: accountPrinter(a),
		}.Command(a),
		accountLineCommand(a), accountAdjustCommand(a),
		accountSuspendCommand(a, "suspend", "Suspend an account, so that its calls are refused", suspendLong, account.SuspendAccount),
		accountSuspendCommand(a, "resume", "End the suspension of an account", "", account.ResumeAccount), accountPayCommand(a),
	)
}

func printAccount(w io.Writer, r account.Account, names kit.Names) {
	fmt.Fprintln(w, kit.EscapeLine(r.Tenant))
	held := ""
	if r.Held != nil && *r.Held > 0 {
		held = r.Held.String() + ", reserved for running calls, and for calls and bookings that usage does not include yet"
	}
	kit.PrintFields(w, "account", r.ID, "balance", r.Balance, "held", held, "line", kit.FormatIf(r.CreditLine > 0, "%s", r.CreditLine),
		"cap", kit.FormatIf(r.DailyCap > 0, "%s a day", r.DailyCap), "tasks", kit.FormatIf(r.TaskLifetime > 0, "readable for %s after their end", time.Duration(r.TaskLifetime)*time.Second), "owed", kit.FormatIf(r.Owed > 0, "%s of payments that were refunded or disputed", r.Owed))
	if r.Suspended {
		fmt.Fprintln(w, "  suspended")
	}
	if r.Key != nil {
		kit.PrintFields(w, "your key", formatKey(*r.Key))
	}
	for _, l := range r.Links {
		kit.PrintFields(w, "pays for", formatLink(l, names))
	}
}

func formatLink(l billing.Link, names kit.Names) string {
	return kit.JoinNonEmpty(", ", names.NameAndID(l.Caller)+formatDayCap(l), formatMaker(l.MadeBy))
}

func formatDayCap(l billing.Link) string {
	return kit.FormatIf(l.DailyCap > 0, ", at most %s a day", l.DailyCap)
}

func accountPrinter(a *kit.App) func(io.Writer, account.Account) {
	return func(w io.Writer, r account.Account) { printAccount(w, r, a.IdentityNames()) }
}

func accountOpenCommand(a *kit.App) *cobra.Command {
	var shards int
	return kit.Operation[op.Body[account.Opening], account.Account]{
		Use:   "open TENANT",
		Short: "Open the account of a tenant",
		Long: `Open the account of a tenant. Its balance is divided into --shards parts. Each part takes one call
at a time. Use 16 for a tenant with hundreds of calls a second, and 1 for a small tenant.`,
		Example: "  vacancy account open acme\n  vacancy account open acme --shards 16",
		Op:      account.OpenAccount,
		AddFlags: func(fs *pflag.FlagSet) {
			fs.IntVar(&shards, "shards", billing.DefaultShards, "parts of the balance: 1, 4 or 16")
		},
		Request: func(q kit.Request) (op.Body[account.Opening], error) {
			return op.NewBody(account.Opening{Tenant: q.Args[0], Shards: shards}), nil
		},
		Print: accountPrinter(a),
	}.Command(a)
}

func accountLinkCommand(a *kit.App) *cobra.Command {
	var w kit.HostFlags
	var identityName, dailyCap string
	cmd := &cobra.Command{
		Use:   "link [TENANT]",
		Short: "Let an account pay for an identity's signed calls",
		Long: `Link one of your identities to an account. The account then pays for the identity's signed calls.
The identity signs the link. --cap limits the amount that its calls may hold in a UTC day. An
identity has only one payer. Either side can end the link with "vacancy account unlink". If a key
made the link, the link ends when that key is revoked.

The key in $VACANCY_KEY needs the scopes call and read (the default of "vacancy keys create"). It
must have been created without --cap, --most, --days and --test.`,
		Example: "  vacancy account link acme --as alice --cap 5\n  VACANCY_KEY=vac_live_… vacancy account link --host https://agents.example.org",
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := kit.ParseSpendingLimit(cmd.Flags().Changed, "cap", dailyCap)
			if err != nil {
				return err
			}
			return a.WithAccount(cmd.Context(), w, kit.OptionalArgument(args), func(c op.Client, ref account.Ref) error {
				payer, err := account.ShowAccount.Call(cmd.Context(), c, ref)
				if err != nil {
					return err
				}
				claimText, err := signClaim(a, cmd.Context(), identityName, payer.Host, payer.ID, limit)
				if err != nil {
					return err
				}
				reply, err := account.LinkCaller.Call(cmd.Context(), c, account.NewRequest(ref, account.Claim{Claim: claimText}))
				if err != nil {
					return err
				}
				if reply.Link == nil {
					return problem.New(problem.Untrusted, "the host ended a link instead of making one")
				}
				return a.Print(reply.Link, func(w io.Writer) {
					fmt.Fprintf(w, "account %.12s… pays for the signed calls of %s%s\n", kit.EscapeLine(reply.Link.Account), a.IdentityNames().NameAndID(reply.Link.Caller), formatDayCap(*reply.Link))
				})
			})
		},
	}
	cmd.Flags().StringVar(&identityName, "as", "", "the identity to pay for (default $VACANCY_AS, else the only one)")
	cmd.Flags().StringVar(&dailyCap, "cap", "", "the maximum `DOLLARS` in a UTC day (default no limit)")
	kit.AddHostFlags(cmd.Flags(), &w)
	return cmd
}

func signClaim(a *kit.App, ctx context.Context, identityName string, host identity.ID, accountID string, dailyCap money.Amount) (string, error) {
	signer, err := a.ChooseSigner(ctx, identityName)
	if err != nil {
		return "", err
	}
	c := claim.PaymentClaim{Host: host, Account: accountID, DailyCap: int64(dailyCap)}
	err = c.Sign(ctx, signer.Key, a.Now())
	return c.String(), err
}

type doneResult struct {
	Done string `json:"done"`
}

func (r doneResult) Print(w io.Writer) { fmt.Fprintln(w, r.Done) }

func accountUnlinkCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var identityName string
	cmd := &cobra.Command{
		Use:   "unlink TENANT CALLER | unlink CALLER | unlink --as NAME",
		Short: "End the link of an identity to an account",
		Long: `End the link of an identity to an account. CALLER is the id of the identity. With --as, an identity
of yours ends its own link to any account. The key in $VACANCY_KEY needs the scope manage, unless
this key made the link.`,
		Example: "  vacancy account unlink acme 3fd1…\n  vacancy account unlink --as alice",
		Args:    kit.ArgumentCheck(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("as") {
				if len(args) > 0 {
					return problem.New(problem.Usage, "--as: not supported together with TENANT or CALLER")
				}
				// The signed claim replaces a key.
				base, err := a.GatewayURL(cmd.Context(), where)
				if err != nil {
					return err
				}
				c := admin.Client{HTTP: a.KeyedClient(""), URL: base}
				host, err := account.GetHost.Call(cmd.Context(), c, op.None{})
				if err != nil {
					return err
				}
				claimText, err := signClaim(a, cmd.Context(), identityName, host.ID, "", 0)
				if err != nil {
					return err
				}
				if _, err := account.LinkCaller.Call(cmd.Context(), c, account.NewRequest(account.Ref{}, account.Claim{Claim: claimText})); err != nil {
					return err
				}
				return a.PrintResult(doneResult{"no account pays for the identity any more"})
			}
			if len(args) == 0 {
				exampleName := "NAME"
				if dir, err := a.IdentityDir(); err == nil {
					if name, _, err := dir.Default(); err == nil && name != "" {
						exampleName = name
					}
				}
				return kit.WithHint(problem.New(problem.Usage, "expected CALLER, the id of the linked identity, or --as NAME, one of your identities"), "%s --as %s", cmd.CommandPath(), exampleName)
			}
			tenant, caller := "", args[len(args)-1]
			if len(args) == 2 {
				tenant = args[0]
			}
			id, err := identity.ParseID(caller)
			if err != nil {
				return problem.WithPlace(problem.Usage, "CALLER", err)
			}
			return a.WithAccount(cmd.Context(), where, tenant, func(c op.Client, ref account.Ref) error {
				if _, err := account.UnlinkCaller.Call(cmd.Context(), c, account.CallerRef{Ref: ref, Caller: id}); err != nil {
					return err
				}
				return a.PrintResult(doneResult{"the account does not pay for " + a.IdentityNames().NameOrID(id) + " any more"})
			})
		},
	}
	cmd.Flags().StringVar(&identityName, "as", "", "the identity that ends its own link")
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}

func accountLineCommand(a *kit.App) *cobra.Command {
	var note string
	return kit.Operation[account.Request[account.Sum], account.Account]{
		Use:   "line TENANT DOLLARS",
		Short: "Set the credit line of a tenant with a contract",
		Long: `Set the credit line of a tenant with a contract. The tenant can spend the line like money, and then
owes it. A line that has been spent cannot be lowered.`,
		Example:  "  vacancy account line acme 500 --note \"contract 12\"",
		Op:       account.SetLine,
		API:      kit.NewAccountAPI(),
		AddFlags: func(fs *pflag.FlagSet) { addNoteFlag(fs, &note) },
		Request: func(q kit.Request) (account.Request[account.Sum], error) {
			microDollars, err := kit.ParseMicroDollars("DOLLARS", q.Args[0])
			return account.NewRequest(q.Account(), account.Sum{Amount: money.Amount(microDollars), Note: note}), err
		},
		Print: accountPrinter(a),
	}.Command(a)
}

func addNoteFlag(fs *pflag.FlagSet, note *string) {
	fs.StringVar(note, "note", "", "why, for the account's log")
}

// transferOperation returns an operation that adds an amount, which may be negative, to an account.
func transferOperation(a *kit.App, parseAmount func(text string) (int64, error)) kit.Operation[account.MoveRequest, account.Moved] {
	var note, key string
	return kit.Operation[account.MoveRequest, account.Moved]{
		API: kit.NewAccountAPI(),
		AddFlags: func(fs *pflag.FlagSet) {
			addNoteFlag(fs, &note)
			fs.StringVar(&key, "key", "", "an idempotency `KEY`, such as an invoice number; repeating a KEY adds nothing (default random)")
		},
		Request: func(q kit.Request) (account.MoveRequest, error) {
			microDollars, err := parseAmount(q.Args[0])
			if err != nil {
				return account.MoveRequest{}, err
			}
			if key == "" {
				var random [16]byte
				if _, err := io.ReadFull(a.Rand, random[:]); err != nil {
					return account.MoveRequest{}, err
				}
				key = hex.EncodeToString(random[:])
			}
			return account.MoveRequest{Request: account.NewRequest(q.Account(), account.Sum{Amount: money.Amount(microDollars), Note: note}), Key: key}, nil
		},
		Print: func(w io.Writer, m account.Moved) {
			if m.Replayed {
				fmt.Fprintln(w, "nothing changed: the same --key was used before, with the same amount")
			}
			printAccount(w, m.Account, a.IdentityNames())
		},
	}
}

func creditCommand(a *kit.App) *cobra.Command {
	c := transferOperation(a, func(text string) (int64, error) { return kit.ParseMicroDollars("DOLLARS", text) })
	c.Use, c.Short = "credit TENANT DOLLARS", "Add money to the account of a tenant"
	c.Long = `Add money to the account of a tenant. The same credit with the same --key is added only once.`
	c.Example = "  vacancy credit acme 10\n  vacancy credit acme 250 --key invoice-7 --note \"paid by bank\""
	c.Op = account.CreditAccount
	return c.Command(a)
}

func accountAdjustCommand(a *kit.App) *cobra.Command {
	c := transferOperation(a, func(text string) (int64, error) {
		digits, isNegative := strings.CutPrefix(text, "-")
		microDollars, err := kit.ParseMicroDollars("DOLLARS", digits)
		if isNegative {
			microDollars = -microDollars
		}
		return microDollars, err
	})
	c.Use, c.Short = "adjust TENANT DOLLARS --note WHY", "Correct the balance of an account, up or down"
	c.Long = `Correct the balance of an account; a negative amount reduces the balance, but not below 0. --note says why.`
	c.Example = "  vacancy account adjust acme 0.50 --note \"answered too late\"\n  vacancy account adjust acme -- -2 --note \"credited twice\""
	c.Op = account.AdjustAccount
	return c.Command(a)
}

const suspendLong = `Suspend an account. Within a second, the host refuses its calls with account_suspended.

The host then refuses the account's keys and the tokens of its issuers at all vacants, including free
vacants, for tasks, and at AGP. It also refuses signed calls that the account would pay for. Keys and
tokens can still read the account, its statement and its receipts, pay in, revoke keys, end links
and cancel bookings. Calls that were accepted earlier continue, and are charged.`

func accountSuspendCommand(a *kit.App, use, short, long string, operation op.Op[account.Request[account.Note], account.Account]) *cobra.Command {
	var note string
	return kit.Operation[account.Request[account.Note], account.Account]{
		Use:      use + " TENANT",
		Short:    short,
		Long:     long,
		Example:  "  vacancy account " + use + " acme",
		Op:       operation,
		API:      kit.NewAccountAPI(),
		AddFlags: func(fs *pflag.FlagSet) { addNoteFlag(fs, &note) },
		Request: func(q kit.Request) (account.Request[account.Note], error) {
			return account.NewRequest(q.Account(), account.Note{Note: note}), nil
		},
		Print: accountPrinter(a),
	}.Command(a)
}
