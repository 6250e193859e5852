package callcmd

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

type searchFlags struct {
	registryURL, tag, family, maxPrice string
	minReputation                      float64
}

func (f *searchFlags) register(fs *pflag.FlagSet) {
	kit.AddRegistryFlag(fs, &f.registryURL)
	fs.StringVar(&f.tag, "tag", "", "show only vacants whose listing has this tag")
	fs.StringVar(&f.family, "family", "", "show only vacants whose listing names this model family")
	fs.StringVar(&f.maxPrice, "max-price", "", "the maximum price of a call in dollars, for example 0.002")
	fs.Float64Var(&f.minReputation, "min-reputation", 0, "the minimum score by reviews, 0 to 1")
}

func (f *searchFlags) buildQuery(words string) (discovery.Query, error) {
	q := discovery.Query{Words: words, Tag: f.tag, Family: f.family, MinReputation: f.minReputation}
	if math.IsNaN(f.minReputation) || f.minReputation < 0 || f.minReputation > 1 {
		return q, problem.New(problem.Usage, "--min-reputation: expected 0 to 1, got %g", f.minReputation)
	}
	if f.maxPrice != "" {
		price, err := kit.ParseMicroDollars("--max-price", f.maxPrice)
		if err != nil {
			return q, err
		}
		q.MaxPrice = &price
	}
	return q, nil
}

// parseMaxPrice returns --max-price in micro-dollars, or nil if the flag is not given.
func (f *searchFlags) parseMaxPrice() (*int64, error) {
	if f.maxPrice == "" {
		return nil, nil
	}
	n, err := kit.ParseMicroDollars("--max-price", f.maxPrice)
	return &n, err
}

func newSearchClient(a *kit.App, ctx context.Context, f searchFlags, where kit.HostFlags, httpClient *dispatch.HTTP) (*discovery.Client, error) {
	url, err := a.RegistryURL(ctx, f.registryURL, where)
	if err != nil {
		return nil, err
	}
	return &discovery.Client{Registries: []*registryclient.Client{{Transport: a.RegistryTransport(url, httpClient), URL: url}}}, nil
}

func searchCommand(a *kit.App) *cobra.Command {
	var f searchFlags
	var where kit.HostFlags
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use:   "search [WORDS...]",
		Short: "Find vacants by what they can do",
		Long: `Ask a registry for vacants, best first. A vacant matches if its card, tags, skills or summary
contain all of WORDS, or other forms of these words. If WORDS is missing, all vacants match.
English words such as "a" and "to" need not match. If no vacant has all words, the command
shows vacants that have most of the words, with the words that they lack. A result is shown
only if its signed card verifies on this machine. Omitted results are listed with the reason
on standard error.

The registry is --registry. If it is not given, the registry is the host of --host,
$VACANCY_REGISTRY, $VACANT_REGISTRY_URL, or the host on this machine, in this order. The
registry sees the search, but no key of yours.`,
		Example: `  vacancy search translate legal
  vacancy search translate --tag french --max-price 0.002
  vacancy search "review code" --registry https://registry.example --json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			q, err := f.buildQuery(strings.Join(args, " "))
			if err != nil {
				return err
			}
			if limit < 1 || limit > 100 {
				return problem.New(problem.Usage, "--limit: expected 1 to 100, got %d", limit)
			}
			q.Limit, q.Cursor = limit, cursor
			httpClient := a.HTTPTransport(0)
			client, err := newSearchClient(a, cmd.Context(), f, where, httpClient)
			if err != nil {
				return err
			}
			page, err := client.Search(cmd.Context(), q)
			if err != nil {
				return err
			}
			printDropped(a, page.DroppedMatches)
			r := searchResult{Matches: []matchResult{}, DroppedMatches: page.DroppedMatches, Next: page.Next}
			for i := range page.Matches {
				r.Matches = append(r.Matches, newMatchResult(&page.Matches[i]))
			}
			return a.PrintResult(r)
		},
	}
	fs := cmd.Flags()
	f.register(fs)
	fs.IntVar(&limit, "limit", 20, "the maximum number of results, 1 to 100")
	fs.StringVar(&cursor, "cursor", "", "continue after an earlier page")
	kit.AddHostFlags(fs, &where)
	return cmd
}

func printDropped(a *kit.App, dropped []discovery.DroppedMatch) {
	const maxPrinted = 5
	for i, d := range dropped {
		if i == maxPrinted {
			a.PrintNote("and %d more were omitted", len(dropped)-maxPrinted)
			return
		}
		a.PrintNote("omitted %s: %s", d.ID.Short(), kit.EscapeLine(d.Reason))
	}
}

type matchResult struct {
	ID            identity.ID         `json:"vacant_id"`
	Name          string              `json:"name,omitempty"` // name on the registry's host; not signed
	Link          string              `json:"link"`           // argument for "vacancy call"
	URL           string              `json:"url"`
	Capability    string              `json:"capability"`
	State         lifecycle.State     `json:"state,omitempty"`
	Rank          float64             `json:"rank"`
	MissingWords  []string            `json:"missing_words,omitempty"` // set if no match has all words
	Score         float64             `json:"score"`
	Price         int64               `json:"price_micro_dollars"`
	Tags          []string            `json:"tags,omitempty"`
	Skills        []string            `json:"skills,omitempty"`
	Summary       string              `json:"summary,omitempty"`
	Family        string              `json:"family,omitempty"`
	Owner         string              `json:"owner,omitempty"`
	ListingSigned bool                `json:"listing_signed"` // the vacant has signed the fields from price to owner
	CardHash      identity.Hash       `json:"card_hash"`
	Freshness     discovery.Freshness `json:"card_since_last_call,omitempty"`
	Registry      string              `json:"registry"`
	Reputation    *reputation.State   `json:"reputation,omitempty"`
}

func newMatchResult(m *discovery.Match) matchResult {
	r := matchResult{
		ID: m.ID, Name: m.Name, Link: m.URL, URL: m.URL, Capability: m.Card.CapabilityText, State: m.State, Rank: m.Rank, MissingWords: m.MissingWords, Score: m.Score, Price: m.Price(),
		ListingSigned: m.ListingSigned, CardHash: m.CardHash, Freshness: m.Freshness, Registry: m.Registry, Reputation: m.Reputation,
	}
	// The link contains the name if the registry is on the vacant's own host.
	if host := m.Registry + "/v/"; m.Name != "" && strings.HasPrefix(m.URL, host+m.ID.String()) {
		r.Link = host + m.Name + "/"
	}
	if l := m.Listing; l != nil {
		r.Tags, r.Skills, r.Summary, r.Family, r.Owner = l.Tags, l.Skills, l.Summary, l.ModelFamily, l.Owner
	}
	return r
}

func (r matchResult) formatLine(rating float64) string {
	reviews := "no reviews"
	if r.Score > 0 {
		reviews = fmt.Sprintf("score %.3f", r.Score)
	}
	missing := kit.FormatIf(len(r.MissingWords) > 0, ", without %s", kit.EscapeLine(kit.Truncate(strings.Join(r.MissingWords, ", "), 100)))
	return fmt.Sprintf("%.2f  %s  %s, %s%s\n      %s\n      %s", rating, kit.JoinNonEmpty("  ", r.Name, r.ID.Short()), kit.FormatPrice(r.Price), reviews, missing, kit.EscapeLine(kit.Truncate(r.Capability, 100)), kit.EscapeLine(r.Link))
}

type searchResult struct {
	Matches        []matchResult            `json:"matches"`
	DroppedMatches []discovery.DroppedMatch `json:"dropped,omitempty"`
	Next           string                   `json:"next,omitempty"`
}

func (r searchResult) Print(w io.Writer) {
	if len(r.Matches) == 0 {
		fmt.Fprintln(w, "nothing found")
	}
	if len(r.Matches) > 0 && len(r.Matches[0].MissingWords) > 0 {
		fmt.Fprintln(w, "no vacant has all words; these have most of them:")
	}
	for _, m := range r.Matches {
		fmt.Fprintln(w, m.formatLine(m.Rank))
	}
	if r.Next != "" {
		fmt.Fprintf(w, "more: --cursor %s\n", kit.EscapeLine(r.Next))
	}
}
