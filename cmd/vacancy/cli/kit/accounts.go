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
	"github.com/vacancy-host/vacancy/shared/front/snippet"
	"github.com/vacancy-host/vacancy/shared/front/workclient"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// AccountKeyEnv names the environment variable with the key of an account.
const AccountKeyEnv = snippet.KeyEnv

// WithAccount runs f with a client for the account of tenant. If tenant is "", the client is for the
// account of the key in $VACANCY_KEY.
func (a *App) WithAccount(ctx context.Context, w Where, tenant string, f func(op.Client, account.One) error) error {
	if tenant != "" {
		return a.WithAdmin(w, false, func(c *AdminAPI) error {
			err := f(c, account.One{Account: tenant})
			if problem.Is(err, problem.NotFound) && strings.HasSuffix(problem.AsError(err).Text(), " has no account") {
				err = WithHint(err, "vacancy account open %s", ShellWord(tenant))
			}
			return err
		})
	}
	if a.Env[AccountKeyEnv] == "" {
		err := problem.New(problem.Usage, "expected TENANT, or a key of an account in $%s", AccountKeyEnv)
		if !w.IsLocal(a) {
			return WithHint(err, "%s=KEY %s", AccountKeyEnv, a.CommandLine())
		}
		return WithHint(err, "vacancy account list")
	}
	base, err := a.HostURL(ctx, w)
	if err != nil {
		return err
	}
	return a.WithKey(base, func(c op.Client) error { return f(c, account.One{}) })
}

func (a *App) WithKey(base string, f func(op.Client) error) error {
	c, err := a.accountClient(base, a.Env[AccountKeyEnv])
	if err != nil {
		return err
	}
	if err = f(c); problem.Is(err, problem.Unauthorized) {
		err = WithHint(err, "set $%s to a key of an account of %s; the operator makes one with: vacancy keys create TENANT", AccountKeyEnv, Printable(base))
	}
	return err
}

// WithWork runs f with a worker that runs turns of a host's vacants on this machine, and with a client of the API that
// manages these vacants. Both act for the account of $VACANCY_KEY, or for the operator if the variable is not set.
func (a *App) WithWork(ctx context.Context, w Where, f func(work *workclient.Worker, vacants op.Client) error) error {
	if a.Env[AccountKeyEnv] == "" {
		return a.WithAdmin(w, false, func(c *AdminAPI) error {
			if c.InProcess {
				return a.NoHost(w.Data)
			}
			return f(&workclient.Worker{Client: c, Operator: true}, c)
		})
	}
	base, err := a.AgentURL(ctx, w)
	if err != nil {
		return err
	}
	host, err := a.Find(w)
	vacants := base
	if err == nil && host != nil {
		vacants, err = host.URLOf(host.Record.AdminURL)
	}
	if err != nil {
		return err
	}
	manages, err := a.accountClient(vacants, a.Env[AccountKeyEnv])
	if err != nil {
		return err
	}
	err = a.WithKey(base, func(c op.Client) error { return f(&workclient.Worker{Client: c}, manages) })
	if problem.Is(err, problem.Scope) {
		err = WithHint(err, "the operator makes a key with: vacancy keys create TENANT --scope vacants,work")
	}
	return err
}

func (a *App) accountClient(base, key string) (op.Client, error) {
	u, err := url.Parse(base)
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "%.200q is not a URL", base)
	}
	if IsUnencrypted(u) {
		return nil, problem.New(problem.Usage, "the account's key would be sent to %s without encryption: use https", u.Host)
	}
	return admin.Client{HTTP: a.KeyedClient(stage.Key(key)), URL: base}, nil
}

// AccountAt returns a client for the account of $VACANCY_KEY at the host to which the vacant URL
// rawURL belongs. The client is nil if the variable is not set or its key is for another host.
func (a *App) AccountAt(ctx context.Context, w Where, rawURL string) (op.Client, error) {
	key, err := a.AccountKeyFor(ctx, w, rawURL)
	if err != nil || key == "" {
		return nil, err
	}
	base := HostOf(rawURL)
	if named, err := a.Find(w); err != nil {
		return nil, err
	} else if named != nil { // the accounts may have a separate URL
		if base, err = a.HostURL(ctx, w); err != nil {
			return nil, err
		}
	}
	return a.accountClient(base, key)
}

func HostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL
	}
	path, _, _ := strings.Cut(u.Path, "/v/")
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(path, "/a2a/message/send")}).String()
}

// HostURL returns the URL at which a host serves accounts and AGP.
func (a *App) HostURL(ctx context.Context, w Where) (string, error) {
	host, err := a.Find(w)
	if err != nil {
		return "", err
	}
	if host == nil {
		return a.LocalURL(ctx, w.Data)
	}
	return strings.TrimRight(cmp.Or(host.Record.GatewayURL, host.Record.URL), "/"), nil
}

// AgentURL returns the URL at which a host serves vacants, MCP and tasks.
func (a *App) AgentURL(ctx context.Context, w Where) (string, error) {
	host, err := a.Find(w)
	if err != nil {
		return "", err
	}
	if host == nil {
		return a.LocalURL(ctx, w.Data)
	}
	return host.URLOf(host.Record.URL)
}

// AccountKeyFor returns the key in $VACANCY_KEY if rawURL belongs to the host that the user chose or,
// if the user chose none, to this machine. Otherwise it returns "", because another host could misuse the key.
func (a *App) AccountKeyFor(ctx context.Context, w Where, rawURL string) (string, error) {
	key := a.Env[AccountKeyEnv]
	if key == "" {
		return "", nil
	}
	u, err := url.Parse(rawURL)
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
		a.Note("the key in $%s is not sent to %s: it is for %s", AccountKeyEnv, Printable(u.Host), Printable(named.Record.URL))
		return "", nil
	}
	return key, nil
}

// BoundFlag parses a flag that limits spending. It returns 0 if the flag was not given, and refuses
// a limit of 0, because 0 means that there is no limit.
func BoundFlag(changed func(string) bool, flag, text string) (money.Amount, error) {
	if !changed(flag) {
		return 0, nil
	}
	n, err := MicroDollars("--"+flag, text)
	if err == nil && n == 0 {
		err = &problem.Error{Kind: problem.Usage, Field: "--" + flag, Want: "an amount above 0, or no flag for no limit", Got: text}
	}
	return money.Amount(n), err
}
