package dispatch

import (
	"cmp"
	"context"
	"errors"
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

// Query is what is looked for. A registry that has the reference's routes only
// is asked for one of the words, and the rest is done here; there Family is what
// the publisher claims, and a Tag finds nothing, for want of listings.
type Query = registryclient.Query

// Found is what a search came to.
type Found struct {
	Matches []Match   // in the registry's order; of several registries by rank
	Dropped []Dropped // what was sent and is not used
	Failed  []error   // registries that did not answer
	Next    string    // the cursor of the next page, with one registry; "" after the last
}

// Bounds of a search.
const (
	defaultLimit = 20
	maxLimit     = 100
)

// Search asks the registries, which learn what is looked for and nothing of the
// caller, and verifies what they find. It fails if all of them do.
func (c *Client) Search(ctx context.Context, q Query) (Found, error) {
	local, err := localQuery(q)
	if err != nil {
		return Found{}, err
	}
	switch {
	case len(c.Registries) == 0:
		return Found{}, problem.New(problem.Usage, "there is no registry to ask")
	case len(c.Registries) > 1 && q.Cursor != "":
		return Found{}, problem.New(problem.Usage, "a cursor is one registry's: ask that one alone")
	}
	pages := make([]page, len(c.Registries))
	var all sync.WaitGroup
	for i, r := range c.Registries {
		all.Go(func() { pages[i] = c.page(ctx, r, q, local) })
	}
	all.Wait()
	found := merge(pages)
	if len(found.Failed) == len(pages) {
		cause := found.Failed[0]
		if len(pages) > 1 {
			cause = errors.Join(found.Failed...)
		}
		return found, problem.Wrap(problem.Of(cause).Kind, cause, "no registry could be searched: %s", problem.Of(cause).Text())
	}
	if err := c.freshen(ctx, found.Matches); err != nil {
		return found, err
	}
	found.once()
	found.Matches = found.Matches[:min(len(found.Matches), local.Limit)]
	return found, nil
}

// localQuery is q as it is checked here, before any registry sees it.
func localQuery(q Query) (search.Query, error) {
	words, err := search.ParseWords(q.Words)
	if err != nil {
		return search.Query{}, usage(err)
	}
	if q.Limit < 0 || q.Limit > maxLimit {
		return search.Query{}, problem.New(problem.Usage, "limit: expected 1 to %d, got %d", maxLimit, q.Limit)
	}
	return search.Query{
		Words: words, Tag: search.Normalise(q.Tag), ClaimedFamily: q.Family, MaxPrice: q.MaxPrice,
		MinScore: q.MinReputation, Limit: cmp.Or(q.Limit, defaultLimit),
	}, nil
}

func usage(err error) error {
	return problem.Wrap(problem.Usage, nil, "%s", problem.Of(err).Text())
}

// page is what one registry sent, judged.
type page struct {
	matches []Match
	dropped []Dropped
	next    string
	err     error
}

// page asks one registry, in its time.
func (c *Client) page(ctx context.Context, r *registryclient.Client, q Query, local search.Query) page {
	ctx, cancel := context.WithTimeout(ctx, c.searchTime())
	defer cancel()
	sent, ours, err := c.ask(ctx, r, q, local)
	if err != nil {
		return page{err: problem.Wrap(problem.Of(err).Kind, err, "%s: %s", r.URL, problem.Of(err).Text())}
	}
	out := page{next: sent.Next}
	drop := func(id identity.ID, err error) {
		out.dropped = append(out.dropped, Dropped{id, r.URL, problem.Of(err).Text()})
	}
	for _, err := range sent.Dropped[:min(len(sent.Dropped), maxLimit)] {
		drop(identity.ID{}, err)
	}
	seen := map[identity.ID]bool{}
	for i := range sent.Matches {
		m := &sent.Matches[i]
		// More than was asked for is not read: each costs a verification.
		if i == maxLimit {
			drop(m.ID, problem.New(problem.Untrusted, "%d more matches than were asked for", len(sent.Matches)-i))
			break
		}
		if seen[m.ID] {
			drop(m.ID, problem.New(problem.Untrusted, "it was sent twice"))
			continue
		}
		seen[m.ID] = true
		one, err := c.judge(r.URL, m)
		if err != nil {
			drop(m.ID, err)
			continue
		}
		if !ours {
			entry := one.entry(i + 1)
			rank, ok := local.Match(&entry)
			if !ok {
				drop(m.ID, problem.New(problem.NotFound, "it does not match"))
				continue
			}
			one.Rank = rank
		}
		out.matches = append(out.matches, one)
	}
	return out
}

// merge puts pages together.
func merge(pages []page) Found {
	var found Found
	for _, p := range pages {
		if p.err != nil {
			found.Failed = append(found.Failed, p.err)
		}
		found.Matches = append(found.Matches, p.matches...)
		found.Dropped = append(found.Dropped, p.dropped...)
	}
	if len(pages) == 1 {
		found.Next = pages[0].next
	} else {
		slices.SortStableFunc(found.Matches, func(a, b Match) int { return cmp.Compare(b.Rank, a.Rank) })
	}
	return found
}

// once keeps each vacant once. Of two cards the one that was never seen is
// newer than the one that was, and that than the one it replaced.
func (f *Found) once() {
	newest := map[identity.ID]Match{}
	for _, m := range f.Matches {
		best, ok := newest[m.ID]
		if !ok || age(m.Freshness) < age(best.Freshness) {
			newest[m.ID] = m
		}
	}
	kept := f.Matches[:0]
	for _, m := range f.Matches {
		best := newest[m.ID]
		switch {
		case m.CardHash != best.CardHash:
			f.Dropped = append(f.Dropped, Dropped{m.ID, m.Registry, "another registry has a newer card of it"})
		case m.Registry == best.Registry:
			kept = append(kept, m)
		}
	}
	f.Matches = kept
}

func age(f Freshness) int { return slices.Index([]Freshness{Changed, Same, FirstSeen, Outdated}, f) }

// freshen tells of each match whether its card is the one seen last.
func (c *Client) freshen(ctx context.Context, matches []Match) error {
	return c.memory().Change(ctx, c.self(), func(m *Remembered) bool {
		for i := range matches {
			matches[i].Freshness = m.freshness(matches[i].ID, matches[i].CardHash)
		}
		return false
	})
}

// The search routes that a registry may have, in the order they are tried.
const (
	routeOurs      = iota // GET /v1/search
	routeSDK              // GET /v1/search_capability, which the reference's SDK asks for
	routeReference        // POST /v1/query_capability, which the reference has (PROTOCOL §23 C2)
	searchRoutes
)

// ask asks a registry by the best route that it has. ours: it did all that q
// asks for.
func (c *Client) ask(ctx context.Context, r *registryclient.Client, q Query, local search.Query) (p registryclient.Page, ours bool, err error) {
	known := c.knownRoute(r.URL)
	for i := range searchRoutes {
		route := (known + i) % searchRoutes
		p, err = askBy(ctx, r, route, q, local)
		if !lacks(err) {
			if err == nil {
				c.knowRoute(r.URL, route)
			}
			return p, route == routeOurs, err
		}
	}
	return p, false, problem.Wrap(problem.NotFound, err, "it has no search: is it a registry?")
}

func askBy(ctx context.Context, r *registryclient.Client, route int, q Query, local search.Query) (registryclient.Page, error) {
	if route == routeOurs {
		q.Limit = local.Limit
		return r.Search(ctx, q)
	}
	if q.Cursor != "" {
		return registryclient.Page{}, problem.New(problem.Usage, "its search has one page only")
	}
	// What is done here may drop most of what is sent.
	limit := local.Limit
	if len(local.Words) > 1 || q.Tag != "" || q.MaxPrice != nil || q.MinReputation > 0 {
		limit = maxLimit
	}
	word := longest(local.Words)
	if route == routeSDK {
		return r.SearchCapability(ctx, word, limit)
	}
	return r.QueryCapability(ctx, escaped(word), q.Family, limit)
}

// lacks reports that a registry has no such route.
func lacks(err error) bool {
	var s *registryclient.StatusError
	return errors.As(err, &s) && slices.Contains([]int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}, s.Status)
}

func longest(words []string) (best string) {
	for _, w := range words {
		if utf8.RuneCountInString(w) > utf8.RuneCountInString(best) {
			best = w
		}
	}
	return best
}

// escaped is a word as it stands in the JSON that the reference searches: what
// is not ASCII is escaped there, and found only so.
func escaped(word string) string {
	return strings.Trim(string(canon.AppendStringA(nil, word)), `"`)
}

func (c *Client) knownRoute(registry string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.routes[registry]
}

func (c *Client) knowRoute(registry string, route int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.routes == nil {
		c.routes = make(map[string]int)
	}
	c.routes[registry] = route
}
