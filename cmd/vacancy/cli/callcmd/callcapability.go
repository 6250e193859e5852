package callcmd

import (
	"context"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/host/client/discovery"
	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Values of --policy.
const (
	policyUCB   = "ucb"
	policyScore = "score"
)

func policy(name string) (discovery.Policy, error) {
	switch name {
	case policyUCB:
		return discovery.ByUCB, nil
	case policyScore:
		return discovery.ByScore, nil
	}
	return nil, problem.New(problem.Usage, "--policy: expected %s or %s, got %.40q", policyUCB, policyScore, name)
}

func callCapability(a *kit.App, ctx context.Context, f callFlags, words []string, threaded bool) error {
	if f.ask || f.reset || f.print || f.accept != "" {
		return kit.WithHint(problem.New(problem.Usage, "--ask, --reset, --print and --accept: not supported together with --capability, because they need one TARGET"), "vacancy call URL --ask")
	}
	if err := f.check(true); err != nil {
		return err
	}
	q, err := f.find.query(f.capability)
	if err != nil {
		return err
	}
	if f.thread == lastThread || len(f.agent.files) > 0 {
		return problem.New(problem.Usage, "--context - and --file: expected one TARGET, got --capability")
	}
	msg, _, err := callMessage(a, f, words, threaded, false)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	client, self, err := registryClient(a, ctx, f, q)
	if err != nil {
		return err
	}
	var out discovery.Outcome
	err = a.Await(func() string { return kit.Waiting("a match", f.timeout) }, func() (err error) {
		out, err = client.CallCapability(ctx, q, msg)
		return err
	})
	noteDropped(a, out.Found.Dropped)
	if out.Chosen.URL == "" && problem.Is(err, problem.NotFound) {
		return noMatch(err)
	}
	return showOutcome(a, self, out, f.explain, err)
}

func noMatch(err error) error {
	return kit.WithHint(err, "vacancy search, with other words, or none for all")
}

func registryClient(a *kit.App, ctx context.Context, f callFlags, q discovery.Query) (*discovery.Client, kit.Signer, error) {
	chosen, err := policy(f.policy)
	if err != nil {
		return nil, kit.Signer{}, err
	}
	web := a.HTTP(f.timeout)
	client, err := finder(a, ctx, f.find, f.where, web)
	if err != nil {
		return nil, kit.Signer{}, err
	}
	// Find a match first. A call without a target must not create an identity.
	if h, err := a.DataHome(); err != nil {
		return nil, kit.Signer{}, err
	} else if names, _ := h.Names(); len(names) == 0 {
		q.Limit = 1
		found, err := client.Search(ctx, q)
		if err == nil && len(found.Matches)+len(found.Dropped) == 0 {
			err = noMatch(problem.New(problem.NotFound, "no vacant was found for %.80q", q.Words))
		}
		if err != nil {
			return nil, kit.Signer{}, err
		}
	}
	self, err := a.Caller(ctx, f.as)
	if err != nil {
		return nil, kit.Signer{}, err
	}
	client.Caller, client.Policy = a.Dispatcher(self, web, f.timeout), chosen
	client.Caller.Check = checkPayer(a, f, self, web)
	client.Route = discovery.PersonalRoute(f.timeout, a.Roots())
	return client, self, nil
}

type triedResult struct {
	ID     identity.ID `json:"vacant_id"`
	URL    string      `json:"url"`
	Code   string      `json:"code"`
	Detail string      `json:"detail"`
}

// candidateResult is a vacant that a search found, with its rating and the reasons for it.
type candidateResult struct {
	ID     identity.ID `json:"vacant_id"`
	Rating float64     `json:"rating"`
	discovery.Reasons
}

// showOutcome prints the answer of the chosen vacant and how it was chosen. If explain is true, it also
// prints the candidates in the order of their rating.
func showOutcome(a *kit.App, self kit.Signer, out discovery.Outcome, explain bool, err error) error {
	result := NewCallResult(self, dispatch.Target{ID: out.Chosen.ID, URL: out.Chosen.URL}, out.Result)
	result.Dropped = out.Found.Dropped
	names := kit.Names{}
	for i := range out.Found.Matches {
		names[out.Found.Matches[i].ID] = out.Found.Matches[i].Name
	}
	if explain {
		for i := range out.Choices {
			c := candidateResult{out.Choices[i].ID, out.Choices[i].Rating, discovery.Explain(&out.Choices[i].Match, len(out.Choices))}
			result.Candidates = append(result.Candidates, c)
			a.Note("candidate %s: relevance %.2f, score %.3f, evidence %.2f, exploration %.2f, rating %.2f", names.Of(c.ID), c.Relevance, c.Score, c.Evidence, c.Exploration, c.Rating)
		}
	}
	for _, t := range out.FailedCalls {
		p := problem.AsError(t.Err)
		result.Tried = append(result.Tried, triedResult{t.ID, t.URL, p.Kind.String(), p.Text()})
		a.Note("tried %s at %s: %s", names.Of(t.ID), kit.Printable(kit.HostOf(t.URL)), kit.Printable(p.Text()))
	}
	if out.Chosen.URL == "" {
		return err // no vacant was called
	}
	m := newMatchResult(&out.Chosen)
	result.Chosen = &m
	a.Note("chosen: %s at %s (%s)%s", names.Of(m.ID), kit.Printable(m.Link), kit.Printable(kit.Clip(m.Capability, 60)), news(out.Chosen.Freshness))
	return showCall(a, result, err, printAnswer(a, result))
}

func news(f discovery.Freshness) string {
	switch f {
	case discovery.Changed:
		return "; its card has changed since the last call"
	case discovery.Outdated:
		return "; its card is older than the one seen before, as after a restore from a backup (reported once; its owner fixes it by signing a new card: vacancy publish VACANT --capability TEXT)"
	}
	return ""
}
