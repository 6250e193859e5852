package kit

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/registryapi"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/network/outbound"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func AddRegistryFlag(fs *pflag.FlagSet, url *string) {
	fs.StringVar(url, "registry", "", "the registry's URL (default: --host, $VACANCY_REGISTRY, $VACANT_REGISTRY_URL, $VACANCY_HOST or the local host, in this order)")
}

// RegistryURL returns the URL of the registry from --registry, --host, $VACANCY_REGISTRY,
// $VACANT_REGISTRY_URL or $VACANCY_HOST, in this order. The default is the local host.
func (a *App) RegistryURL(ctx context.Context, flag string, where HostFlags) (string, error) {
	if flag == "" && where.Host == "" {
		flag = cmp.Or(a.Env["VACANCY_REGISTRY"], a.Env["VACANT_REGISTRY_URL"])
	}
	if flag != "" {
		return registryclient.NormalizeURL(flag)
	}
	host, err := a.FindRemoteHost(where)
	if err != nil {
		return "", err
	}
	if host != nil {
		return host.RequireURL(cmp.Or(host.Record.RegistryURL, host.Record.URL))
	}
	url, err := a.LocalHostURL(ctx, where.Data)
	if hinted := new(HintedError); errors.As(err, &hinted) {
		return "", WithHint(err, "%s, or --registry URL", hinted.Hint)
	}
	if problem.Is(err, problem.NotFound) {
		err = WithHint(err, "--registry URL    # the registry of another host")
	}
	return url, err
}

// RegistryTransport returns the transport for requests to a registry. On a stage without an edge,
// searches have a separate URL.
func (a *App) RegistryTransport(registry string, transport registryclient.Transport) registryclient.Transport {
	records, err := a.StageRecords()
	if err != nil {
		return transport
	}
	rec, err := records.FindByURL(registry)
	if err != nil || rec.SearchURL == "" || rec.SearchURL == registry {
		return transport
	}
	return searchTransport{transport, registry, rec.SearchURL}
}

func (a *App) FindTargetAndRegistry(ctx context.Context, transport *dispatch.HTTP, ref string, where HostFlags) (dispatch.Target, *registryclient.Client, error) {
	t, err := a.FindTarget(ctx, transport, ref, where)
	if err != nil {
		return t, nil, err
	}
	baseURL, _, ok := strings.Cut(t.URL, "/v/")
	if !ok {
		return t, nil, problem.New(problem.Usage, "the endpoint of %s: expected a URL with /v/, for example https://agents.example.org/v/clerk, got %.200q", EscapeLine(t.Name), t.URL)
	}
	if records, err := a.StageRecords(); err == nil {
		if rec, err := records.FindByURL(baseURL); err == nil {
			baseURL = cmp.Or(rec.RegistryURL, baseURL)
		}
	}
	return t, &registryclient.Client{Transport: transport, URL: baseURL}, nil
}

type searchTransport struct {
	registryclient.Transport
	registryURL, searchURL string
}

func (s searchTransport) Do(ctx context.Context, r outbound.Request) (outbound.Reply, error) {
	if rest, ok := strings.CutPrefix(r.URL, s.registryURL); ok {
		if path, _, _ := strings.Cut(rest, "?"); registryapi.IsSearchPath(path) {
			r.URL = s.searchURL + rest
		}
	}
	return s.Transport.Do(ctx, r)
}

func (a *App) LocalHostURL(ctx context.Context, data string) (string, error) {
	c, err := a.DialAdmin(HostFlags{Host: HostLocal, Data: data})
	if errors.Is(err, serve.ErrNoHost) {
		return "", a.NoHostError(data)
	}
	if err != nil {
		return "", err
	}
	host, err := admin.GetHost.Call(ctx, c, admin.HostRequest{})
	if err != nil {
		return "", err
	}
	return registryclient.NormalizeURL(host.URL)
}
