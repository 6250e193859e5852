package moneycmd

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/resource"
	"github.com/vacancy-host/vacancy/shared/host/billing"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func issuerCommand(a *kit.App) *cobra.Command {
	issuerRequest := func(q kit.Request) (account.IssuerRef, error) { return account.IssuerRef{ID: q.Args[0]}, nil }
	return a.ParentCommand(&cobra.Command{
		Use:   "issuer",
		Short: "Let tokens of a company's login pay for calls",
		Long: `Accept tokens from an issuer, which is a company's login or another provider of OpenID Connect or
OAuth 2. The people and programs of the issuer are its subjects. The account of a tenant pays for
their calls. Each subject has its own tasks, conversations and daily cap.

The host accepts a token at all addresses that accept a key: A2A, MCP, OpenAI's API and /text. The
scope read also opens the account, and the scope agents opens the tasks of agents. The claim aud must
be the URL that is called or a URL below it, for example https://host/v/NAME, or https://host/mcp for
tasks. Other values must be named by --audience.`,
		Example: "  vacancy issuer add https://login.example.com --tenant acme --require org=acme --cap 1 --most 50\n  vacancy issuer check < token.txt",
	},
		issuerAddCommand(a),
		kit.Operation[op.None, account.Issuers]{
			Use:     "list",
			Short:   "List the issuers whose tokens are accepted",
			Example: "  vacancy issuer list --json",
			Op:      account.ListIssuers,
			Print: func(w io.Writer, list account.Issuers) {
				kit.PrintTable(w, "no issuers", list.Issuers, func(i billing.Issuer) []any { return []any{i.ID, i.Tenant, i.URL} })
			},
		}.Command(a),
		kit.Operation[account.IssuerRef, billing.Issuer]{
			Use:     "show ISSUER",
			Short:   "Show an issuer, named by its id or its URL",
			Example: "  vacancy issuer show https://login.example.com",
			Op:      byIDOrURL(account.ShowIssuer),
			Request: issuerRequest,
			Print:   printIssuer,
		}.Command(a),
		issuerCheckCommand(a),
		kit.Operation[account.IssuerRef, billing.Issuer]{
			Use:   "remove ISSUER",
			Short: "Stop accepting an issuer's tokens",
			Long: `Stop accepting an issuer's tokens. All instances of the host reject the tokens within a second. Past
calls stay on record, and running calls complete.`,
			Example: "  vacancy issuer remove https://login.example.com",
			Op:      byIDOrURL(account.RemoveIssuer),
			Request: issuerRequest,
			Print: func(w io.Writer, i billing.Issuer) {
				fmt.Fprintf(w, "tokens from %s are no longer accepted for %s\n", kit.EscapeLine(i.URL), kit.EscapeLine(i.Tenant))
			},
		}.Command(a),
		kit.Operation[account.SubjectRef, billing.NamedSubject]{
			Use:   "forget TENANT SUBJECT",
			Short: "Delete the name of a subject",
			Long: `Delete the stored name of a subject, which is the issuer's name for the subject. Rows and usage
contain only the subject's id, a hash ("vacancy usage TENANT --by subject"). The subject's next
request stores the name again. To prevent this, remove the issuer or end the subject's tokens.`,
			Example: "  vacancy issuer forget acme 0f3a…",
			Op:      account.ForgetSubject,
			Request: func(q kit.Request) (account.SubjectRef, error) {
				return account.SubjectRef{Ref: account.Ref{Account: q.Args[0]}, Subject: q.Args[1]}, nil
			},
			Print: func(w io.Writer, s billing.NamedSubject) {
				fmt.Fprintf(w, "the name of subject %s is deleted\n", kit.EscapeLine(s.ID))
			},
		}.Command(a),
	)
}

func printIssuer(w io.Writer, r billing.Issuer) {
	fmt.Fprintln(w, kit.EscapeLine(r.URL))
	kit.PrintFields(w, "id", r.ID, "tenant", r.Tenant, "accepts", kit.FormatIf(r.AllowAll, "everybody with a token from this issuer"))
	for _, claim := range slices.Sorted(maps.Keys(r.RequiredClaims)) {
		kit.PrintFields(w, "accepts", claim+"="+r.RequiredClaims[claim])
	}
	kit.PrintFields(w, "audience", r.Audiences, "cap", r.SubjectDailyCap.String()+" a day for each subject", "most", r.TotalDailyCap.String()+" a day for all",
		"scopes", joinScopes(r.Scopes, ", "), "subject", kit.FormatIf(r.SubjectClaim != billing.DefaultSubjectClaim, "claim %s", r.SubjectClaim),
		"listed", kit.FormatIf(r.Publish, "publicly, at the host's own address"), "private", kit.FormatIf(r.AllowPrivateAddress, "its address may be private"))
}

func issuerAddCommand(a *kit.App) *cobra.Command {
	var in account.NewIssuer
	var subjectCap, totalCap string
	var requiredClaims, scopes []string
	return kit.Operation[op.Body[account.NewIssuer], billing.Issuer]{
		Use:   "add URL",
		Short: "Accept an issuer's tokens for a tenant's account",
		Long: `Accept an issuer's tokens for the account of --tenant, or change which tokens are accepted. URL must
be exactly the claim iss of the tokens.

--require accepts only tokens with this claim, for example org_id=acme. Without --require, everybody
who can get a token from the issuer can spend the account's money. Confirm this with --anybody. A
token that fits the issuers of two tenants is refused.

--cap limits what a subject spends in a UTC day, and --most limits what all subjects spend together.
--scope is call (the default), read (the account) or agents ("vacancy run"). Tokens can never manage
keys or vacants. If a token has the claim scope or scp, it can do only what the claim names.

--subject-claim names the claim that identifies a subject. Do not use addresses or names, because
they can pass from one person to another. --listed publishes the issuer at the host's own address;
the tenant's vacants publish it in any case. Clients that find the issuer at the host's address
request the scope call from the issuer, so define this scope at the issuer.

This machine fetches the issuer's keys before it adds the issuer. --private allows an issuer with a
private address in the host's network, such as 10.0.0.7. The URL must be https in any case.`,
		Example: `  vacancy issuer add https://login.example.com --tenant acme --require org_id=acme --cap 1 --most 50
  vacancy issuer add https://login.example.com --tenant acme --anybody --audience api://agents --cap 0.10 --most 5`,
		Op: kit.CallerFunc[op.Body[account.NewIssuer], billing.Issuer](func(ctx context.Context, c op.Client, in op.Body[account.NewIssuer]) (billing.Issuer, error) {
			list, err := account.ListIssuers.Call(ctx, c, op.None{})
			if err != nil {
				return billing.Issuer{}, err
			}
			// A known issuer may be changed while its keys cannot be fetched.
			isKnown := slices.ContainsFunc(list.Issuers, func(i billing.Issuer) bool {
				return i.URL == in.Body.Issuer && i.AllowPrivateAddress == in.Body.AllowPrivateAddress
			})
			if err := billing.CheckIssuerURL(in.Body.Issuer); err == nil && !isKnown {
				_, err := a.TokenChecker(nil).CountKeys(ctx, &billing.Issuer{URL: in.Body.Issuer, IssuerOptions: in.Body.IssuerOptions})
				switch {
				case problem.Is(err, problem.Malformed):
					return billing.Issuer{}, err
				case err != nil:
					return billing.Issuer{}, problem.WithPlace(problem.Unavailable, "the issuer was not added, because this machine cannot fetch its keys (--private allows a private address)", err)
				}
			}
			return account.AddIssuer.Call(ctx, c, in)
		}),
		AddFlags: func(fs *pflag.FlagSet) {
			fs.StringVar(&in.Tenant, "tenant", "", "the `TENANT` whose account pays")
			fs.StringArrayVar(&in.Audiences, "audience", nil, "a `TEXT` that aud may contain instead of the URL that is called")
			fs.StringArrayVar(&requiredClaims, "require", nil, "a `CLAIM=VALUE` that a token must have")
			fs.BoolVar(&in.AllowAll, "anybody", false, "accept the tokens of everybody")
			fs.StringSliceVar(&scopes, "scope", nil, "what tokens may do: `call`, read, agents")
			fs.StringVar(&in.SubjectClaim, "subject-claim", "", "the `CLAIM` that identifies a subject (default sub)")
			fs.BoolVar(&in.Publish, "listed", false, "publish the issuer at the host's own address")
			fs.BoolVar(&in.AllowPrivateAddress, "private", false, "the issuer may have a private address")
			fs.StringVar(&subjectCap, "cap", "", "the maximum `DOLLARS` of a subject in a UTC day")
			fs.StringVar(&totalCap, "most", "", "the maximum `DOLLARS` of all subjects in a UTC day")
		},
		Request: func(q kit.Request) (op.Body[account.NewIssuer], error) {
			in.Issuer = q.Args[0]
			var err error
			for _, flag := range []string{"tenant", "cap", "most"} {
				if !q.Changed(flag) {
					return op.NewBody(in), &problem.Error{Kind: problem.Usage, Field: "--" + flag, Want: "a value", Got: "none"}
				}
			}
			if in.SubjectDailyCap, err = kit.ParseSpendingLimit(q.Changed, "cap", subjectCap); err != nil {
				return op.NewBody(in), err
			}
			if in.TotalDailyCap, err = kit.ParseSpendingLimit(q.Changed, "most", totalCap); err != nil {
				return op.NewBody(in), err
			}
			for _, s := range scopes {
				in.Scopes = append(in.Scopes, billing.Scope(s))
			}
			for _, r := range requiredClaims {
				claim, value, ok := strings.Cut(r, "=")
				if !ok || in.RequiredClaims[claim] != "" {
					return op.NewBody(in), &problem.Error{Kind: problem.Usage, Field: "--require", Want: "CLAIM=VALUE, once for a claim", Got: fmt.Sprintf("%.80q", r)}
				}
				if in.RequiredClaims == nil {
					in.RequiredClaims = map[string]string{}
				}
				in.RequiredClaims[claim] = value
			}
			return op.NewBody(in), nil
		},
		Print: printIssuer,
	}.Command(a)
}

// byIDOrURL returns an operation that also accepts an issuer's URL, if only one tenant has this
// issuer.
func byIDOrURL(operation op.Op[account.IssuerRef, billing.Issuer]) kit.CallerFunc[account.IssuerRef, billing.Issuer] {
	return func(ctx context.Context, c op.Client, in account.IssuerRef) (billing.Issuer, error) {
		if !strings.Contains(in.ID, "://") {
			return operation.Call(ctx, c, in)
		}
		list, err := account.ListIssuers.Call(ctx, c, op.None{})
		if err != nil {
			return billing.Issuer{}, err
		}
		matches := slices.DeleteFunc(list.Issuers, func(i billing.Issuer) bool { return i.URL != in.ID })
		switch len(matches) {
		case 1:
			return operation.Call(ctx, c, account.IssuerRef{ID: matches[0].ID})
		case 0:
			return billing.Issuer{}, problem.New(problem.NotFound, "no tenant has the issuer %.200q, which must match exactly", in.ID)
		}
		return billing.Issuer{}, problem.New(problem.Usage, "%d tenants have the issuer %.200q: name it by its id", len(matches), in.ID)
	}
}

type tokenResult struct {
	Issuer  string `json:"issuer"`
	Tenant  string `json:"tenant"`
	Subject string `json:"subject"`
	Name    string `json:"name"`
	URL     string `json:"url"`
}

func (r tokenResult) Print(w io.Writer) {
	fmt.Fprintf(w, "the token is accepted at %s\n", kit.EscapeLine(r.URL))
	kit.PrintFields(w, "issuer", r.Issuer, "tenant", r.Tenant, "subject", r.Subject+" ("+r.Name+")")
}

func issuerCheckCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	cmd := &cobra.Command{
		Use:   "check [URL]",
		Short: "Check whether a token on standard input is accepted, and if not, why",
		Long: `Check whether a token on standard input is accepted in a request to URL, such as
https://host/v/NAME, or to the host's own address. This machine fetches the
issuer's keys. The token is neither stored nor sent.`,
		Example: "  vacancy issuer check https://vacancy.example.com/v/clerk < token.txt",
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := io.ReadAll(io.LimitReader(a.In, 64<<10))
			if err != nil {
				return err
			}
			token := strings.TrimPrefix(strings.TrimSpace(string(b)), "Bearer ")
			if token == "" {
				return &problem.Error{Kind: problem.Usage, Field: "standard input", Want: "a token", Got: "nothing"}
			}
			return a.WithAdmin(where, false, func(c *kit.AdminAPI) error {
				host, err := admin.GetHost.Call(cmd.Context(), c, admin.HostRequest{})
				if err != nil {
					return err
				}
				url := host.URL
				if len(args) > 0 {
					url = args[0]
				}
				list, err := account.ListIssuers.Call(cmd.Context(), c, op.None{})
				if err != nil {
					return err
				}
				resources, err := resource.RequestURLsAt(url)
				if err != nil {
					return err
				}
				subject, err := a.TokenChecker(list.Issuers).CheckForResources(cmd.Context(), token, resources)
				if err != nil {
					return err
				}
				return a.PrintResult(tokenResult{subject.Issuer.URL, subject.Issuer.Tenant, subject.ID, subject.Name, url})
			})
		},
	}
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}
