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
	among, show int  // maximum numbers of vacants to fetch and to print
	send        bool // --call is given
}

func routeCommand(a *kit.App) *cobra.Command {
	var f routeFlags
	cmd := &cobra.Command{
		Use:   "route PROMPT...",
		Short: "Choose a vacant for a prompt, on this machine",
		Long: `Fetch vacants from a registry, compare PROMPT with their cards on this machine, and
show the best matches with the words that matched. The registry never sees PROMPT: it is
asked for its highest ranked vacants, at most --among, or for vacants that match --capability.

With --call the best match is called with PROMPT, as vacancy call --capability does.
A PROMPT of "-" is standard input.`,
		Example: `  vacancy route "please turn this letter into French: ..."
  vacancy route --capability legal - < contract.txt --call`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.among < 1 || f.among > 2000:
				return problem.New(problem.Usage, "--among: expected 1 to 2000, got %d", f.among)
			case f.show < 1:
				return problem.New(problem.Usage, "--show: expected at least 1, got %d", f.show)
			case f.timeout <= 0:
				return problem.New(problem.Usage, "--timeout: expected a duration above 0, got %s", f.timeout)
			}
			prompt, err := callText(a, args)
			if err != nil {
				return err
			}
			q, err := f.find.query(f.capability)
			if err != nil {
				return err
			}
			chosen, err := policy(f.policy)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
			defer cancel()
			if f.send {
				return routeAndCall(a, ctx, f, q, prompt)
			}
			client, err := finder(a, ctx, f.find, f.where, a.HTTP(0))
			if err != nil {
				return err
			}
			fits, compared, err := fits(a, ctx, client, q, f.among, prompt, chosen)
			if err != nil {
				return err
			}
			r := routeResult{Compared: compared, Choices: []fitResult{}}
			for i := range fits[:min(len(fits), f.show)] {
				fit := &fits[i]
				r.Choices = append(r.Choices, fitResult{newMatchResult(&fit.Match), fit.Fit, fit.Rating, fit.Words})
			}
			return a.Show(r)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.capability, "capability", "", "only among the vacants that the registry finds for this")
	fs.IntVar(&f.among, "among", 200, "how many vacants to fetch at most, 1 to 2000")
	fs.IntVar(&f.show, "show", 5, "how many to show")
	fs.BoolVar(&f.send, "call", false, "call the best of them")
	fs.StringVar(&f.as, "as", "", "with --call: the identity that signs (default $VACANCY_AS, else the only one)")
	fs.DurationVar(&f.timeout, "timeout", kit.CallTimeout, "how long to wait for everything")
	fs.StringVar(&f.policy, "policy", policyUCB, "how reputation counts: ucb (gives new vacants a chance) or score")
	f.find.add(fs)
	kit.HostFlags(fs, &f.where)
	return cmd
}

func routeAndCall(a *kit.App, ctx context.Context, f routeFlags, q discovery.Query, prompt string) error {
	client, self, err := registryClient(a, ctx, f.callFlags, q)
	if err != nil {
		return err
	}
	msg := envelope.Message{Role: envelope.RoleUser, Parts: []string{prompt}}
	out, err := client.CallChosen(ctx, msg, func() ([]discovery.Choice, error) {
		fits, compared, err := fits(a, ctx, client, q, f.among, prompt, client.Policy)
		var choices []discovery.Choice
		for _, fit := range fits {
			choices = append(choices, discovery.Choice{Match: fit.Match, Rating: fit.Rating})
		}
		if err == nil && len(choices) == 0 {
			err = kit.WithHint(problem.New(problem.NotFound, "none of %d cards shares a word with the prompt", compared), "vacancy route --capability WORDS, or --among %d", 2*f.among)
		}
		return choices, err
	})
	return showOutcome(a, self, out, false, err)
}

// fits fetches vacants and compares them with the prompt. It returns the vacants that share a word with
// the prompt, best first, and the number of vacants compared. The policy p rates vacants by reputation.
func fits(a *kit.App, ctx context.Context, client *discovery.Client, q discovery.Query, among int, prompt string, p discovery.Policy) ([]discovery.Fit, int, error) {
	var matches []discovery.Match
	for {
		q.Limit = min(among-len(matches), 100)
		found, err := client.Search(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		found.DropPartial()
		noteDropped(a, found.Dropped)
		matches = append(matches, found.Matches...)
		if found.Next == "" || found.Next == q.Cursor || len(matches) >= among || len(found.Matches) == 0 {
			return discovery.FitPrompt(prompt, p, matches), len(matches), nil
		}
		q.Cursor = found.Next
	}
}

type fitResult struct {
	matchResult
	Fit   float64  `json:"fit"`   // 0 to 1, match of the card with the prompt
	Value float64  `json:"value"` // rating by fit and reputation, by which the results are sorted
	Words []string `json:"words"` // words of the prompt that matched
}

// routeResult contains the matches for a prompt, best first.
type routeResult struct {
	Compared int         `json:"compared"`
	Choices  []fitResult `json:"choices"`
}

func (r routeResult) Print(w io.Writer) {
	if len(r.Choices) == 0 {
		fmt.Fprintf(w, "none of %d cards shares a word with the prompt\n", r.Compared)
	}
	for _, c := range r.Choices {
		fmt.Fprintln(w, c.line(c.Value))
		fmt.Fprintf(w, "      by: %s\n", kit.Printable(kit.Clip(strings.Join(c.Words, ", "), 100)))
	}
}
