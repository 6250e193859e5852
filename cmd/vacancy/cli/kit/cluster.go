package kit

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/host/registry/search/opensearch"
)

// Environment variables for the credentials of an OpenSearch cluster. The password is not an
// argument, because every user of the machine can see arguments.
const (
	clusterUser     = "VACANCY_OPENSEARCH_USER"
	clusterPassword = "VACANCY_OPENSEARCH_PASSWORD"
)

func ClusterFlag(flags *pflag.FlagSet, cluster *string) {
	flags.StringVar(cluster, "opensearch", "", "keep the search index in an OpenSearch cluster: `URL/INDEX`, one index for each host")
}

func (a *App) OpenCluster(ctx context.Context, cluster string) (*opensearch.Index, error) {
	cfg := opensearch.Config{URL: cluster, Username: a.Env[clusterUser], Password: a.Env[clusterPassword]}
	// The path names the index. If it is empty, the adapter uses its default.
	if endpoint, err := url.Parse(cluster); err == nil && endpoint.Path != "" {
		cfg.Name = strings.Trim(endpoint.Path, "/")
		endpoint.Path, endpoint.RawPath = "", ""
		cfg.URL = endpoint.String()
	}
	return opensearch.Open(ctx, cfg)
}
