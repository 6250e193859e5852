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

// WithAccount runs f with a client for the account of tenant. If tenant is "", the key in
// $VACANCY_KEY selects the account.
func (a *App) WithAccount(ctx context.Context, where HostFlags, tenant string, f func(op.Client, account.Ref) error) error {
	if tenant != "" {
		return a.WithAdmin(where, false, func(c *AdminAPI) error {
			err := f(c, account.Ref{Account: tenant})
			if problem.Is(err, problem.NotFound) && strings.HasSuffix(problem.AsError(err).Text(), " has no account") {
				err = WithHint(err, "vacancy account open %s", ShellWord(tenant))
			}
			return err
		})
	}
	if a.Env[AccountKeyEnv] == "" {
		err := problem.New(problem.Usage, "expected TENANT, or a key of an account in $%s", AccountKeyEnv)
		if !where.IsLocal(a) {
			return WithHint(err, "%s=KEY %s", AccountKeyEnv, a.CommandLine())
		}
		return WithHint(err, "vacancy account list")
	}
	base, err := a.GatewayURL(ctx, where)
	if err != nil {
		return err
	}
	return a.WithAccountKey(base, func(c op.Client) error { return f(c, account.Ref{}) })
}

func (a *App) WithAccountKey(baseURL string, f func(op.Client) error) error {
	c, err := a.newAccountClient(baseURL, a.Env[AccountKeyEnv])
	if err != nil {
		return err
	}
	if err = f(c); problem.Is(err, problem.Unauthorized) {
		err = WithHint(err, "set $%s to a key of an account at %s; the operator creates keys with: vacancy keys create TENANT", AccountKeyEnv, EscapeLine(baseURL))
	}
	return err
}

// WithWorker runs f with a worker that runs turns on this machine, and with a client of the API
// that manages the host's vacants. Both act for the account of $VACANCY_KEY, or for the operator if
// the variable is not set.
func (a *App) WithWorker(ctx context.Context, where HostFlags, f func(work *workclient.Worker, vacants op.Client) error) error {
	if a.Env[AccountKeyEnv] == "" {
		return a.WithAdmin(where, false, func(c *AdminAPI) error {
			if c.InProcess {
				return a.NoHostError(where.Data)
			}
			return f(&workclient.Worker{Client: c, AsOperator: true}, c)
		})
	}
	agentURL, err := a.AgentURL(ctx, where)
	if err != nil {
		return err
	}
	host, err := a.FindRemoteHost(where)
	vacants := agentURL
	if err == nil && host != nil {
		vacants, err = host.RequireURL(host.Record.AdminURL)
	}
	if err != nil {
		return err
	}
	vacantsClient, err := a.newAccountClient(vacants, a.Env[AccountKeyEnv])
	if err != nil {
		return err
	}
	err = a.WithAccountKey(agentURL, func(c op.Client) error { return f(&workclient.Worker{Client: c}, vacantsClient) })
	if problem.Is(err, problem.ScopeRequired) {
		err = WithHint(err, "the operator makes a key with: vacancy keys create TENANT --scope vacants,work")
	}
	return err
}

func (a *App) newAccountClient(baseURL, key string) (op.Client, error) {
	u, err := url.Parse(baseURL)
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "%.200q is not a URL", baseURL)
	}
	if IsInsecureURL(u) {
		return nil, problem.New(problem.Usage, "the account's key would be sent to %s without encryption: use https", u.Host)
	}
	return admin.Client{HTTP: a.KeyedClient(stage.Key(key)), URL: baseURL}, nil
}

// AccountClientFor returns a client for the account of $VACANCY_KEY at the host of the vacant URL
// rawURL. The client is nil if the variable is not set or its key is for another host.
func (a *App) AccountClientFor(ctx context.Context, where HostFlags, rawURL string) (op.Client, error) {
	key, err := a.AccountKeyFor(ctx, where, rawURL)
	if err != nil || key == "" {
		return nil, err
	}
	baseURL := VacantHostURL(rawURL)
	if chosenHost, err := a.FindRemoteHost(where); err != nil {
		return nil, err
	} else if chosenHost != nil {
		if baseURL, err = a.GatewayURL(ctx, where); err != nil {
			return nil, err
		}
	}
	return a.newAccountClient(baseURL, key)
}

func VacantHostURL(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL
	}
	path, _, _ := strings.Cut(u.Path, "/v/")
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimSuffix(path, "/a2a/message/send")}).String()
}

// GatewayURL returns the URL at which a host serves accounts and AGP.
func (a *App) GatewayURL(ctx context.Context, where HostFlags) (string, error) {
	host, err := a.FindRemoteHost(where)
	if err != nil {
		return "", err
	}
	if host == nil {
		return a.LocalHostURL(ctx, where.Data)
	}
	return strings.TrimRight(cmp.Or(host.Record.GatewayURL, host.Record.URL), "/"), nil
}

// AgentURL returns the URL at which a host serves vacants, MCP and tasks.
func (a *App) AgentURL(ctx context.Context, where HostFlags) (string, error) {
	host, err := a.FindRemoteHost(where)
	if err != nil {
		return "", err
	}
	if host == nil {
		return a.LocalHostURL(ctx, where.Data)
	}
	return host.RequireURL(host.Record.URL)
}

// AccountKeyFor returns the key in $VACANCY_KEY if rawURL belongs to the host that the user chose,
// by default this machine. Otherwise it returns "", because another host could misuse the key.
func (a *App) AccountKeyFor(ctx context.Context, where HostFlags, rawURL string) (string, error) {
	key := a.Env[AccountKeyEnv]
	if key == "" {
		return "", nil
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return "", nil
	}
	chosenHost, err := a.FindRemoteHost(where)
	if err != nil {
		return "", err
	}
	if chosenHost == nil {
		if outbound.IsThisMachine(u.Hostname()) {
			return key, nil
		}
		a.PrintNote("the key in $%s is not sent to %s, because neither --host nor $VACANCY_HOST chooses that host", AccountKeyEnv, EscapeLine(u.Host))
		return "", nil
	}
	hostURL, err := url.Parse(chosenHost.Record.URL)
	if err != nil || hostURL.Host != u.Host || hostURL.Scheme != u.Scheme {
		a.PrintNote("the key in $%s is not sent to %s: it is for %s", AccountKeyEnv, EscapeLine(u.Host), EscapeLine(chosenHost.Record.URL))
		return "", nil
	}
	return key, nil
}

// ParseSpendingLimit parses a flag that limits spending. It returns 0 for no limit if the flag was
// not given, so it refuses a limit of 0 that the user typed.
func ParseSpendingLimit(isSet func(string) bool, flag, text string) (money.Amount, error) {
	if !isSet(flag) {
		return 0, nil
	}
	microDollars, err := ParseMicroDollars("--"+flag, text)
	if err == nil && microDollars == 0 {
		err = &problem.Error{Kind: problem.Usage, Field: "--" + flag, Want: "an amount above 0, or no flag for no limit", Got: text}
	}
	return money.Amount(microDollars), err
}
