package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
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

func (a *app) reindexCommand() *cobra.Command {
	var w where
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
		Args: arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			there, err := a.find(w)
			switch {
			case err != nil:
				return err
			case there == nil:
				return a.reindexFolder(cmd.Context(), w.data, cluster)
			case !there.aws:
				return problem.New(problem.Usage, "a host elsewhere makes its index again on its own machine")
			case cluster != "":
				return problem.New(problem.Usage, "--opensearch: the index of a stage is in its bucket")
			}
			return a.reindexStage(cmd.Context(), there.stage)
		},
	}
	hostFlags(cmd.Flags(), &w)
	clusterFlag(cmd.Flags(), &cluster)
	return cmd
}

// reindexResult is the result of reindex.
type reindexResult struct {
	Index         string `json:"index,omitempty"` // its directory or URL
	Stage         string `json:"stage,omitempty"`
	Registrations int    `json:"registrations,omitempty"`
	Listed        int    `json:"listed,omitempty"`
}

func (r reindexResult) text(w io.Writer) {
	if r.Stage != "" {
		fmt.Fprintf(w, "the index of stage %s is rebuilt\n", r.Stage)
		return
	}
	fmt.Fprintf(w, "%s is rebuilt: %d of %d registrations are listed\n", printable(r.Index), r.Listed, r.Registrations)
}

func (a *app) reindexFolder(ctx context.Context, flag, cluster string) (err error) {
	dir, err := a.dataDir(flag)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, standalone.DataFile)
	if !standalone.IsThere(path) {
		return withHint(problem.New(problem.NotFound, "there is no host in %s", dir), "vacancy dev")
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
		return a.show(reindexResult{Index: r.Index, Registrations: r.Registrations, Listed: r.Listed})
	}
	if !errors.Is(err, serve.ErrNoHost) {
		return err
	}
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	feed := registry.New(registry.Config{Store: a.seams.wrapStore(file), Now: a.now, Rand: a.rand})
	r := reindexResult{Index: filepath.Join(dir, standalone.SearchDir)}
	if cluster != "" {
		r.Index = cluster
		err = a.reindexCluster(ctx, cluster, feed, &r)
	} else {
		err = a.buildIndex(ctx, r.Index, feed, &r)
	}
	if err != nil {
		return err
	}
	return a.show(r)
}

// buildIndex builds an index in the directory path and prints its progress.
func (a *app) buildIndex(ctx context.Context, path string, feed live.Feed, r *reindexResult) error {
	line := a.progressLine()
	defer line.clear()
	err := standalone.BuildIndex(ctx, path, feed, a.now, a.progress(line, r))
	if err != nil {
		return err
	}
	return standalone.SwapIndex(path)
}

// rebuild reads all registrations into an index and prints its progress.
func (a *app) rebuild(ctx context.Context, index search.Index, feed live.Feed, r *reindexResult) error {
	line := a.progressLine()
	defer line.clear()
	return live.Rebuild(ctx, index, feed, a.now, a.progress(line, r))
}

// progress keeps and shows how far an index is.
func (a *app) progress(line *progressLine, r *reindexResult) func(live.Progress) {
	return func(p live.Progress) {
		r.Registrations, r.Listed = p.Read, p.Listed
		line.show("%d registrations read, %d of them listed", p.Read, p.Listed)
	}
}

// reindexEvent makes the indexer rebuild the index.
const reindexEvent = `{"reindex":true}`

func (a *app) reindexStage(ctx context.Context, name string) error {
	_, c, err := a.openStage(ctx, name)
	if err != nil {
		return err
	}
	if err := invokeStage(ctx, c, name, "indexer", reindexEvent); err != nil {
		return err
	}
	return a.show(reindexResult{Stage: name})
}

// invokeStage invokes a function of a stage and waits for its end.
func invokeStage(ctx context.Context, c cloud.Cloud, stageName, function, event string) error {
	whole := stage.Whole(stageName, function)
	answer, err := c.Invoke(ctx, whole, []byte(event))
	switch {
	case problem.Is(err, problem.NotFound):
		return withHint(problem.Wrap(problem.NotFound, err, "there is no function %s in Region %s", whole, c.Region()), "vacancy deploy --stage %s", stageName)
	case err != nil:
		return err
	case answer.Error != "":
		return withHint(problem.New(problem.Unavailable, "%s failed: %s", whole, printable(answer.Error)), "vacancy tail --function %s --stage %s", function, stageName)
	}
	return nil
}
