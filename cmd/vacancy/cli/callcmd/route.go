package callcmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
)

type routeFlags struct {
	callFlags
	maxCandidates, maxShown int // maximum numbers of vacants to fetch and to print
	callsBest               bool
}

func routeCommand(a *kit.App) *cobra.Command {
	var f routeFlags
	cmd := &cobra.Command{
		Use:   "route PROMPT...",
		Short: "Choose a vacant for a prompt, on this machine",
		Long: `Fetch vacants from a registry, compare PROMPT with their cards on this machine, and show the
best matches with the words that matched. The registry never sees PROMPT. It returns its
highest ranked vacants, at most --among, or the vacants that match --capability.

With --call the best match is called with PROMPT, as by "vacancy call --capability". If PROMPT
is "-", it is read from standard input.`,
		Example: `  vacancy route "please turn this letter into French: ..."
  vacancy route --capability legal - < contract.txt --call`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.maxCandidates < 1 || f.maxCandidates > 2000:
				return problem.New(problem.Usage, "--among: expected 1 to 2000, got %d", f.maxCandidates)
			case f.maxShown < 1:
				return problem.New(problem.Usage, "--show: expected at least 1, got %d", f.maxShown)
			case f.timeout <= 0:
				return problem.New(problem.Usage, "--timeout: expected a duration above 0, got %s", f.timeout)
			}
			prompt, err := callText(a, args)
			if err != nil {
				return err
			}
			q, err := f.search.buildQuery(f.capability)
			if err != nil {
				return err
			}
			ranking, err := parsePolicy(f.policy)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			if f.callsBest {
				return routeAndCall(a, ctx, f, q, prompt)
			}
			client, err := newSearchClient(a, ctx, f.search, f.where, a.HTTPTransport(0))
			if err != nil {
				return err
			}
			ranked, comparedCount, err := rankMatches(a, ctx, client, q, f.maxCandidates, prompt, ranking)
			if err != nil {
				return err
			}
			r := routeResult{ComparedCount: comparedCount, Choices: []routeChoice{}}
			for i := range ranked[:min(len(ranked), f.maxShown)] {
				match := &ranked[i]
				r.Choices = append(r.Choices, routeChoice{newMatchResult(&match.Match), match.Fit, match.Rating, match.SharedWords})
			}
			return a.PrintResult(r)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.capability, "capability", "", "choose only among the vacants that the registry finds for these words")
	fs.IntVar(&f.maxCandidates, "among", 200, "the maximum number of vacants to fetch, 1 to 2000")
	fs.IntVar(&f.maxShown, "show", 5, "the maximum number of matches to show")
	fs.BoolVar(&f.callsBest, "call", false, "call the best match")
	fs.StringVar(&f.identityName, "as", "", "with --call: the identity that signs (default $VACANCY_AS, else the only one)")
	fs.DurationVar(&f.timeout, "timeout", kit.CallTimeout, "the maximum time for the whole command")
	fs.StringVar(&f.policy, "policy", policyUCB, "how reputation counts: ucb (gives new vacants a chance) or score")
	f.search.register(fs)
	kit.AddHostFlags(fs, &f.where)
	return cmd
}

func routeAndCall(a *kit.App, ctx context.Context, f routeFlags, q discovery.Query, prompt string) error {
	client, self, err := newCapabilityClient(a, ctx, f.callFlags, q)
	if err != nil {
		return err
	}
	msg := envelope.Message{Role: envelope.RoleUser, Parts: []string{prompt}}
	outcome, err := client.CallChosen(ctx, msg, func() ([]discovery.Choice, error) {
		ranked, comparedCount, err := rankMatches(a, ctx, client, q, f.maxCandidates, prompt, client.Policy)
		var choices []discovery.Choice
		for _, match := range ranked {
			choices = append(choices, discovery.Choice{Match: match.Match, Rating: match.Rating})
		}
		if err == nil && len(choices) == 0 {
			err = kit.WithHint(problem.New(problem.NotFound, "none of %d cards shares a word with the prompt", comparedCount), "vacancy route --capability WORDS, or --among %d", 2*f.maxCandidates)
		}
		return choices, err
	})
	return showOutcome(a, self, outcome, false, err)
}

// rankMatches returns the vacants that share a word with the prompt, best first, and the number of
// vacants compared.
func rankMatches(a *kit.App, ctx context.Context, client *discovery.Client, q discovery.Query, maxCandidates int, prompt string, ranking discovery.Policy) ([]discovery.PromptMatch, int, error) {
	var matches []discovery.Match
	for {
		q.Limit = min(maxCandidates-len(matches), 100)
		page, err := client.Search(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		page.DropPartial()
		printDropped(a, page.DroppedMatches)
		matches = append(matches, page.Matches...)
		if page.Next == "" || page.Next == q.Cursor || len(matches) >= maxCandidates || len(page.Matches) == 0 {
			return discovery.RankByPrompt(prompt, ranking, matches), len(matches), nil
		}
		q.Cursor = page.Next
	}
}

type routeChoice struct {
	matchResult
	Fit    float64  `json:"fit"`   // 0 to 1, match of the card with the prompt
	Rating float64  `json:"value"` // rating by fit and reputation, by which the results are sorted
	Words  []string `json:"words"` // words of the prompt that matched
}

type routeResult struct {
	ComparedCount int           `json:"compared"`
	Choices       []routeChoice `json:"choices"`
}

func (r routeResult) Print(w io.Writer) {
	if len(r.Choices) == 0 {
		fmt.Fprintf(w, "none of %d cards shares a word with the prompt\n", r.ComparedCount)
	}
	for _, c := range r.Choices {
		fmt.Fprintln(w, c.formatLine(c.Rating))
		fmt.Fprintf(w, "      by: %s\n", kit.EscapeLine(kit.Truncate(strings.Join(c.Words, ", "), 100)))
	}
}
