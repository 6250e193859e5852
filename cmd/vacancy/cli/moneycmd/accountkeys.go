package moneycmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/awscmd"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/host/billing"
)

func keysCommand(a *kit.App) *cobra.Command {
	return a.ParentCommand(&cobra.Command{
		Use:   "keys",
		Short: "Manage keys of accounts, and the operator key of a deployed host",
		Long: `A key of an account pays for A2A calls and manages the account ("vacancy account").

The operator key opens the admin API of a deployed host and the export that "vacancy
verify" reads. "vacancy deploy" creates it, shows it once and writes it to
$VACANCY_HOME/stages/STAGE.json, which only you can read. The host stores only its hash.`,
		Example: "  vacancy keys create acme\n  vacancy keys rotate-operator --stage prod",
	},
		createKeyCommand(a),
		kit.Operation[account.Ref, account.Keys]{
			Use:     "list [TENANT]",
			Short:   "List the keys of an account, without their secrets",
			Example: "  vacancy keys list acme",
			Op:      account.ListKeys,
			API:     kit.NewAccountAPI(),
			Request: func(q kit.Request) (account.Ref, error) { return q.Account(), nil },
			Print: func(w io.Writer, r account.Keys) {
				kit.PrintTable(w, "no keys", r.Keys, func(k billing.Key) []any { return []any{formatKey(k)} })
			},
		}.Command(a),
		revokeKeyCommand(a), awscmd.RotateOperatorCommand(a),
	)
}

func createKeyCommand(a *kit.App) *cobra.Command {
	var options billing.KeyOptions
	var scopes []string
	var dailyCap, tier, maxPerCall string
	var days int
	return kit.Operation[account.Request[billing.KeyOptions], account.NewKey]{
		Use:   "create [TENANT]",
		Short: "Create a key of an account",
		Long: `Create a key of an account and show it once. The host stores only its hash. A test key can call only
the vacants of its own tenant, and nothing is charged. If such a vacant calls priced vacants, they
must belong to the same tenant, and these calls are not charged either. A test key can read only
tasks, bookings and keys that test keys made. Operations on the account's vacants, links, balance,
usage, receipts and changes need a live key.

--name is shown in "vacancy keys list" and in the account's log. --most is the maximum cost of a call
or a booking: the host refuses a call or a booking that may cost more. --cap is the maximum cost of
all calls in a UTC day. If a called vacant makes calls that the same account pays for, --most limits
the total, and --cap includes it.

A key cannot make a key with more rights than its own: its scopes, limits, expiry and test mode also
limit the new key. A key with a cap cannot make a key that spends. A linked caller is not limited by a
key, so only a key with the scope call and without --cap, --most and --days can link callers. A test
key can list, make and revoke only test keys. When a key is revoked, the keys that it made end too
("vacancy keys revoke").

A key has the scopes call and read unless --scope says otherwise:

  call     call vacants; "account link", and "account unlink" of links that the key made
  read     "account show", "account log", "usage", receipts
  manage   "keys create", "keys list", "keys revoke", "account pay", "account unlink" of any
           link, bookings of the account's other keys and of the tenant's venues
  agp      send AGP envelopes; needs --tier, with which the default is agp and read
  vacants  create and change the vacants of the tenant, by --host URL
  agents   dispatch tasks to agents, the vacants of the tenant and published ones: "vacancy run",
           "vacancy task", and the same tools of MCP
  work     do turns of the tenant's vacants with the substrate worker: "vacancy watch --host"

A key with --tier free may ping, search and list. All such keys of an account together may send 100
requests a day. A key with --tier pro may also book, and the limit is 10,000 requests a day. With --tier
enterprise there is no limit. Tenants can make keys of the tier free. Only the operator can make keys
of other tiers, and keys with the scope vacants.`,
		Example: "  vacancy keys create acme\n  vacancy keys create acme --name ci --most 0.01 --cap 5\n  vacancy keys create acme --name admin --scope call,read,manage\n  vacancy keys create acme --name team --scope agents,read --cap 5\n  vacancy keys create acme --tier pro --agent nemoclaw\n  vacancy keys create acme --test",
		Op:      account.MakeKey,
		API:     kit.NewAccountAPI(),
		AddFlags: func(fs *pflag.FlagSet) {
			fs.StringVar(&options.Name, "name", "", "the name of the key for people, at most 64 characters")
			fs.BoolVar(&options.Test, "test", false, "make a test key")
			fs.StringSliceVar(&scopes, "scope", nil, "what the key may do: `call`, read, manage, agp, vacants, agents, work")
			fs.StringVar(&tier, "tier", "", "the tier for AGP: `free`, pro or enterprise")
			fs.Int64Var(&options.Quota, "quota", 0, "AGP requests in a UTC day (default: as many as the tier has)")
			fs.StringSliceVar(&options.AgentIDs, "agent", nil, "an `AGENT` that may send envelopes with the key (default any)")
			fs.IntVar(&days, "days", 0, "the days until the key expires (default never)")
			fs.StringVar(&maxPerCall, "most", "", "the maximum `DOLLARS` of a call or a booking (default no limit)")
			fs.StringVar(&dailyCap, "cap", "", "the maximum `DOLLARS` in a UTC day (default no limit)")
		},
		Request: func(q kit.Request) (in account.Request[billing.KeyOptions], err error) {
			if options.DailyCap, err = kit.ParseSpendingLimit(q.Changed, "cap", dailyCap); err != nil {
				return in, err
			}
			if options.MaxPrice, err = kit.ParseSpendingLimit(q.Changed, "most", maxPerCall); err != nil {
				return in, err
			}
			for _, s := range scopes {
				options.Scopes = append(options.Scopes, billing.Scope(s))
			}
			options.Tier = billing.Tier(tier)
			if days > 0 {
				options.Expires = a.Now().AddDate(0, 0, days)
			}
			return account.NewRequest(q.Account(), options), nil
		},
		Print: func(w io.Writer, r account.NewKey) {
			fmt.Fprintf(w, "key %s%s of %s, shown only once:\n%s\n", kit.EscapeLine(r.ID), kit.FormatIf(r.Name != "", " (%s)", kit.EscapeLine(r.Name)), kit.EscapeLine(r.Tenant), kit.EscapeLine(r.Secret))
		},
	}.Command(a)
}

func formatKey(k billing.Key) string {
	const timeLayout = "2006-01-02T15:04:05Z"
	return kit.JoinNonEmpty("  ",
		k.ID, k.Prefix+"…", joinScopes(k.Scopes, ","), string(k.Tier), kit.FormatIf(k.Name != "", "name %s", k.Name), formatMaker(k.MadeBy),
		kit.FormatIf(k.MaxPrice > 0, "at most %s a call", k.MaxPrice), kit.FormatIf(k.DailyCap > 0, "at most %s a day", k.DailyCap),
		kit.FormatIf(!k.Expires.IsZero(), "until %s", k.Expires.UTC().Format(timeLayout)),
		kit.FormatIf(!k.RevokedAt.IsZero(), "revoked %s", k.RevokedAt.Format(timeLayout)), kit.FormatIf(!k.LastUsed.IsZero(), "last used %s", k.LastUsed.Format(timeLayout)),
	)
}

func joinScopes(scopes []billing.Scope, separator string) string {
	var texts []string
	for _, s := range scopes {
		texts = append(texts, string(s))
	}
	return strings.Join(texts, separator)
}

func formatMaker(maker string) string {
	return kit.FormatIf(maker != "" && maker != billing.MadeByOperator, "made by %s", maker)
}

type revocationResult struct {
	Keys []billing.Key `json:"keys"`
	billing.EndedKeysAndLinks
}

func revokeKeyCommand(a *kit.App) *cobra.Command {
	var onlyKey bool
	return kit.Operation[account.RevokeKeyRequest, billing.Revocation]{
		Use:   "revoke [TENANT] KEY",
		Short: "Revoke a key of an account, and end what it made",
		Long: `Revoke a key of an account. KEY is its id in "vacancy keys list". All keys and links that this key
made end too, directly or through other keys. Their next requests are refused. The command prints
what ended. --only revokes only this key; to end the rest later, run the command without --only.

Keys and links of an earlier version have no recorded maker, so they end only by their own ids. The
command prints how many of them remain.`,
		Example: "  vacancy keys revoke acme tV3xP0aLq9Zd\n  vacancy keys revoke acme tV3xP0aLq9Zd --only",
		Op:      account.RevokeKey,
		API:     kit.NewAccountAPI(),
		AddFlags: func(fs *pflag.FlagSet) {
			fs.BoolVar(&onlyKey, "only", false, "revoke only this key, not what it made")
		},
		Request: func(q kit.Request) (account.RevokeKeyRequest, error) {
			return account.RevokeKeyRequest{Ref: q.Account(), Key: q.Args[0], OnlyThisKey: onlyKey}, nil
		},
		JSONObject: func(r billing.Revocation) any { return revocationResult{[]billing.Key{r.Key}, r.EndedKeysAndLinks} },
		Print: func(w io.Writer, r billing.Revocation) {
			names := a.IdentityNames()
			fmt.Fprintln(w, kit.EscapeLine(formatKey(r.Key)))
			if len(r.EndedKeysAndLinks.Keys)+len(r.Links) > 0 {
				fmt.Fprintf(w, "ended with it: %s, %s\n", kit.Plural(len(r.EndedKeysAndLinks.Keys), "key"), kit.Plural(len(r.Links), "link"))
			}
			for i := range r.EndedKeysAndLinks.Keys {
				fmt.Fprintf(w, "  key   %s\n", kit.EscapeLine(formatKey(r.EndedKeysAndLinks.Keys[i])))
			}
			for _, l := range r.Links {
				fmt.Fprintf(w, "  link  %s\n", kit.EscapeLine(formatLink(l, names)))
			}
			if r.KeysWithoutMaker+r.LinksWithoutMaker > 0 {
				fmt.Fprintf(w, "%s and %s of the account remain, because an earlier version did not record their maker; each of them ends only by its own id\n",
					kit.Plural(r.KeysWithoutMaker, "key"), kit.Plural(r.LinksWithoutMaker, "link"))
			}
		},
	}.Command(a)
}
