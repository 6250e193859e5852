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

func RegistryFlag(fs *pflag.FlagSet, url *string) {
	fs.StringVar(url, "registry", "", "the registry's URL (default: the host of --host, else $VACANCY_REGISTRY, $VACANT_REGISTRY_URL, else the host here)")
}

// RegistryURL returns the URL of the registry: --registry, the host of --host, $VACANCY_REGISTRY,
// $VACANT_REGISTRY_URL (a variable of the reference's tools), the host of $VACANCY_HOST, or the
// local host, in this order.
func (a *App) RegistryURL(ctx context.Context, given string, w Where) (string, error) {
	if given == "" && w.Host == "" {
		given = cmp.Or(a.Env["VACANCY_REGISTRY"], a.Env["VACANT_REGISTRY_URL"])
	}
	if given != "" {
		return registryclient.CheckURL(given)
	}
	host, err := a.Find(w)
	if err != nil {
		return "", err
	}
	if host != nil {
		return host.URLOf(cmp.Or(host.Record.RegistryURL, host.Record.URL))
	}
	url, err := a.LocalURL(ctx, w.Data)
	if stopped := new(Hinted); errors.As(err, &stopped) {
		return "", WithHint(err, "%s, or --registry URL", stopped.Hint)
	}
	if problem.Is(err, problem.NotFound) {
		err = WithHint(err, "--registry URL    # the registry of another host")
	}
	return url, err
}

// WithSearchURL returns the transport for requests to a registry. If the registry belongs to a
// stage without an edge, the transport sends searches to the search URL in the stage's record.
func (a *App) WithSearchURL(registry string, web registryclient.Transport) registryclient.Transport {
	records, err := a.Stages()
	if err != nil {
		return web
	}
	rec, err := records.ByURL(registry)
	if err != nil || rec.SearchURL == "" || rec.SearchURL == registry {
		return web
	}
	return searchTransport{web, registry, rec.SearchURL}
}

// TargetAndRegistry returns the target of a name or an address, and a client of the registry on the
// target's host. A stage without an edge has a separate URL for the registry, which the stage's
// record contains.
func (a *App) TargetAndRegistry(ctx context.Context, web *dispatch.HTTP, ref string, w Where) (dispatch.Target, *registryclient.Client, error) {
	t, err := a.Target(ctx, web, ref, w)
	if err != nil {
		return t, nil, err
	}
	base, _, ok := strings.Cut(t.URL, "/v/")
	if !ok {
		return t, nil, problem.New(problem.Usage, "the endpoint of %s: expected a URL with /v/, for example https://agents.example.org/v/clerk, got %.200q", Printable(t.Name), t.URL)
	}
	if records, err := a.Stages(); err == nil {
		if rec, err := records.ByURL(base); err == nil {
			base = cmp.Or(rec.RegistryURL, base)
		}
	}
	return t, &registryclient.Client{Transport: web, URL: base}, nil
}

// searchTransport is a transport that sends searches to another URL.
type searchTransport struct {
	registryclient.Transport
	registry, search string
}

func (s searchTransport) Do(ctx context.Context, r outbound.Request) (outbound.Reply, error) {
	if rest, ok := strings.CutPrefix(r.URL, s.registry); ok {
		if path, _, _ := strings.Cut(rest, "?"); registryapi.IsSearchPath(path) {
			r.URL = s.search + rest
		}
	}
	return s.Transport.Do(ctx, r)
}

func (a *App) LocalURL(ctx context.Context, data string) (string, error) {
	c, err := a.RunningAdmin(Where{Host: HostLocal, Data: data})
	if errors.Is(err, serve.ErrNoHost) {
		return "", a.NoHost(data)
	}
	if err != nil {
		return "", err
	}
	host, err := admin.GetHost.Call(ctx, c, admin.Challenged{})
	if err != nil {
		return "", err
	}
	return registryclient.CheckURL(host.URL)
}
