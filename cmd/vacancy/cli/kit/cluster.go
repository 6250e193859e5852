package kit

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/host/registry/search/opensearch"
)

// The credentials of an OpenSearch cluster are not arguments, because every user of the machine can
// see arguments.
const (
	clusterUserEnv     = "VACANCY_OPENSEARCH_USER"
	clusterPasswordEnv = "VACANCY_OPENSEARCH_PASSWORD"
)

func AddClusterFlag(flags *pflag.FlagSet, cluster *string) {
	flags.StringVar(cluster, "opensearch", "", "store the search index in an OpenSearch cluster: `URL/INDEX`; each host needs its own index")
}

func (a *App) OpenClusterIndex(ctx context.Context, clusterURL string) (*opensearch.Index, error) {
	cfg := opensearch.Config{URL: clusterURL, Username: a.Env[clusterUserEnv], Password: a.Env[clusterPasswordEnv]}
	// An empty path selects the default index of the adapter.
	if endpoint, err := url.Parse(clusterURL); err == nil && endpoint.Path != "" {
		cfg.Name = strings.Trim(endpoint.Path, "/")
		endpoint.Path, endpoint.RawPath = "", ""
		cfg.URL = endpoint.String()
	}
	return opensearch.Open(ctx, cfg)
}
