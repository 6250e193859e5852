package vacantcmd

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/problem"
)

func eraseClaimCommand(a *kit.App) *cobra.Command {
	return kit.Operation[admin.ReviewOf, admin.ReviewOf]{
		Use:   "erase-claim VACANT POSITION",
		Short: "Erase the claim of a review of a vacant",
		Long: `Erase the claim of the review at POSITION of a vacant's history. The review still counts, and its
signature covers the hash of the claim. Reviewers erase their own claims with "vacancy review".`,
		Example: "  vacancy erase-claim clerk 12",
		Op: kit.CallerFunc[admin.ReviewOf, admin.ReviewOf](func(ctx context.Context, c op.Client, in admin.ReviewOf) (admin.ReviewOf, error) {
			_, err := admin.EraseClaim.Call(ctx, c, in)
			return in, err
		}),
		Request: func(q kit.Asked) (admin.ReviewOf, error) {
			position, err := strconv.ParseUint(q.Args[1], 10, 63)
			if err != nil || position == 0 {
				return admin.ReviewOf{}, problem.New(problem.Usage, "POSITION: expected the number of a review, for example 12, got %.40q", q.Args[1])
			}
			return admin.ReviewOf{One: admin.One{Vacant: q.Args[0]}, Position: position}, nil
		},
		Object: func(in admin.ReviewOf) any { return map[string]any{"vacant": in.Vacant, "position": in.Position} },
		Print: func(w io.Writer, in admin.ReviewOf) {
			fmt.Fprintf(w, "the claim of review %d of %s is erased\n", in.Position, kit.Printable(in.Vacant))
		},
	}.Command(a)
}
