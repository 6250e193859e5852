package callcmd

import (
	"context"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

const (
	policyUCB   = "ucb"
	policyScore = "score"
)

func parsePolicy(name string) (discovery.Policy, error) {
	switch name {
	case policyUCB:
		return discovery.ByUCB, nil
	case policyScore:
		return discovery.ByScore, nil
	}
	return nil, problem.New(problem.Usage, "--policy: expected %s or %s, got %.40q", policyUCB, policyScore, name)
}

func callCapability(a *kit.App, ctx context.Context, f callFlags, words []string, hasThread bool) error {
	if f.ask || f.reset || f.print || f.replyPath != "" {
		return kit.WithHint(problem.New(problem.Usage, "--ask, --reset, --print and --accept: not supported together with --capability, because they need one TARGET"), "vacancy call URL --ask")
	}
	if err := f.check(true); err != nil {
		return err
	}
	q, err := f.search.buildQuery(f.capability)
	if err != nil {
		return err
	}
	if f.thread == lastThread || len(f.agent.filePaths) > 0 {
		return problem.New(problem.Usage, "--context - and --file: expected one TARGET, got --capability")
	}
	msg, _, err := callMessage(a, f, words, hasThread, false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	client, self, err := newCapabilityClient(a, ctx, f, q)
	if err != nil {
		return err
	}
	var outcome discovery.Outcome
	err = a.RunWithProgress(func() string { return kit.WaitingText("a match", f.timeout) }, func() (err error) {
		outcome, err = client.CallCapability(ctx, q, msg)
		return err
	})
	printDropped(a, outcome.Search.DroppedMatches)
	if outcome.Chosen.URL == "" && problem.Is(err, problem.NotFound) {
		return addSearchHint(err)
	}
	return showOutcome(a, self, outcome, f.explain, err)
}

func addSearchHint(err error) error {
	return kit.WithHint(err, "vacancy search WORDS    # use other words, or no words to list all vacants")
}

func newCapabilityClient(a *kit.App, ctx context.Context, f callFlags, q discovery.Query) (*discovery.Client, kit.Signer, error) {
	ranking, err := parsePolicy(f.policy)
	if err != nil {
		return nil, kit.Signer{}, err
	}
	httpClient := a.HTTPTransport(f.timeout)
	client, err := newSearchClient(a, ctx, f.search, f.where, httpClient)
	if err != nil {
		return nil, kit.Signer{}, err
	}
	// Find a match first. A call without a target must not create an identity.
	if h, err := a.IdentityDir(); err != nil {
		return nil, kit.Signer{}, err
	} else if names, _ := h.Names(); len(names) == 0 {
		q.Limit = 1
		page, err := client.Search(ctx, q)
		if err == nil && len(page.Matches)+len(page.DroppedMatches) == 0 {
			err = addSearchHint(problem.New(problem.NotFound, "no vacant was found for %.80q", q.Words))
		}
		if err != nil {
			return nil, kit.Signer{}, err
		}
	}
	self, err := a.ChooseSigner(ctx, f.identityName)
	if err != nil {
		return nil, kit.Signer{}, err
	}
	client.Caller, client.Policy = a.NewDispatcher(self, httpClient, f.timeout), ranking
	client.Caller.Check = newPayerCheck(a, f, self, httpClient)
	client.Route = discovery.PersonalRoute(f.timeout, a.Roots())
	return client, self, nil
}

type failedCallResult struct {
	ID     identity.ID `json:"vacant_id"`
	URL    string      `json:"url"`
	Code   string      `json:"code"`
	Detail string      `json:"detail"`
}

type candidateResult struct {
	ID     identity.ID `json:"vacant_id"`
	Rating float64     `json:"rating"`
	discovery.Reasons
}

func showOutcome(a *kit.App, self kit.Signer, outcome discovery.Outcome, explain bool, err error) error {
	result := NewCallResult(self, dispatch.Target{ID: outcome.Chosen.ID, URL: outcome.Chosen.URL}, outcome.Result)
	result.DroppedMatches = outcome.Search.DroppedMatches
	names := kit.Names{}
	for i := range outcome.Search.Matches {
		names[outcome.Search.Matches[i].ID] = outcome.Search.Matches[i].Name
	}
	if explain {
		for i := range outcome.Choices {
			c := candidateResult{outcome.Choices[i].ID, outcome.Choices[i].Rating, discovery.ExplainRating(&outcome.Choices[i].Match, len(outcome.Choices))}
			result.Candidates = append(result.Candidates, c)
			a.PrintNote("candidate %s: relevance %.2f, score %.3f, evidence %.2f, exploration %.2f, rating %.2f", names.NameOrID(c.ID), c.Relevance, c.Score, c.Evidence, c.Exploration, c.Rating)
		}
	}
	for _, t := range outcome.FailedCalls {
		p := problem.AsError(t.Err)
		result.FailedCalls = append(result.FailedCalls, failedCallResult{t.ID, t.URL, p.Kind.String(), p.Text()})
		a.PrintNote("tried %s at %s: %s", names.NameOrID(t.ID), kit.EscapeLine(kit.VacantHostURL(t.URL)), kit.EscapeLine(p.Text()))
	}
	if outcome.Chosen.URL == "" {
		return err // no vacant was called
	}
	m := newMatchResult(&outcome.Chosen)
	result.Chosen = &m
	a.PrintNote("chosen: %s at %s (%s)%s", names.NameOrID(m.ID), kit.EscapeLine(m.Link), kit.EscapeLine(kit.Truncate(m.Capability, 60)), describeCardChange(outcome.Chosen.Freshness))
	return showCall(a, result, err, answerPrinter(a, result))
}

func describeCardChange(freshness discovery.Freshness) string {
	switch freshness {
	case discovery.Changed:
		return "; its card has changed since the last call"
	case discovery.Outdated:
		return "; its card is older than the card of an earlier call. Perhaps its host was restored from a backup. This is reported once. The owner can sign a new card: vacancy publish VACANT --capability TEXT"
	}
	return ""
}
