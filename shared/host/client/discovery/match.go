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

// Match is a vacant found by a registry, with a verified card. All other data is unverified, except
// a signed Listing.
type Match struct {
	ID       identity.ID
	Card     card.Card
	CardHash identity.Hash
	URL      string
	Name     string
	Registry string

	State                lifecycle.State
	Score                float64 // 0 to 1
	Reputation           *reputation.State
	Rank                 float64 // 0 to 1
	MissingWords         []string
	Listing              *listing.Listing
	ListingSigned        bool
	DeclaredCapabilities []string // unsigned claims of the publisher
	Family               string

	Freshness Freshness

	fallbackURLs []string // tried if URL has no handler
	route        dispatch.Transport
}

type DroppedMatch struct {
	ID       identity.ID `json:"vacant_id"`
	Registry string      `json:"registry"`
	Reason   string      `json:"reason"`
}

func (c *Client) newMatch(registryURL string, m *registryclient.Match) (Match, error) {
	switch {
	case m.ID == c.selfID():
		return Match{}, problem.New(problem.Usage, "it is the caller itself")
	case m.Status != "" && m.Status != "active":
		return Match{}, problem.New(problem.Revoked, "its key is %.20s", printable(m.Status))
	case m.State != "" && !m.State.CanBeCalled():
		return Match{}, problem.New(problem.NotAccepting, "it is %.20s", printable(string(m.State)))
	}
	verified, err := m.VerifiedCard()
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
	route, err := c.currentRoute()(registryURL, &verified)
	if err != nil {
		return Match{}, err
	}
	out := Match{
		ID: m.ID, Card: verified, CardHash: verified.Hash(), URL: urls[0], fallbackURLs: urls[1:], Registry: registryURL, route: route,
		State: m.State, Score: min(max(m.Score, 0), 1), DeclaredCapabilities: m.ParseDeclaredCapabilities(), Family: m.Family,
	}
	if m.Rank != nil {
		out.Rank = min(max(*m.Rank, 0), 1)
	}
	out.MissingWords = m.MissingWords[:min(len(m.MissingWords), search.MaxWords)]
	// Ignore a reputation that reviews cannot produce.
	if m.Reputation != nil && m.Reputation.Check() == nil {
		out.Reputation = m.Reputation
	}
	if registry.CheckName(m.Name) == nil {
		out.Name = m.Name
	}
	out.Listing, out.ListingSigned, err = readListing(m)
	return out, err
}

// readListing also returns unsigned listings. It rejects a listing whose signature does not verify.
func readListing(m *registryclient.Match) (*listing.Listing, bool, error) {
	if len(m.Listing) == 0 || string(m.Listing) == "null" {
		return nil, false, nil
	}
	l, err := listing.Parse(m.Listing)
	switch {
	case err != nil:
		return nil, false, problem.Wrap(problem.Untrusted, err, "its listing cannot be read: %s", problem.AsError(err).Text())
	case l.VacantID != m.ID:
		return nil, false, problem.New(problem.Untrusted, "its listing belongs to %s", l.VacantID.Short())
	case m.ListingSource != "signed" && len(l.Signature) == 0:
		return &l, false, nil
	case !l.Verify():
		return nil, false, problem.New(problem.Untrusted, "its listing does not verify")
	}
	return &l, true, nil
}

func (m *Match) Price() int64 {
	if m.Listing == nil {
		return 0
	}
	return m.Listing.Price // micro-dollars per call
}

func (m *Match) searchEntry(position int) search.Entry {
	e := search.Entry{
		ID: m.ID, FirstSeq: uint64(position), Capability: m.Card.CapabilityText,
		DeclaredCapabilities: m.DeclaredCapabilities, ClaimedFamily: m.Family, Score: m.Score,
	}
	if l := m.Listing; l != nil {
		e.Tags, e.Skills, e.Summary, e.Family, e.Price = l.Tags, l.Skills, l.Summary, l.ModelFamily, l.Price
	}
	return e
}

func (m *Match) dispatchTarget(address string) dispatch.Target {
	return dispatch.Target{ID: m.ID, URL: address, Card: &m.Card, Name: address}
}

func printable(s string) string {
	return strings.Map(func(r rune) rune { // safe for a terminal
		if r < ' ' || r >= 0x7f {
			return '?'
		}
		return r
	}, s)
}
