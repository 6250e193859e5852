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
		Long: `Show the score of TARGET, as its host reports it, and the evidence that the score is made of.

The score is the mean of factual, logical and relevance × n/(n+10), where n is the evidence: the
weights of all reviews, which fade with time. So 0 means that there are no reviews, or bad ones.
Each model or agent that has answered for the vacant has means of its own. Only the one that
answers now makes the score.

--recount reads all reviews of the vacant from its host, verifies their signatures and their
chain, and adds up their weights. It exits with 6 if the result is another score.`,
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
		erased := kit.FormatIf(r.Erased > 0, "; the claims of %d are erased, so only their hashes are signed", r.Erased)
		fmt.Fprintf(w, "recounted: %s, each signed by its reviewer and linked to the one before%s\n", kit.PaintVerdict(w, true, "the score follows from the reviews"), erased)
	}
}
