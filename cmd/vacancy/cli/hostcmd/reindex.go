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
	"github.com/vacancy-host/vacancy/shared/host/registry/search/live"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

func reindexCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var clusterURL string
	cmd := &cobra.Command{
		Use:   "reindex",
		Short: "Rebuild the search index from the registry",
		Long: `Rebuild the search index of a host from its registry. No data is lost. Only a damaged
index needs this command, because a host keeps its index up to date and rebuilds an index that it
cannot read.

Searches use the old index until the new index is complete. If the host is running, it rebuilds the
index itself. With --host aws the stage's indexer rebuilds the index, with your AWS credentials.`,
		Example: `  vacancy reindex
  vacancy reindex --data /srv/vacancy --json
  vacancy reindex --host aws --stage prod`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			remote, err := a.FindRemoteHost(where)
			switch {
			case err != nil:
				return err
			case remote == nil:
				return reindexDataDir(a, cmd.Context(), where.Data, clusterURL)
			case !remote.AWS:
				return problem.New(problem.Usage, "a remote host rebuilds its index on its own machine")
			case clusterURL != "":
				return problem.New(problem.Usage, "--opensearch: not supported together with --host aws, because a stage stores its index in its bucket")
			}
			_, c, err := a.OpenStage(cmd.Context(), remote.Stage)
			if err != nil {
				return err
			}
			if _, err := kit.InvokeFunction(cmd.Context(), c, remote.Stage, "indexer", `{"reindex":true}`); err != nil {
				return err
			}
			return a.PrintResult(reindexResult{Stage: remote.Stage})
		},
	}
	kit.AddHostFlags(cmd.Flags(), &where)
	kit.AddClusterFlag(cmd.Flags(), &clusterURL)
	return cmd
}

type reindexResult struct {
	Index         string `json:"index,omitempty"` // directory or URL of the index
	Stage         string `json:"stage,omitempty"`
	Registrations int    `json:"registrations,omitempty"`
	Listed        int    `json:"listed,omitempty"`
}

func (r reindexResult) Print(w io.Writer) {
	if r.Stage != "" {
		fmt.Fprintf(w, "the index of stage %s is rebuilt\n", r.Stage)
		return
	}
	fmt.Fprintf(w, "%s is rebuilt: %d of %d registrations are listed\n", kit.EscapeLine(r.Index), r.Listed, r.Registrations)
}

func reindexDataDir(a *kit.App, ctx context.Context, dataFlag, clusterURL string) (err error) {
	dir, err := a.DataDir(dataFlag)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, standalone.DataFile)
	if !standalone.FileExists(path) {
		return a.NoHostError(dataFlag)
	}
	client, base, err := serve.DialAdmin(dir)
	if err == nil {
		if clusterURL != "" {
			return problem.New(problem.Conflict, "a host is running in %s; stop it first to rebuild the index in %s", dir, clusterURL)
		}
		r, err := admin.Reindex.Call(ctx, admin.Client{HTTP: client, URL: base}, op.IgnoredBody{})
		if err != nil {
			return err
		}
		return a.PrintResult(reindexResult{Index: r.Index, Registrations: r.Registrations, Listed: r.Listed})
	}
	if !errors.Is(err, serve.ErrNoHost) {
		return err
	}
	file, err := bolt.Open(path, bolt.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	registrations := registry.New(registry.Config{Store: a.Seams.WrapStore(file), Now: a.Now, Rand: a.Rand})
	r := reindexResult{Index: filepath.Join(dir, standalone.SearchDir)}
	progressLine := a.ProgressLine()
	showProgress := func(p live.Progress) {
		r.Registrations, r.Listed = p.Registrations, p.Listed
		progressLine.Show("%d registrations read, %d of them listed", p.Registrations, p.Listed)
	}
	if clusterURL == "" {
		if err = standalone.BuildIndex(ctx, r.Index, registrations, a.Now, showProgress); err == nil {
			err = standalone.SwapIndex(r.Index)
		}
	} else {
		r.Index = clusterURL
		index, openErr := a.OpenClusterIndex(ctx, clusterURL)
		if openErr != nil {
			return openErr
		}
		defer func() { _ = index.Close() }() // all writes are flushed already
		err = live.Rebuild(ctx, index, registrations, a.Now, showProgress)
	}
	progressLine.Clear()
	if err != nil {
		return err
	}
	return a.PrintResult(r)
}
