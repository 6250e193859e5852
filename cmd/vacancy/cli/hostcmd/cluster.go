package hostcmd

import (
	"context"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
)

// reindexCluster reads all registrations into the index again. Searches
// continue over the existing entries.
func reindexCluster(a *kit.App, ctx context.Context, cluster string, feed live.Feed, r *reindexResult) (err error) {
	index, err := a.OpenCluster(ctx, cluster)
	if err != nil {
		return err
	}
	defer func() { _ = index.Close() }() // there is nothing to flush
	return fillIndex(a, ctx, index, feed, r)
}
