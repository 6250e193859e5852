package hostcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/front/serve"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

func reindexCommand(a *kit.App) *cobra.Command {
	var w kit.Where
	var cluster string
	cmd := &cobra.Command{
		Use:   "reindex",
		Short: "Rebuild the search index from the registry",
		Long: `Rebuild the search index of a host from its registry. No data is lost. Only a damaged
index needs this: a host keeps its index up to date and rebuilds an index that it cannot
read.

The old index stays until the new one is complete: a host that is running rebuilds it
and answers searches from the old one meanwhile. With --host aws the stage's indexer rebuilds it, with your AWS credentials,
and searches use the old index meanwhile.`,
		Example: `  vacancy reindex
  vacancy reindex --data /srv/vacancy --json
  vacancy reindex --host aws --stage prod`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			remote, err := a.Find(w)
			switch {
			case err != nil:
				return err
			case remote == nil:
				return reindexFolder(a, cmd.Context(), w.Data, cluster)
			case !remote.AWS:
				return problem.New(problem.Usage, "a remote host rebuilds its index on its own machine")
			case cluster != "":
				return problem.New(problem.Usage, "--opensearch does not go with --host aws: a stage keeps its index in its bucket")
			}
			return reindexStage(a, cmd.Context(), remote.Stage)
		},
	}
	kit.HostFlags(cmd.Flags(), &w)
	kit.ClusterFlag(cmd.Flags(), &cluster)
	return cmd
}

type reindexResult struct {
	Index         string `json:"index,omitempty"` // its directory or URL
	Stage         string `json:"stage,omitempty"`
	Registrations int    `json:"registrations,omitempty"`
	Listed        int    `json:"listed,omitempty"`
}

func (r reindexResult) Print(w io.Writer) {
	if r.Stage != "" {
		fmt.Fprintf(w, "the index of stage %s is rebuilt\n", r.Stage)
		return
	}
	fmt.Fprintf(w, "%s is rebuilt: %d of %d registrations are listed\n", kit.Printable(r.Index), r.Listed, r.Registrations)
}

func reindexFolder(a *kit.App, ctx context.Context, flag, cluster string) (err error) {
	dir, err := a.DataDir(flag)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, standalone.DataFile)
	if !standalone.IsThere(path) {
		return a.NoHost(flag)
	}
	client, base, err := serve.DialAdmin(dir)
	if err == nil {
		if cluster != "" {
			return problem.New(problem.Conflict, "a host is running over %s: end it first to rebuild the index in %s", dir, cluster)
		}
		r, err := admin.Reindex.Call(ctx, admin.Client{HTTP: client, URL: base}, op.Unread{})
		if err != nil {
			return err
		}
		return a.Show(reindexResult{Index: r.Index, Registrations: r.Registrations, Listed: r.Listed})
	}
	if !errors.Is(err, serve.ErrNoHost) {
		return err
	}
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	feed := registry.New(registry.Config{Store: a.Seams.WrapStore(file), Now: a.Now, Rand: a.Rand})
	r := reindexResult{Index: filepath.Join(dir, standalone.SearchDir)}
	if cluster != "" {
		r.Index = cluster
		err = reindexCluster(a, ctx, cluster, feed, &r)
	} else {
		err = buildFolderIndex(a, ctx, r.Index, feed, &r)
	}
	if err != nil {
		return err
	}
	return a.Show(r)
}

// buildFolderIndex builds an index in the directory path and prints its progress.
func buildFolderIndex(a *kit.App, ctx context.Context, path string, feed live.Feed, r *reindexResult) error {
	line := a.ProgressLine()
	defer line.Clear()
	err := standalone.BuildIndex(ctx, path, feed, a.Now, progress(a, line, r))
	if err != nil {
		return err
	}
	return standalone.SwapIndex(path)
}

// fillIndex reads all registrations into an index and prints its progress.
func fillIndex(a *kit.App, ctx context.Context, index search.Index, feed live.Feed, r *reindexResult) error {
	line := a.ProgressLine()
	defer line.Clear()
	return live.Rebuild(ctx, index, feed, a.Now, progress(a, line, r))
}

// progress keeps and shows how far an index is.
func progress(a *kit.App, line *kit.ProgressLine, r *reindexResult) func(live.Progress) {
	return func(p live.Progress) {
		r.Registrations, r.Listed = p.Read, p.Listed
		line.Show("%d registrations read, %d of them listed", p.Read, p.Listed)
	}
}

// reindexEvent makes the indexer rebuild the index.
const reindexEvent = `{"reindex":true}`

func reindexStage(a *kit.App, ctx context.Context, name string) error {
	_, c, err := a.OpenStage(ctx, name)
	if err != nil {
		return err
	}
	if _, err := kit.InvokeStage(ctx, c, name, "indexer", reindexEvent); err != nil {
		return err
	}
	return a.Show(reindexResult{Stage: name})
}
