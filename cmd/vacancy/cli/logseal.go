package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func (a *app) logSealCommand() *cobra.Command {
	var w where
	cmd := &cobra.Command{
		Use:   "seal",
		Short: "Sign a checkpoint of your host's log now",
		Long: `Seal new publications and revocations now. Without this command "vacancy dev" seals every
minute and a stage on AWS every five. It works whether the host on this machine is
running or not. With --host aws it runs the stage's checkpointer with your AWS
credentials.`,
		Example: "  vacancy log seal\n  vacancy log seal --host aws --stage prod",
		Args:    arguments(0, 0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.seal(cmd.Context(), w)
			if err != nil {
				return err
			}
			return a.show(sealResult{s})
		},
	}
	hostFlags(cmd.Flags(), &w)
	return cmd
}

// seal seals the log of a host.
func (a *app) seal(ctx context.Context, w where) (s admin.Sealed, err error) {
	at, err := a.find(w)
	if err != nil {
		return s, err
	}
	if at != nil && at.aws {
		return a.sealStage(ctx, at)
	}
	err = a.withAdmin(w, false, func(c *adminAPI) error {
		s, err = admin.SealLog.Call(ctx, c, op.Unread{})
		return err
	})
	if problem.Is(err, problem.NotFound) && at != nil && at.stage != "" {
		err = withHint(err, "vacancy log seal --host aws --stage %s", at.stage)
	}
	return s, err
}

// sealStage runs the stage's checkpointer and reads the result.
func (a *app) sealStage(ctx context.Context, at *remoteHost) (s admin.Sealed, err error) {
	// Without an edge the registry's function has its own URL.
	url, err := at.urlOf(cmp.Or(at.record.RegistryURL, at.record.URL))
	if err != nil {
		return s, err
	}
	before, err := a.sealedAt(ctx, url)
	if err != nil && !problem.Is(err, problem.NotFound) {
		return s, err
	}
	_, c, err := a.openStage(ctx, at.stage)
	if err != nil {
		return s, err
	}
	answer, err := c.Invoke(ctx, stage.Whole(at.stage, "checkpointer"), []byte("{}"))
	if err != nil {
		return s, err
	}
	if answer.Error != "" {
		return s, withHint(problem.New(problem.Unavailable, "the stage could not seal its log: %.300s", answer.Payload), "vacancy tail --stage %s --function checkpointer --once", at.stage)
	}
	after, err := a.sealedAt(ctx, url)
	if err != nil {
		return s, err
	}
	// A cache may still return the previous checkpoint.
	return admin.Sealed{Host: after.Host, Size: after.Size, Root: after.Root, Added: after.Size - min(before.Size, after.Size)}, nil
}

// sealedAt is the newest checkpoint of the host at a URL, verified.
func (a *app) sealedAt(ctx context.Context, url string) (translog.Checkpoint, error) {
	note, err := a.logAt(url).Checkpoint(ctx)
	if err != nil {
		return translog.Checkpoint{}, err
	}
	c, _, err := translog.Open(note)
	return c, err
}

// sealResult is a sealed log.
type sealResult struct{ admin.Sealed }

func (r sealResult) text(w io.Writer) {
	fmt.Fprintf(w, "%s sealed, %d of them new\n", events(r.Size), r.Added)
}
