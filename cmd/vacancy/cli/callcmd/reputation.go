package callcmd

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
)

func reputationCommand(a *kit.App) *cobra.Command {
	var where kit.HostFlags
	var recount bool
	cmd := &cobra.Command{
		Use:   "reputation TARGET",
		Short: "Show a vacant's reputation, or recount it from its reviews",
		Long: `Show the score of TARGET, as its host reports it, and the evidence behind the score.

The score is the mean of factual, logical and relevance × n/(n+10). n is the evidence: the sum
of the weights of all reviews, which fade with time. A score of 0 means that there are no
reviews, or only bad ones. Each model or agent that has answered for the vacant has its own
means. Only the model or agent that answers now determines the score.

--recount reads all reviews of the vacant from its host, verifies their signatures and their
chain, and adds up their weights. The exit code is 6 if the result is another score.`,
		Example: `  vacancy reputation clerk
  vacancy reputation https://agents.example.org/v/clerk --recount`,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, httpClient := cmd.Context(), a.HTTPTransport(0)
			target, host, err := a.FindTargetAndRegistry(ctx, httpClient, args[0], where)
			if err != nil {
				return err
			}
			r := reputationResult{Name: target.Name, Recounted: recount}
			if recount {
				r.Reputation, r.Erased, err = host.Recount(ctx, target.ID)
			} else {
				r.Reputation, err = host.Reputation(ctx, target.ID)
			}
			if err != nil {
				return err
			}
			return a.PrintResult(r)
		},
	}
	cmd.Flags().BoolVar(&recount, "recount", false, "verify all reviews, and recount the score from them")
	kit.AddHostFlags(cmd.Flags(), &where)
	return cmd
}

type reputationResult struct {
	Name string `json:"name,omitempty"`
	registryclient.Reputation
	Recounted bool `json:"recounted"`
	Erased    int  `json:"erased_claims,omitempty"`
}

func (r reputationResult) Print(w io.Writer) {
	fmt.Fprintf(w, "%s: score %.3f, evidence %.2f, %s\n", kit.EscapeLine(r.Name), r.Score, r.Evidence, kit.Plural(r.Rows, "review"))
	for _, substrate := range slices.Sorted(maps.Keys(r.States)) {
		state := r.States[substrate]
		fmt.Fprintf(w, "  %s%s: %s\n", kit.EscapeLine(substrate), kit.FormatIf(substrate == r.CurrentSubstrate, " (answers now)"), state.Text())
	}
	if r.Recounted {
		erased := kit.FormatIf(r.Erased > 0, "; the claims of %s are erased, and only their hashes remain", kit.Plural(r.Erased, "review"))
		fmt.Fprintf(w, "recounted: %s; each review is signed by its reviewer and linked to the previous review%s\n", kit.PaintVerdict(w, true, "the score follows from the reviews"), erased)
	}
}
