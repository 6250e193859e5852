package discovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/canon"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Query describes the vacants to find. If a registry does not support GET /v1/search, the Client
// filters its results.
type Query = registryclient.Query

type SearchResult struct {
	Matches        []Match
	DroppedMatches []DroppedMatch
	RegistryErrors []error
	Next           string
}

// DropPartial drops matches that lack words of the query, because a person must approve such
// matches.
func (f *SearchResult) DropPartial() {
	f.Matches = slices.DeleteFunc(f.Matches, func(m Match) bool {
		if len(m.MissingWords) > 0 {
			f.DroppedMatches = append(f.DroppedMatches, DroppedMatch{m.ID, m.Registry, fmt.Sprintf("it does not match the words %.80q", strings.Join(m.MissingWords, " "))})
		}
		return len(m.MissingWords) > 0
	})
}

const (
	defaultLimit = 20
	maxLimit     = 100
)

// Search queries the registries and verifies their matches. It fails only if all registries fail.
func (c *Client) Search(ctx context.Context, q Query) (SearchResult, error) {
	localFilter, err := newLocalFilter(q)
	if err != nil {
		return SearchResult{}, err
	}
	switch {
	case len(c.Registries) == 0:
		return SearchResult{}, problem.New(problem.Usage, "no registry to search: expected at least one")
	case len(c.Registries) > 1 && q.Cursor != "":
		return SearchResult{}, problem.New(problem.Usage, "a cursor belongs to one registry: ask only that registry")
	}
	pages := make([]page, len(c.Registries))
	var wg sync.WaitGroup
	for i, r := range c.Registries {
		wg.Go(func() { pages[i] = c.searchRegistry(ctx, r, q, localFilter) })
	}
	wg.Wait()
	var found SearchResult
	for _, p := range pages {
		if p.err != nil {
			found.RegistryErrors = append(found.RegistryErrors, p.err)
		}
		found.Matches = append(found.Matches, p.matches...)
		found.DroppedMatches = append(found.DroppedMatches, p.droppedMatches...)
	}
	if len(pages) == 1 {
		found.Next = pages[0].next
	} else {
		slices.SortStableFunc(found.Matches, func(a, b Match) int {
			return cmp.Or(min(len(a.MissingWords), 1)-min(len(b.MissingWords), 1), cmp.Compare(b.Rank, a.Rank))
		})
	}
	if len(found.RegistryErrors) == len(pages) {
		cause := found.RegistryErrors[0]
		if len(pages) > 1 {
			cause = errors.Join(found.RegistryErrors...)
		}
		return found, problem.Wrap(problem.AsError(cause).Kind, cause, "no registry could be searched: %s", problem.AsError(cause).Text())
	}
	if err := c.currentMemory().Change(ctx, c.selfID(), func(m *SavedData) bool {
		for i := range found.Matches {
			found.Matches[i].Freshness = m.freshness(found.Matches[i].ID, found.Matches[i].CardHash)
		}
		return false
	}); err != nil {
		return found, err
	}
	found.dropDuplicates()
	found.Matches = found.Matches[:min(len(found.Matches), localFilter.Limit)]
	return found, nil
}

func newLocalFilter(q Query) (search.Query, error) {
	words, err := search.ParseWords(q.Words)
	if err != nil {
		return search.Query{}, problem.Wrap(problem.Usage, nil, "%s", problem.AsError(err).Text())
	}
	if q.Limit < 0 || q.Limit > maxLimit {
		return search.Query{}, problem.New(problem.Usage, "limit: expected 1 to %d, got %d", maxLimit, q.Limit)
	}
	return search.Query{
		Words: words, Tag: search.Normalise(q.Tag), ClaimedFamily: q.Family, MaxPrice: q.MaxPrice,
		MinScore: q.MinReputation, Limit: cmp.Or(q.Limit, defaultLimit),
	}, nil
}

type page struct {
	matches        []Match
	droppedMatches []DroppedMatch
	next           string
	err            error
}

func (c *Client) searchRegistry(ctx context.Context, r *registryclient.Client, q Query, localFilter search.Query) page {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.SearchTimeout, DefaultSearchTimeout))
	defer cancel()
	reply, isFiltered, err := c.queryRegistry(ctx, r, q, localFilter)
	if err != nil {
		return page{err: problem.Wrap(problem.AsError(err).Kind, err, "%s: %s", r.URL, problem.AsError(err).Text())}
	}
	out := page{next: reply.Next}
	drop := func(id identity.ID, err error) {
		out.droppedMatches = append(out.droppedMatches, DroppedMatch{id, r.URL, problem.AsError(err).Text()})
	}
	for _, err := range reply.MatchErrors[:min(len(reply.MatchErrors), maxLimit)] {
		drop(identity.ID{}, err)
	}
	seen := map[identity.ID]bool{}
	for i := range reply.Matches {
		m := &reply.Matches[i]
		// Matches beyond the limit are not read, because each costs a verification.
		if i == maxLimit {
			drop(m.ID, problem.New(problem.Untrusted, "%d more matches than requested", len(reply.Matches)-i))
			break
		}
		if seen[m.ID] {
			drop(m.ID, problem.New(problem.Untrusted, "the registry returned it twice"))
			continue
		}
		seen[m.ID] = true
		match, err := c.newMatch(r.URL, m)
		if err != nil {
			drop(m.ID, err)
			continue
		}
		if !isFiltered {
			entry := match.searchEntry(i + 1)
			rank, ok := localFilter.Match(&entry)
			if !ok {
				drop(m.ID, problem.New(problem.NotFound, "it does not match"))
				continue
			}
			match.Rank = rank
		}
		out.matches = append(out.matches, match)
	}
	return out
}

func (f *SearchResult) dropDuplicates() {
	newest := map[identity.ID]Match{}
	for _, m := range f.Matches {
		best, ok := newest[m.ID]
		if !ok || freshnessRank(m.Freshness) < freshnessRank(best.Freshness) {
			newest[m.ID] = m
		}
	}
	unique := f.Matches[:0]
	for _, m := range f.Matches {
		best := newest[m.ID]
		switch {
		case m.CardHash != best.CardHash:
			f.DroppedMatches = append(f.DroppedMatches, DroppedMatch{m.ID, m.Registry, "another registry has a newer card for it"})
		case m.Registry == best.Registry:
			unique = append(unique, m)
		}
	}
	f.Matches = unique
}

func freshnessRank(f Freshness) int {
	return slices.Index([]Freshness{Changed, Same, FirstSeen, Outdated}, f)
}

// Search routes, in the order in which they are tried.
const (
	routeVacancy   = iota // GET /v1/search
	routeSDK              // GET /v1/search_capability
	routeReference        // POST /v1/query_capability (PROTOCOL §23 C2)
	routeCount
)

// queryRegistry uses the first search route that r supports.
func (c *Client) queryRegistry(ctx context.Context, r *registryclient.Client, q Query, localFilter search.Query) (p registryclient.Page, isFiltered bool, err error) {
	c.mu.Lock()
	firstRoute := c.routes[r.URL]
	c.mu.Unlock()
	for i := range routeCount {
		route := (firstRoute + i) % routeCount
		p, err = queryByRoute(ctx, r, route, q, localFilter)
		if !isMissingRoute(err) {
			if err == nil {
				c.mu.Lock()
				if c.routes == nil {
					c.routes = make(map[string]int)
				}
				c.routes[r.URL] = route
				c.mu.Unlock()
			}
			return p, route == routeVacancy, err
		}
	}
	return p, false, problem.Wrap(problem.NotFound, err, "it has no search route: is it a registry?")
}

func queryByRoute(ctx context.Context, r *registryclient.Client, route int, q Query, localFilter search.Query) (registryclient.Page, error) {
	if route == routeVacancy {
		q.Limit = localFilter.Limit
		return r.Search(ctx, q)
	}
	if q.Cursor != "" {
		return registryclient.Page{}, problem.New(problem.Usage, "its search has only one page")
	}
	// Request more matches, because the filter may drop most of them.
	limit := localFilter.Limit
	if len(localFilter.Words) > 1 || q.Tag != "" || q.MaxPrice != nil || q.MinReputation > 0 {
		limit = maxLimit
	}
	word := ""
	for _, w := range localFilter.Words {
		if utf8.RuneCountInString(w) > utf8.RuneCountInString(word) {
			word = w
		}
	}
	if route == routeSDK {
		return r.SearchCapability(ctx, word, limit)
	}
	// The search of the reference needs JSON escapes for non-ASCII characters.
	return r.QueryCapability(ctx, strings.Trim(string(canon.AppendStringASCII(nil, word)), `"`), q.Family, limit)
}

func isMissingRoute(err error) bool {
	var s *registryclient.StatusError
	return errors.As(err, &s) && slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, s.Status)
}
