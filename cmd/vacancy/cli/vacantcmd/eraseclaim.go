package vacantcmd

import (
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func eraseClaimCommand(a *kit.App) *cobra.Command {
	var w kit.HostFlags
	var reviewer string
	cmd := &cobra.Command{
		Use:   "erase-claim TARGET POSITION",
		Short: "Erase the claim of a review",
		Long: `Erase the claim of the review at POSITION of a vacant's history. The host's operator may do this,
and with --as the reviewer. The review still counts. Its signature stays valid, because it covers
the hash of the claim.`,
		Example: `  vacancy erase-claim clerk 12
  vacancy erase-claim https://agents.example.org/v/clerk 12 --as alice`,
		RunE: func(cmd *cobra.Command, args []string) error {
			position, err := strconv.ParseUint(args[1], 10, 63)
			if err != nil || position == 0 {
				return problem.New(problem.Usage, "POSITION: expected the number of a review, for example 12, got %.40q", args[1])
			}
			if reviewer == "" {
				err = a.WithAdmin(w, false, func(c *kit.AdminAPI) error {
					_, err := admin.EraseClaim.Call(cmd.Context(), op.Client(c), admin.ReviewRef{VacantRef: admin.VacantRef{Vacant: args[0]}, Position: position})
					return err
				})
			} else {
				err = eraseAsReviewer(a, cmd, args[0], position, reviewer, w)
			}
			if err != nil {
				return err
			}
			return a.Print(map[string]any{"vacant": args[0], "position": position}, func(w io.Writer) {
				fmt.Fprintf(w, "the claim of review %d of %s is erased\n", position, kit.EscapeLine(args[0]))
			})
		},
	}
	cmd.Flags().StringVar(&reviewer, "as", "", "the identity that wrote the review (default: erase as the operator)")
	kit.AddHostFlags(cmd.Flags(), &w)
	return cmd
}

func eraseAsReviewer(a *kit.App, cmd *cobra.Command, vacant string, position uint64, reviewer string, where kit.HostFlags) error {
	ctx, transport := cmd.Context(), a.HTTPTransport(0)
	target, registry, err := a.FindTargetAndRegistry(ctx, transport, vacant, where)
	if err != nil {
		return err
	}
	self, err := a.ChooseExistingSigner(ctx, reviewer)
	if err != nil {
		return err
	}
	_, err = a.SendSigned(ctx, transport, self, http.MethodDelete, fmt.Sprintf("%s/v1/reputation_history/%s/%d/claim", registry.URL, target.ID, position))
	return err
}
