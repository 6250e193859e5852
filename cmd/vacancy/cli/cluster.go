package cli

import (
	"context"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/opensearch"
)

// Environment variables for the credentials of an OpenSearch cluster. A
// password is not an argument, because arguments are visible to every user of
// the machine.
const (
	clusterUser     = "VACANCY_OPENSEARCH_USER"
	clusterPassword = "VACANCY_OPENSEARCH_PASSWORD"
)

func clusterFlag(flags *pflag.FlagSet, cluster *string) {
	flags.StringVar(cluster, "opensearch", "", "keep the search index in an OpenSearch cluster: `URL/INDEX`, one index for each host")
}

// openCluster opens the index that a URL names with its path; without a path,
// the adapter's default.
func (a *app) openCluster(ctx context.Context, cluster string) (*opensearch.Index, error) {
	cfg := opensearch.Config{URL: cluster, Username: a.env[clusterUser], Password: a.env[clusterPassword]}
	if at, err := url.Parse(cluster); err == nil && at.Path != "" {
		cfg.Name = strings.Trim(at.Path, "/")
		at.Path, at.RawPath = "", ""
		cfg.URL = at.String()
	}
	return opensearch.Open(ctx, cfg)
}

// reindexCluster reads all registrations into the index again. Searches
// continue over the existing entries.
func (a *app) reindexCluster(ctx context.Context, cluster string, feed live.Feed, r *reindexResult) (err error) {
	index, err := a.openCluster(ctx, cluster)
	if err != nil {
		return err
	}
	defer func() { _ = index.Close() }() // there is nothing to flush
	return a.rebuild(ctx, index, feed, r)
}
