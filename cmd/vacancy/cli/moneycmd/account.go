package moneycmd

import (
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

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

func AccountCommand(a *kit.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "account",
		Short: "Manage accounts of tenants, who pay for calls",
		Long: `Manage the accounts of tenants. An account pays for the calls of its keys ("vacancy keys"),
and for the signed calls of the ids that are linked to it.

Operators name the TENANT. Tenants leave it out: the key in $VACANCY_KEY says whose account
it is, at the host of --host or $VACANCY_HOST, or on this machine.`,
		Example: `  vacancy account open acme
  vacancy account link acme --as alice
  vacancy account show acme
  VACANCY_KEY=vac_live_… vacancy account show`,
		Args: a.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		accountOpenCommand(a), accountListCommand(a), accountShowCommand(a), accountLogCommand(a),
		accountLinkCommand(a), accountUnlinkCommand(a), accountCapCommand(a), accountLineCommand(a), accountAdjustCommand(a),
		accountSuspendCommand(a, "suspend", "Refuse the calls of an account from the next on", account.SuspendAccount),
		accountSuspendCommand(a, "resume", "Let a suspended account pay again", account.ResumeAccount), accountPayCommand(a),
	)
	return cmd
}

// accountResult is an account.
type accountResult account.Account

func (r accountResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s\n  account     %s\n  balance     %s\n", kit.Printable(r.Tenant), kit.Printable(r.ID), r.Balance)
	if r.Held != nil && *r.Held > 0 {
		fmt.Fprintf(w, "  held        %s by calls and bookings that usage does not count yet\n", *r.Held)
	}
	if r.Line > 0 {
		fmt.Fprintf(w, "  line        %s\n", r.Line)
	}
	if r.Cap > 0 {
		fmt.Fprintf(w, "  cap         %s a day\n", r.Cap)
	}
	if r.Owed > 0 {
		fmt.Fprintf(w, "  owed        %s of payments that were taken back\n", r.Owed)
	}
	if r.Suspended {
		fmt.Fprintln(w, "  suspended")
	}
	fmt.Fprintf(w, "  shards      %d\n", r.Shards)
	for _, l := range r.Links {
		most := ""
		if l.Cap > 0 {
			most = ", at most " + l.Cap.String() + " a day"
		}
		fmt.Fprintf(w, "  pays for    %s%s\n", l.Caller, most)
	}
}

func showAccount(a *kit.App, r account.Account, err error) error {
	if err != nil {
		return err
	}
	return a.Show(accountResult(r))
}

func accountOpenCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var shards int
	cmd := &cobra.Command{
		Use:   "open TENANT",
		Short: "Open the account of a tenant",
		Long: `Open the account of a tenant. Its balance is in --shards parts: each takes one call at a
time, so 16 suit a tenant with hundreds of calls a second, 1 a small one.`,
		Example: "  vacancy account open acme\n  vacancy account open acme --shards 16",
		Args:    kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
				r, err := account.OpenAccount.Call(cmd.Context(), c, op.Of(account.Opening{Tenant: args[0], Shards: shards}))
				return showAccount(a, r, err)
			})
		},
	}
	cmd.Flags().IntVar(&shards, "shards", billing.DefaultShards, "parts of the balance: 1, 4 or 16")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// accountsResult is all accounts of a host.
type accountsResult struct {
	Accounts []account.Account `json:"accounts"`
}

func (r accountsResult) Print(w io.Writer) {
	if len(r.Accounts) == 0 {
		fmt.Fprintln(w, "no accounts")
		return
	}
	wide := 6
	for _, one := range r.Accounts {
		wide = max(wide, len(one.Tenant))
	}
	for _, one := range r.Accounts {
		state := ""
		if one.Suspended {
			state = "  suspended"
		}
		fmt.Fprintf(w, "%-*s %14s  %s%s\n", wide, kit.Printable(one.Tenant), one.Balance, kit.Printable(one.ID), state)
	}
}

func accountListCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the accounts of a host",
		Example: "  vacancy account list --json",
		Args:    kit.Arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
				all := accountsResult{Accounts: []account.Account{}}
				for cursor := ""; ; {
					page, err := account.ListAccounts.Call(cmd.Context(), c, account.List{Cursor: cursor})
					if err != nil {
						return err
					}
					all.Accounts = append(all.Accounts, page.Accounts...)
					if cursor = page.Next; cursor == "" {
						return a.Show(all)
					}
				}
			})
		},
	}
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

func accountShowCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	cmd := &cobra.Command{
		Use:     "show [TENANT]",
		Short:   "Show an account, its balance and its links",
		Example: "  vacancy account show acme\n  VACANCY_KEY=vac_live_… vacancy account show --host https://agents.example.org",
		Args:    kit.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithAccount(cmd.Context(), w, kit.TenantArg(args), func(c op.Client, of account.One) error {
				r, err := account.ShowAccount.Call(cmd.Context(), c, of)
				return showAccount(a, r, err)
			})
		},
	}
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// changesResult is what changed an account.
type changesResult struct {
	Changes []account.Change `json:"changes"`
}

func (r changesResult) Print(w io.Writer) {
	for _, c := range r.Changes {
		amount := ""
		if c.Amount != 0 {
			amount = c.Amount.String()
		}
		var more []string
		if c.Owed != 0 {
			more = append(more, "owed "+c.Owed.String())
		}
		for _, s := range []string{c.Key, c.Caller, c.Payment, c.Note} {
			if s != "" {
				more = append(more, kit.Printable(s))
			}
		}
		fmt.Fprintf(w, "%4d  %s  %-11s %12s  %s\n", c.Position, c.At.Format("2006-01-02T15:04:05Z"), kit.Printable(string(c.Kind)), amount, strings.Join(more, ", "))
	}
}

func accountLogCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	cmd := &cobra.Command{
		Use:     "log [TENANT]",
		Short:   "Show all that changed an account besides calls",
		Example: "  vacancy account log acme",
		Args:    kit.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithAccount(cmd.Context(), w, kit.TenantArg(args), func(c op.Client, of account.One) error {
				all := changesResult{Changes: []account.Change{}}
				for from := uint64(1); ; {
					page, err := account.ListChanges.Call(cmd.Context(), c, account.ChangeList{One: of, From: from})
					if err != nil {
						return err
					}
					if len(page.Changes) == 0 {
						return a.Show(all)
					}
					all.Changes, from = append(all.Changes, page.Changes...), page.Next
				}
			})
		},
	}
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// linkResult is a link.
type linkResult billing.Link

func (r linkResult) Print(w io.Writer) {
	most := ""
	if r.Cap > 0 {
		most = ", at most " + r.Cap.String() + " a day"
	}
	fmt.Fprintf(w, "account %.12s… pays for the signed calls of %s%s\n", kit.Printable(r.Account), r.Caller, most)
}

func accountLinkCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var as, most string
	cmd := &cobra.Command{
		Use:   "link [TENANT]",
		Short: "Have an account pay for an identity's signed calls",
		Long: `Sign with an identity of yours that an account pays for its signed calls, and bring the
claim to the host. --cap bounds what a UTC day's calls may hold. An identity has one payer;
"vacancy account unlink" ends the link, of either side.`,
		Example: "  vacancy account link acme --as alice --cap 5\n  VACANCY_KEY=vac_live_… vacancy account link",
		Args:    kit.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := kit.CapFlag(most)
			if err != nil {
				return err
			}
			return a.WithAccount(cmd.Context(), w, kit.TenantArg(args), func(c op.Client, of account.One) error {
				known, err := account.ShowAccount.Call(cmd.Context(), c, of)
				if err != nil {
					return err
				}
				text, err := signClaim(a, cmd.Context(), as, known.Host, known.ID, limit)
				if err != nil {
					return err
				}
				l, err := account.LinkCaller.Call(cmd.Context(), c, account.About(of, account.Claim{Claim: text}))
				if err != nil {
					return err
				}
				if l.Link == nil {
					return problem.New(problem.Untrusted, "the host ended a link instead of making one")
				}
				return a.Show(linkResult(*l.Link))
			})
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "the identity that is paid for (default $VACANCY_AS, else the only one)")
	cmd.Flags().StringVar(&most, "cap", "", "the most `DOLLARS` of a UTC day (default no bound)")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// signClaim signs a claim by an identity of the person.
func signClaim(a *kit.App, ctx context.Context, as string, host identity.ID, to string, most money.Amount) (string, error) {
	self, err := a.Caller(ctx, as)
	if err != nil {
		return "", err
	}
	c := claim.Claim{Host: host, Account: to, Cap: int64(most)}
	err = c.Sign(ctx, self.Key, a.Now())
	return c.String(), err
}

// doneResult is the result of a command that has nothing to show.
type doneResult struct {
	Done string `json:"done"`
}

func (r doneResult) Print(w io.Writer) { fmt.Fprintln(w, r.Done) }

func accountUnlinkCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var as string
	cmd := &cobra.Command{
		Use:   "unlink TENANT CALLER | unlink CALLER | unlink --as NAME",
		Short: "End that an account pays for an identity",
		Long: `End the link of an identity to an account: by the account, which names the id of the CALLER,
or with --as by the identity itself, whoever pays.`,
		Example: "  vacancy account unlink acme 3fd1…\n  vacancy account unlink --as alice",
		Args:    kit.Arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("as") {
				if len(args) > 0 {
					return problem.New(problem.Usage, "--as goes without TENANT and CALLER")
				}
				return unlinkSelf(a, cmd.Context(), w, as)
			}
			if len(args) == 0 {
				return problem.New(problem.Usage, "expected CALLER, or --as NAME")
			}
			tenant, caller := "", args[len(args)-1]
			if len(args) == 2 {
				tenant = args[0]
			}
			id, err := identity.ParseID(caller)
			if err != nil {
				return problem.Within(problem.Usage, "CALLER", err)
			}
			return a.WithAccount(cmd.Context(), w, tenant, func(c op.Client, of account.One) error {
				if _, err := account.UnlinkCaller.Call(cmd.Context(), c, account.OneCaller{One: of, Caller: id}); err != nil {
					return err
				}
				return a.Show(doneResult{"the account does not pay for " + id.Short() + " any more"})
			})
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "the identity that ends its own link")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// unlinkSelf ends the link of an identity by its own claim, which needs no key.
func unlinkSelf(a *kit.App, ctx context.Context, w kit.Where, as string) error {
	base, err := a.HostURL(ctx, w)
	if err != nil {
		return err
	}
	c := admin.Client{HTTP: kit.KeyedClient(""), URL: base}
	host, err := account.GetHost.Call(ctx, c, op.None{})
	if err != nil {
		return err
	}
	text, err := signClaim(a, ctx, as, host.ID, "", 0)
	if err != nil {
		return err
	}
	if _, err := account.LinkCaller.Call(ctx, c, account.About(account.One{}, account.Claim{Claim: text})); err != nil {
		return err
	}
	return a.Show(doneResult{"no account pays for it any more"})
}

func accountCapCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	cmd := &cobra.Command{
		Use:     "cap TENANT DOLLARS",
		Short:   "Set what the calls of an account may hold in a UTC day",
		Long:    `Set what the calls of an account may hold in a UTC day; 0 is no bound.`,
		Example: "  vacancy account cap acme 50",
		Args:    kit.Arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := kit.MicroDollars("DOLLARS", args[1])
			if err != nil {
				return err
			}
			return a.WithAccount(cmd.Context(), w, args[0], func(c op.Client, of account.One) error {
				r, err := account.SetCap.Call(cmd.Context(), c, account.About(of, account.Limit{Amount: money.Amount(n)}))
				return showAccount(a, r, err)
			})
		},
	}
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

func accountLineCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var note string
	cmd := &cobra.Command{
		Use:   "line TENANT DOLLARS",
		Short: "Set the credit line of a tenant with a contract",
		Long: `Set the credit line of a tenant with a contract: it is spent like money, and owed. A line
that is spent cannot be lowered.`,
		Example: "  vacancy account line acme 500 --note \"contract 12\"",
		Args:    kit.Arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := kit.MicroDollars("DOLLARS", args[1])
			if err != nil {
				return err
			}
			return a.WithAccount(cmd.Context(), w, args[0], func(c op.Client, of account.One) error {
				r, err := account.SetLine.Call(cmd.Context(), c, account.About(of, account.Sum{Amount: money.Amount(n), Note: note}))
				return showAccount(a, r, err)
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the account's log")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}

// creditFlags are the flags of commands that move money.
type creditFlags struct {
	where     kit.Where
	note, key string
}

func (f *creditFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.note, "note", "", "why, for the account's log")
	cmd.Flags().StringVar(&f.key, "key", "", "an idempotency `KEY`, such as an invoice: the same again adds nothing (default random)")
	kit.HostFlags(cmd.Flags(), &f.where)
}

func credit(a *kit.App, ctx context.Context, f creditFlags, tenant string, amount money.Amount, do op.Op[account.Moving, account.Moved]) error {
	if f.key == "" {
		var random [16]byte
		if _, err := io.ReadFull(a.Rand, random[:]); err != nil {
			return err
		}
		f.key = hex.EncodeToString(random[:])
	}
	return a.WithAccount(ctx, f.where, tenant, func(c op.Client, of account.One) error {
		moved, err := do.Call(ctx, c, account.Moving{With: account.About(of, account.Sum{Amount: amount, Note: f.note}), Key: f.key})
		r, err := moved.Account, err
		return showAccount(a, r, err)
	})
}

func CreditCommand(a *kit.App) *cobra.Command {
	var f creditFlags
	cmd := &cobra.Command{
		Use:     "credit TENANT DOLLARS",
		Short:   "Add money to the account of a tenant",
		Long:    `Add money to the account of a tenant. With --key, the same credit again adds nothing.`,
		Example: "  vacancy credit acme 10\n  vacancy credit acme 250 --key invoice-7 --note \"paid by bank\"",
		Args:    kit.Arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := kit.MicroDollars("DOLLARS", args[1])
			if err != nil {
				return err
			}
			return credit(a, cmd.Context(), f, args[0], money.Amount(n), account.CreditAccount)
		},
	}
	f.add(cmd)
	return cmd
}

func accountAdjustCommand(a *kit.App) *cobra.Command {
	var f creditFlags
	cmd := &cobra.Command{
		Use:     "adjust TENANT DOLLARS --note WHY",
		Short:   "Correct the balance of an account, by more or by less",
		Long:    `Correct the balance of an account; a minus takes from it what it has. --note says why.`,
		Example: "  vacancy account adjust acme 0.50 --note \"answered too late\"\n  vacancy account adjust acme -- -2 --note \"credited twice\"",
		Args:    kit.Arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			digits, minus := strings.CutPrefix(args[1], "-")
			n, err := kit.MicroDollars("DOLLARS", digits)
			if err != nil {
				return err
			}
			if minus {
				n = -n
			}
			return credit(a, cmd.Context(), f, args[0], money.Amount(n), account.AdjustAccount)
		},
	}
	f.add(cmd)
	return cmd
}

func accountSuspendCommand(a *kit.App, use, short string, do op.Op[account.With[account.Note], account.Account]) *cobra.Command {
	var w kit.Where
	var note string
	cmd := &cobra.Command{
		Use:     use + " TENANT",
		Short:   short,
		Example: "  vacancy account " + use + " acme",
		Args:    kit.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.WithAccount(cmd.Context(), w, args[0], func(c op.Client, of account.One) error {
				r, err := do.Call(cmd.Context(), c, account.About(of, account.Note{Note: note}))
				return showAccount(a, r, err)
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the account's log")
	kit.HostFlags(cmd.Flags(), &w)
	return cmd
}
