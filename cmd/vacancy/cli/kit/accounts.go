package kit

import (
	"cmp"
	"context"
	"net/url"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// AccountKeyEnv is the key of an account, for its tenant.
const AccountKeyEnv = "VACANCY_KEY"

// WithAccount runs f on the account of a tenant. Without a tenant, it is the account of $VACANCY_KEY.
func (a *App) WithAccount(ctx context.Context, w Where, tenant string, f func(op.Client, account.One) error) error {
	if tenant != "" {
		return a.WithAdmin(w, false, func(c *AdminAPI) error {
			return f(c, account.One{Account: tenant})
		})
	}
	key := a.Env[AccountKeyEnv]
	if key == "" {
		return WithHint(problem.New(problem.Usage, "expected TENANT, or a key of an account in $%s", AccountKeyEnv), "vacancy account list")
	}
	base, err := a.HostURL(ctx, w)
	if err != nil {
		return err
	}
	return f(admin.Client{HTTP: KeyedClient(stage.Key(key)), URL: base}, account.One{})
}

// HostURL is the URL of a host's accounts and AGP.
func (a *App) HostURL(ctx context.Context, w Where) (string, error) {
	at, err := a.Find(w)
	if err != nil {
		return "", err
	}
	if at == nil {
		return a.LocalURL(ctx, w.Data)
	}
	return strings.TrimRight(cmp.Or(at.Record.GatewayURL, at.Record.URL), "/"), nil
}

// AccountKeyFor is the key in the environment, if a URL is at the host that the person
// has named, or on this machine; "" otherwise: another host could use it.
func (a *App) AccountKeyFor(ctx context.Context, w Where, at string) (string, error) {
	key := a.Env[AccountKeyEnv]
	if key == "" {
		return "", nil
	}
	u, err := url.Parse(at)
	if err != nil {
		return "", nil
	}
	named, err := a.Find(w)
	if err != nil {
		return "", err
	}
	if named == nil {
		if outbound.IsThisMachine(u.Hostname()) {
			return key, nil
		}
		a.Note("the key in $%s is not sent to %s: it is for --host or $VACANCY_HOST", AccountKeyEnv, Printable(u.Host))
		return "", nil
	}
	base, err := url.Parse(named.Record.URL)
	if err != nil || base.Host != u.Host || base.Scheme != u.Scheme {
		return "", nil
	}
	return key, nil
}

// TenantArg is the only argument, or none.
func TenantArg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// CapFlag parses the dollars of --cap. An empty text is 0.
func CapFlag(text string) (money.Amount, error) {
	if text == "" {
		return 0, nil
	}
	n, err := MicroDollars("--cap", text)
	return money.Amount(n), err
}
