package cli

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/opensearch"
)

// The environment for an OpenSearch cluster that asks who comes. A password is
// no argument: those are for everybody on the machine to see.
const (
	clusterUser     = "VACANCY_OPENSEARCH_USER"
	clusterPassword = "VACANCY_OPENSEARCH_PASSWORD"
)

func clusterFlag(flags *pflag.FlagSet, cluster *string) {
	flags.StringVar(cluster, "opensearch", "", "keep the search index in an OpenSearch cluster: `URL/INDEX`, one index for each host")
}

// openCluster opens the index that a URL names with its path; without one it is
// the adapter's own name.
func (a *app) openCluster(ctx context.Context, cluster string) (*opensearch.Index, error) {
	cfg := opensearch.Config{URL: cluster, Username: a.env[clusterUser], Password: a.env[clusterPassword]}
	if at, err := url.Parse(cluster); err == nil && at.Path != "" {
		cfg.Name = strings.Trim(at.Path, "/")
		at.Path, at.RawPath = "", ""
		cfg.URL = at.String()
	}
	return opensearch.Open(ctx, cfg)
}

// reindexCluster reads all registrations into the index once more. Searches go
// on meanwhile, over what is there.
func (a *app) reindexCluster(ctx context.Context, cluster string, feed live.Feed, r *reindexResult) (err error) {
	index, err := a.openCluster(ctx, cluster)
	if err != nil {
		return err
	}
	defer func() { _ = index.Close() }() // it has nothing to write
	return a.rebuild(ctx, index, feed, r)
}
