package hostcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func logSealCommand(a *kit.App) *cobra.Command {
	var w kit.HostFlags
	cmd := &cobra.Command{
		Use:   "seal",
		Short: "Sign a checkpoint of your host's log now",
		Long: `Seal new publications and revocations now. Without this command, "vacancy dev" seals them every
minute, and a stage on AWS every five minutes. The host on this machine may be running or stopped. With
--host aws the command runs the stage's checkpointer with your AWS credentials.`,
		Example: "  vacancy log seal\n  vacancy log seal --host aws --stage prod",
		RunE: func(cmd *cobra.Command, _ []string) error {
			host, err := a.FindRemoteHost(w)
			if err != nil {
				return err
			}
			var sealed admin.Sealed
			if host != nil && host.AWS {
				sealed, err = sealStage(a, cmd.Context(), host)
			} else {
				err = a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
					sealed, err = admin.SealLog.Call(cmd.Context(), c, op.IgnoredBody{})
					return err
				})
				if problem.Is(err, problem.NotFound) && host != nil && host.Stage != "" {
					err = kit.WithHint(err, "vacancy log seal --host aws --stage %s", host.Stage)
				}
			}
			if err != nil {
				return err
			}
			return a.Print(sealed, func(w io.Writer) {
				fmt.Fprintf(w, "%s sealed, %d of them new\n", kit.Plural(sealed.Size, "event"), sealed.Added)
			})
		},
	}
	kit.AddHostFlags(cmd.Flags(), &w)
	return cmd
}

func sealStage(a *kit.App, ctx context.Context, host *kit.RemoteHost) (sealed admin.Sealed, err error) {
	// A stage without an edge has a separate URL for the registry's function.
	url, err := host.RequireURL(cmp.Or(host.Record.RegistryURL, host.Record.URL))
	if err != nil {
		return sealed, err
	}
	oldCheckpoint, err := fetchCheckpoint(a, ctx, url)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return sealed, err
	}
	_, c, err := a.OpenStage(ctx, host.Stage)
	if err != nil {
		return sealed, err
	}
	result, err := c.Invoke(ctx, stage.FullName(host.Stage, "checkpointer"), []byte("{}"))
	if err != nil {
		return sealed, err
	}
	if result.FunctionError != "" {
		return sealed, kit.WithHint(problem.New(problem.Unavailable, "the stage could not seal its log: %.300s", result.Payload), "vacancy tail --host aws --stage %s --function checkpointer --once", host.Stage)
	}
	newCheckpoint, err := fetchCheckpoint(a, ctx, url)
	if err != nil {
		return sealed, err
	}
	// A cache may return a checkpoint that is older than the first, so the minimum avoids an
	// underflow.
	return admin.Sealed{Host: newCheckpoint.Host, Size: newCheckpoint.Size, Root: newCheckpoint.Root, Added: newCheckpoint.Size - min(oldCheckpoint.Size, newCheckpoint.Size)}, nil
}

func fetchCheckpoint(a *kit.App, ctx context.Context, url string) (translog.Checkpoint, error) {
	note, err := newLogClient(a, url).Checkpoint(ctx)
	if err != nil {
		return translog.Checkpoint{}, err
	}
	c, _, err := translog.VerifyCheckpoint(note)
	return c, err
}
