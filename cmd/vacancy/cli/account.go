package cli

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/claim"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// accountKeyEnv is the key of an account, for its tenant.
const accountKeyEnv = "VACANCY_KEY"

func (a *app) accountCommand() *cobra.Command {
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
		Args: a.knownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		a.accountOpenCommand(), a.accountListCommand(), a.accountShowCommand(), a.accountLogCommand(),
		a.accountLinkCommand(), a.accountUnlinkCommand(), a.accountCapCommand(), a.accountLineCommand(), a.accountAdjustCommand(),
		a.accountSuspendCommand("suspend", "Refuse the calls of an account from the next on", account.SuspendAccount),
		a.accountSuspendCommand("resume", "Let a suspended account pay again", account.ResumeAccount), a.accountPayCommand(),
	)
	return cmd
}

// withAccount runs f on the account of a tenant, or without one on that of the key.
func (a *app) withAccount(ctx context.Context, w where, tenant string, f func(op.Client, account.One) error) error {
	if tenant != "" {
		return a.withAdmin(w, false, func(c *adminAPI) error {
			return f(c, account.One{Account: tenant})
		})
	}
	key := a.env[accountKeyEnv]
	if key == "" {
		return withHint(problem.New(problem.Usage, "expected TENANT, or a key of an account in $%s", accountKeyEnv), "vacancy account list")
	}
	base, err := a.hostBase(ctx, w)
	if err != nil {
		return err
	}
	return f(admin.Client{HTTP: keyedClient(stage.Key(key)), URL: base}, account.One{})
}

// hostBase is the URL of a host's accounts and AGP.
func (a *app) hostBase(ctx context.Context, w where) (string, error) {
	at, err := a.find(w)
	if err != nil {
		return "", err
	}
	if at == nil {
		return a.localURL(ctx, w.data)
	}
	return strings.TrimRight(cmp.Or(at.record.GatewayURL, at.record.URL), "/"), nil
}

// accountKeyFor is the key in the environment, if a URL is at the host that the person
// has named, or on this machine; "" otherwise: another host could use it.
func (a *app) accountKeyFor(ctx context.Context, w where, at string) (string, error) {
	key := a.env[accountKeyEnv]
	if key == "" {
		return "", nil
	}
	u, err := url.Parse(at)
	if err != nil {
		return "", nil
	}
	named, err := a.find(w)
	if err != nil {
		return "", err
	}
	if named == nil {
		if outbound.IsThisMachine(u.Hostname()) {
			return key, nil
		}
		a.note("the key in $%s is not sent to %s: it is for --host or $VACANCY_HOST", accountKeyEnv, printable(u.Host))
		return "", nil
	}
	base, err := url.Parse(named.record.URL)
	if err != nil || base.Host != u.Host || base.Scheme != u.Scheme {
		return "", nil
	}
	return key, nil
}

// accountResult is an account.
type accountResult account.Account

func (r accountResult) text(w io.Writer) {
	fmt.Fprintf(w, "%s\n  account     %s\n  balance     %s\n", printable(r.Tenant), printable(r.ID), r.Balance)
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

func (a *app) showAccount(r account.Account, err error) error {
	if err != nil {
		return err
	}
	return a.show(accountResult(r))
}

// tenantArg is the only argument, or none.
func tenantArg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func (a *app) accountOpenCommand() *cobra.Command {
	var w where
	var shards int
	cmd := &cobra.Command{
		Use:   "open TENANT",
		Short: "Open the account of a tenant",
		Long: `Open the account of a tenant. Its balance is in --shards parts: each takes one call at a
time, so 16 suit a tenant with hundreds of calls a second, 1 a small one.`,
		Example: "  vacancy account open acme\n  vacancy account open acme --shards 16",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withAdmin(w, false, func(c *adminAPI) error {
				r, err := account.OpenAccount.Call(cmd.Context(), c, op.Of(account.Opening{Tenant: args[0], Shards: shards}))
				return a.showAccount(r, err)
			})
		},
	}
	cmd.Flags().IntVar(&shards, "shards", billing.DefaultShards, "parts of the balance: 1, 4 or 16")
	hostFlags(cmd.Flags(), &w)
	return cmd
}

// accountsResult is all accounts of a host.
type accountsResult struct {
	Accounts []account.Account `json:"accounts"`
}

func (r accountsResult) text(w io.Writer) {
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
		fmt.Fprintf(w, "%-*s %14s  %s%s\n", wide, printable(one.Tenant), one.Balance, printable(one.ID), state)
	}
}

func (a *app) accountListCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the accounts of a host",
		Example: "  vacancy account list --json",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withAdmin(w, false, func(c *adminAPI) error {
				all := accountsResult{Accounts: []account.Account{}}
				for cursor := ""; ; {
					page, err := account.ListAccounts.Call(cmd.Context(), c, account.List{Cursor: cursor})
					if err != nil {
						return err
					}
					all.Accounts = append(all.Accounts, page.Accounts...)
					if cursor = page.Next; cursor == "" {
						return a.show(all)
					}
				}
			})
		},
	}
	hostFlags(cmd.Flags(), &w)
	return cmd
}

func (a *app) accountShowCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:     "show [TENANT]",
		Short:   "Show an account, its balance and its links",
		Example: "  vacancy account show acme\n  VACANCY_KEY=vac_live_… vacancy account show --host https://agents.example.org",
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withAccount(cmd.Context(), w, tenantArg(args), func(c op.Client, of account.One) error {
				r, err := account.ShowAccount.Call(cmd.Context(), c, of)
				return a.showAccount(r, err)
			})
		},
	}
	hostFlags(cmd.Flags(), &w)
	return cmd
}

// changesResult is what changed an account.
type changesResult struct {
	Changes []account.Change `json:"changes"`
}

func (r changesResult) text(w io.Writer) {
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
				more = append(more, printable(s))
			}
		}
		fmt.Fprintf(w, "%4d  %s  %-11s %12s  %s\n", c.Position, c.At.Format("2006-01-02T15:04:05Z"), printable(string(c.Kind)), amount, strings.Join(more, ", "))
	}
}

func (a *app) accountLogCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:     "log [TENANT]",
		Short:   "Show all that changed an account besides calls",
		Example: "  vacancy account log acme",
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withAccount(cmd.Context(), w, tenantArg(args), func(c op.Client, of account.One) error {
				all := changesResult{Changes: []account.Change{}}
				for from := uint64(1); ; {
					page, err := account.ListChanges.Call(cmd.Context(), c, account.ChangeList{One: of, From: from})
					if err != nil {
						return err
					}
					if len(page.Changes) == 0 {
						return a.show(all)
					}
					all.Changes, from = append(all.Changes, page.Changes...), page.Next
				}
			})
		},
	}
	hostFlags(cmd.Flags(), &w)
	return cmd
}

// linkResult is a link.
type linkResult billing.Link

func (r linkResult) text(w io.Writer) {
	most := ""
	if r.Cap > 0 {
		most = ", at most " + r.Cap.String() + " a day"
	}
	fmt.Fprintf(w, "account %.12s… pays for the signed calls of %s%s\n", printable(r.Account), r.Caller, most)
}

func (a *app) accountLinkCommand() *cobra.Command {
	var w where
	var as, most string
	cmd := &cobra.Command{
		Use:   "link [TENANT]",
		Short: "Have an account pay for an identity's signed calls",
		Long: `Sign with an identity of yours that an account pays for its signed calls, and bring the
claim to the host. --cap bounds what a UTC day's calls may hold. An identity has one payer;
"vacancy account unlink" ends the link, of either side.`,
		Example: "  vacancy account link acme --as alice --cap 5\n  VACANCY_KEY=vac_live_… vacancy account link",
		Args:    arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := capFlag(most)
			if err != nil {
				return err
			}
			return a.withAccount(cmd.Context(), w, tenantArg(args), func(c op.Client, of account.One) error {
				known, err := account.ShowAccount.Call(cmd.Context(), c, of)
				if err != nil {
					return err
				}
				text, err := a.claim(cmd.Context(), as, known.Host, known.ID, limit)
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
				return a.show(linkResult(*l.Link))
			})
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "the identity that is paid for (default $VACANCY_AS, else the only one)")
	cmd.Flags().StringVar(&most, "cap", "", "the most `DOLLARS` of a UTC day (default no bound)")
	hostFlags(cmd.Flags(), &w)
	return cmd
}

// claim signs a claim by an identity of the person.
func (a *app) claim(ctx context.Context, as string, host identity.ID, to string, most money.Amount) (string, error) {
	self, err := a.caller(ctx, as)
	if err != nil {
		return "", err
	}
	c := claim.Claim{Host: host, Account: to, Cap: int64(most)}
	err = c.Sign(ctx, self.Key, a.now())
	return c.String(), err
}

func capFlag(text string) (money.Amount, error) {
	if text == "" {
		return 0, nil
	}
	n, err := microDollars("--cap", text)
	return money.Amount(n), err
}

// doneResult is the result of a command that has nothing to show.
type doneResult struct {
	Done string `json:"done"`
}

func (r doneResult) text(w io.Writer) { fmt.Fprintln(w, r.Done) }

func (a *app) accountUnlinkCommand() *cobra.Command {
	var w where
	var as string
	cmd := &cobra.Command{
		Use:   "unlink TENANT CALLER | unlink CALLER | unlink --as NAME",
		Short: "End that an account pays for an identity",
		Long: `End the link of an identity to an account: by the account, which names the id of the CALLER,
or with --as by the identity itself, whoever pays.`,
		Example: "  vacancy account unlink acme 3fd1…\n  vacancy account unlink --as alice",
		Args:    arguments(0, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("as") {
				if len(args) > 0 {
					return problem.New(problem.Usage, "--as goes without TENANT and CALLER")
				}
				return a.unlinkSelf(cmd.Context(), w, as)
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
			return a.withAccount(cmd.Context(), w, tenant, func(c op.Client, of account.One) error {
				if _, err := account.UnlinkCaller.Call(cmd.Context(), c, account.OneCaller{One: of, Caller: id}); err != nil {
					return err
				}
				return a.show(doneResult{"the account does not pay for " + id.Short() + " any more"})
			})
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "the identity that ends its own link")
	hostFlags(cmd.Flags(), &w)
	return cmd
}

// unlinkSelf ends the link of an identity by its own claim, which needs no key.
func (a *app) unlinkSelf(ctx context.Context, w where, as string) error {
	base, err := a.hostBase(ctx, w)
	if err != nil {
		return err
	}
	c := admin.Client{HTTP: keyedClient(""), URL: base}
	host, err := account.GetHost.Call(ctx, c, op.None{})
	if err != nil {
		return err
	}
	text, err := a.claim(ctx, as, host.ID, "", 0)
	if err != nil {
		return err
	}
	if _, err := account.LinkCaller.Call(ctx, c, account.About(account.One{}, account.Claim{Claim: text})); err != nil {
		return err
	}
	return a.show(doneResult{"no account pays for it any more"})
}

func (a *app) accountCapCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:     "cap TENANT DOLLARS",
		Short:   "Set what the calls of an account may hold in a UTC day",
		Long:    `Set what the calls of an account may hold in a UTC day; 0 is no bound.`,
		Example: "  vacancy account cap acme 50",
		Args:    arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := microDollars("DOLLARS", args[1])
			if err != nil {
				return err
			}
			return a.withAccount(cmd.Context(), w, args[0], func(c op.Client, of account.One) error {
				r, err := account.SetCap.Call(cmd.Context(), c, account.About(of, account.Limit{Amount: money.Amount(n)}))
				return a.showAccount(r, err)
			})
		},
	}
	hostFlags(cmd.Flags(), &w)
	return cmd
}

func (a *app) accountLineCommand() *cobra.Command {
	var w where
	var note string
	cmd := &cobra.Command{
		Use:   "line TENANT DOLLARS",
		Short: "Set the credit line of a tenant with a contract",
		Long: `Set the credit line of a tenant with a contract: it is spent like money, and owed. A line
that is spent cannot be lowered.`,
		Example: "  vacancy account line acme 500 --note \"contract 12\"",
		Args:    arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := microDollars("DOLLARS", args[1])
			if err != nil {
				return err
			}
			return a.withAccount(cmd.Context(), w, args[0], func(c op.Client, of account.One) error {
				r, err := account.SetLine.Call(cmd.Context(), c, account.About(of, account.Sum{Amount: money.Amount(n), Note: note}))
				return a.showAccount(r, err)
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the account's log")
	hostFlags(cmd.Flags(), &w)
	return cmd
}

// creditFlags are the flags of commands that move money.
type creditFlags struct {
	where     where
	note, key string
}

func (f *creditFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.note, "note", "", "why, for the account's log")
	cmd.Flags().StringVar(&f.key, "key", "", "an idempotency `KEY`, such as an invoice: the same again adds nothing (default random)")
	hostFlags(cmd.Flags(), &f.where)
}

func (a *app) credit(ctx context.Context, f creditFlags, tenant string, amount money.Amount, do op.Op[account.Moving, account.Moved]) error {
	if f.key == "" {
		var random [16]byte
		if _, err := io.ReadFull(a.rand, random[:]); err != nil {
			return err
		}
		f.key = hex.EncodeToString(random[:])
	}
	return a.withAccount(ctx, f.where, tenant, func(c op.Client, of account.One) error {
		moved, err := do.Call(ctx, c, account.Moving{With: account.About(of, account.Sum{Amount: amount, Note: f.note}), Key: f.key})
		r, err := moved.Account, err
		return a.showAccount(r, err)
	})
}

func (a *app) creditCommand() *cobra.Command {
	var f creditFlags
	cmd := &cobra.Command{
		Use:     "credit TENANT DOLLARS",
		Short:   "Add money to the account of a tenant",
		Long:    `Add money to the account of a tenant. With --key, the same credit again adds nothing.`,
		Example: "  vacancy credit acme 10\n  vacancy credit acme 250 --key invoice-7 --note \"paid by bank\"",
		Args:    arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := microDollars("DOLLARS", args[1])
			if err != nil {
				return err
			}
			return a.credit(cmd.Context(), f, args[0], money.Amount(n), account.CreditAccount)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) accountAdjustCommand() *cobra.Command {
	var f creditFlags
	cmd := &cobra.Command{
		Use:     "adjust TENANT DOLLARS --note WHY",
		Short:   "Correct the balance of an account, by more or by less",
		Long:    `Correct the balance of an account; a minus takes from it what it has. --note says why.`,
		Example: "  vacancy account adjust acme 0.50 --note \"answered too late\"\n  vacancy account adjust acme -- -2 --note \"credited twice\"",
		Args:    arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			digits, minus := strings.CutPrefix(args[1], "-")
			n, err := microDollars("DOLLARS", digits)
			if err != nil {
				return err
			}
			if minus {
				n = -n
			}
			return a.credit(cmd.Context(), f, args[0], money.Amount(n), account.AdjustAccount)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) accountSuspendCommand(use, short string, do op.Op[account.With[account.Note], account.Account]) *cobra.Command {
	var w where
	var note string
	cmd := &cobra.Command{
		Use:     use + " TENANT",
		Short:   short,
		Example: "  vacancy account " + use + " acme",
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withAccount(cmd.Context(), w, args[0], func(c op.Client, of account.One) error {
				r, err := do.Call(cmd.Context(), c, account.About(of, account.Note{Note: note}))
				return a.showAccount(r, err)
			})
		},
	}
	cmd.Flags().StringVar(&note, "note", "", "why, for the account's log")
	hostFlags(cmd.Flags(), &w)
	return cmd
}
