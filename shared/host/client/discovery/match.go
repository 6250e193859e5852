package discovery

import (
	"strings"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/trust/reputation"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
	"github.com/vacancy-host/vacancy/shared/vacant/listing"
)

// Match is a vacant found by a registry, with a verified card and an endpoint
// that may be called. All other fields are the registry's word, except a Signed
// Listing.
type Match struct {
	ID       identity.ID
	Card     card.Card
	CardHash identity.Hash
	URL      string // where it takes calls
	Name     string // at the registry's own host; "" if it runs elsewhere or has none
	Registry string // the registry that found it

	State      lifecycle.State   // "" if not reported
	Score      float64           // 0 to 1, mean of three dimensions; zero without reviews
	Reputation *reputation.State // nil if not reported
	Rank       float64           // 0 to 1, of the query
	Missing    []string          // words of the query that it lacks, if nothing has all
	Listing    *listing.Listing  // nil if there is none
	Signed     bool              // Listing is signed by the vacant
	Declared   []string          // unsigned claims of the publisher
	Family     string            // claimed

	Freshness Freshness // of Card

	others []string // URLs to try if URL has no handler
	route  dispatch.Transport
}

// Dropped is a match that is not used.
type Dropped struct {
	ID       identity.ID `json:"vacant_id"`
	Registry string      `json:"registry"`
	Reason   string      `json:"reason"`
}

// judge makes a Match of a registry's result, or says why it cannot be used.
// One bad match does not spoil the others (PROTOCOL §23 C3).
func (c *Client) judge(from string, m *registryclient.HaloMatch) (Match, error) {
	switch {
	case m.ID == c.self():
		return Match{}, problem.New(problem.Usage, "it is the caller itself")
	case m.Status != "" && m.Status != "active":
		return Match{}, problem.New(problem.Revoked, "its key is %.20s", printed(m.Status))
	case m.State != "" && !m.State.CanBeCalled():
		return Match{}, problem.New(problem.NotAccepting, "it is %.20s", printed(string(m.State)))
	}
	verified, err := m.Verified()
	if err != nil {
		return Match{}, err
	}
	if verified.Endpoint == "" {
		return Match{}, problem.New(problem.NotFound, "its card has no endpoint")
	}
	urls, err := dispatch.EndpointURLs(verified.Endpoint)
	if err != nil {
		return Match{}, err
	}
	route, err := c.route()(from, &verified)
	if err != nil {
		return Match{}, err
	}
	out := Match{
		ID: m.ID, Card: verified, CardHash: verified.Hash(), URL: urls[0], others: urls[1:], Registry: from, route: route,
		State: m.State, Score: min(max(m.Score, 0), 1), Declared: m.DeclaredList(), Family: m.Family,
	}
	if m.Rank != nil {
		out.Rank = min(max(*m.Rank, 0), 1)
	}
	out.Missing = m.Missing[:min(len(m.Missing), search.MaxWords)]
	// A state that no reviews can have made is ignored.
	if m.Reputation != nil && m.Reputation.Check() == nil {
		out.Reputation = m.Reputation
	}
	if registry.CheckName(m.Name) == nil {
		out.Name = m.Name
	}
	out.Listing, out.Signed, err = readListing(m)
	return out, err
}

// readListing refuses a listing that claims a signature and has no valid one:
// its price or tags could be another's.
func readListing(m *registryclient.HaloMatch) (*listing.Listing, bool, error) {
	if len(m.Listing) == 0 || string(m.Listing) == "null" {
		return nil, false, nil
	}
	l, err := listing.Parse(m.Listing)
	switch {
	case err != nil:
		return nil, false, problem.Wrap(problem.Untrusted, err, "its listing cannot be read: %s", problem.Of(err).Text())
	case l.VacantID != m.ID:
		return nil, false, problem.New(problem.Untrusted, "its listing is of %s", l.VacantID.Short())
	case m.Source != "signed" && len(l.Signature) == 0:
		return &l, false, nil
	case !l.Verify():
		return nil, false, problem.New(problem.Untrusted, "its listing does not verify")
	}
	return &l, true, nil
}

// Price is micro-dollars a call; 0 if no listing gives it.
func (m *Match) Price() int64 {
	if m.Listing == nil {
		return 0
	}
	return m.Listing.Price
}

// entry is m as an index entry.
func (m *Match) entry(joined int) search.Entry {
	e := search.Entry{
		ID: m.ID, Joined: uint64(joined), Capability: m.Card.CapabilityText,
		Declared: m.Declared, ClaimedFamily: m.Family, Score: m.Score,
	}
	if l := m.Listing; l != nil {
		e.Tags, e.Skills, e.Summary, e.Family, e.Price = l.Tags, l.Skills, l.Summary, l.Family, l.Price
	}
	return e
}

// target is m as a Target.
func (m *Match) target(at string) dispatch.Target {
	return dispatch.Target{ID: m.ID, URL: at, Card: &m.Card, Name: at}
}

// printed makes a registry's text safe for a terminal.
func printed(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, s)
}
