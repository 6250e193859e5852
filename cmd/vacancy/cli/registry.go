package cli

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/account"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/host/registryclient"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// registryFlag adds --registry.
func registryFlag(fs *pflag.FlagSet, url *string) {
	fs.StringVar(url, "registry", "", "the registry: a URL (default that of --host, else $VACANCY_REGISTRY, $VACANT_REGISTRY_URL, else the host here)")
}

// registryURL says which registry is meant: --registry, the host that --host
// names, $VACANCY_REGISTRY, $VACANT_REGISTRY_URL (as tools of the reference
// have it), the host of $VACANCY_HOST, or the one that runs here.
func (a *app) registryURL(ctx context.Context, given string, w where) (string, error) {
	if given == "" && w.host == "" {
		given = a.env["VACANCY_REGISTRY"]
		if given == "" {
			given = a.env["VACANT_REGISTRY_URL"]
		}
	}
	if given != "" {
		return registryclient.CheckURL(given)
	}
	at, err := a.find(w)
	if err != nil {
		return "", err
	}
	if at != nil {
		return at.door(at.record.URL)
	}
	return a.localURL(ctx, w.data)
}

// localURL is where the host that runs over a data folder is reached.
func (a *app) localURL(ctx context.Context, data string) (string, error) {
	dir, err := a.dataDir(data)
	if err != nil {
		return "", err
	}
	client, base, err := serve.DialControl(dir)
	if errors.Is(err, serve.ErrNoHost) {
		return "", withHint(problem.New(problem.NotFound, "no host is running over %s, and no registry is named", dir), "vacancy dev, or --registry URL")
	}
	if err != nil {
		return "", err
	}
	host, err := (&account.Client{HTTP: client, URL: base}).Host(ctx, "")
	if err != nil {
		return "", err
	}
	return registryclient.CheckURL(host.URL)
}
