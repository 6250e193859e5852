package registryapi

import (
	"context"
	"log/slog"
	"math"
	"net/http"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/httpapi"
	"github.com/vacancy-host/vacancy/shared/front/op"
	"github.com/vacancy-host/vacancy/shared/host/client/registryclient"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

// Finder answers searches. It must be safe for concurrent use.
type Finder interface {
	Find(ctx context.Context, r search.Request) (search.Page, error)
}

type SearchConfig struct {
	Finder Finder
	Now    func() time.Time
	Logger *slog.Logger
}

// FindVacants extends the reference's search with words, filters on listings and a cursor.
// SearchCapability and QueryCapability are the reference's operations: they search for a substring
// of the declared capabilities and return a single page.
var (
	FindVacants      = op.Op[SearchRequest, registryclient.Page]{Method: "GET", Path: "/v1/search", Access: op.Access{Anybody: true}, Doc: "finds vacants by words and filters"}
	SearchCapability = op.Op[CapabilitySearchRequest, []registryclient.Match]{Method: "GET", Path: "/v1/search_capability", Access: op.Access{Anybody: true}, Doc: "finds vacants by a part of a capability, for the reference's SDK"}
	QueryCapability  = op.Op[CapabilityQueryRequest, registryclient.Matches]{Method: "POST", Path: "/v1/query_capability", Access: op.Access{Anybody: true}, Doc: "queries vacants by a part of a capability, for the reference's clients"}
)

type (
	// Prices are in micro-dollars.
	SearchRequest struct {
		Query         string `query:"q"`
		ID            string `query:"id"` // prefix of an id
		Tag           string `query:"tag"`
		Family        string `query:"family"`
		MaxPrice      uint64 `query:"max_price"`
		MinReputation string `query:"min_reputation"` // least score, 0 to 1
		Limit         uint64 `query:"limit"`
		Cursor        string `query:"cursor"`
	}
	CapabilitySearchRequest struct {
		Query        string `query:"q"`
		Limit        uint64 `query:"limit"`
		IncludeLocal bool   `query:"include_local"` // ignored
	}
	CapabilityQueryRequest struct {
		Capability string `query:"capability"`
		Family     string `query:"family"`
		Limit      uint64 `query:"limit"`
	}
)

var searchLimitRange = op.Range{Min: 1, Max: search.MaxLimit, Default: int64(search.DefaultLimit)}

func (SearchRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{"max_price": {Max: math.MaxInt64}, "min_reputation": {Max: 1}, "limit": searchLimitRange}
}

func (CapabilitySearchRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{"limit": searchLimitRange}
}

func (CapabilityQueryRequest) Ranges() map[string]op.Range {
	return map[string]op.Range{"limit": searchLimitRange}
}

func NewSearchHandler(c SearchConfig) http.Handler {
	return httpapi.API{Name: "registry", Log: c.Logger, Now: c.Now, ReadLevel: slog.LevelDebug}.Mux(op.RoutesByPath((&searchAPI{c}).routes()...))
}

func (s *searchAPI) routes() []op.Route {
	return []op.Route{
		op.NewHandlerRoute(FindVacants.Spec(), s.serveSearch),
		op.NewHandlerRoute(SearchCapability.Spec(), s.serveCapabilitySearch),
		op.NewHandlerRoute(QueryCapability.Spec(), s.serveCapabilityQuery),
	}
}

func IsSearchPath(path string) bool {
	return path == "/v1/search" || path == "/v1/search_capability" || path == "/v1/query_capability"
}

type searchAPI struct{ SearchConfig }

func (s *searchAPI) serveSearch(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, SearchRequest{})
	req := search.Request{
		Query: q.values.Get("q"), Tag: q.values.Get("tag"), Family: q.values.Get("family"),
		ShortID: q.values.Get("id"), AllowMissingWords: true,
		MinReputation: q.fraction("min_reputation"), Limit: int(q.number("limit")), Cursor: q.values.Get("cursor"),
	}
	if q.values.Has("max_price") {
		price := q.number("max_price")
		req.MaxPrice = &price
	}
	if q.err != nil {
		return q.err
	}
	page, err := s.Finder.Find(r.Context(), req)
	if err != nil {
		return err
	}
	matches := s.newMatches(page.Matches, true)
	if fitting := countFitting(matches); fitting < len(matches) {
		// A smaller limit makes the cursor continue after the last match that is shown.
		req.Limit = fitting
		if page, err = s.Finder.Find(r.Context(), req); err != nil {
			return err
		}
		matches = s.newMatches(page.Matches, true)
	}
	return sendPublic(w, r, registryclient.Page{Matches: matches, Next: page.Next})
}

// serveCapabilitySearch answers in the form that the reference's SDK expects. The reference's own
// registry does not have this route (PROTOCOL §23 C2). include_local is ignored, because hidden
// vacants are never listed.
func (s *searchAPI) serveCapabilitySearch(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, CapabilitySearchRequest{})
	q.boolean("include_local")
	matches, err := s.findByScore(r.Context(), &q, q.values.Get("q"), "")
	if err != nil {
		return err
	}
	for i := range matches {
		matches[i].CapabilityCard = matches[i].CardBlob
	}
	return sendPublic(w, r, matches[:countFitting(matches)])
}

func (s *searchAPI) serveCapabilityQuery(w http.ResponseWriter, r *http.Request) error {
	q := newQuery(r, CapabilityQueryRequest{})
	matches, err := s.findByScore(r.Context(), &q, q.values.Get("capability"), q.values.Get("family"))
	if err != nil {
		return err
	}
	return httpapi.SendJSON(w, http.StatusOK, registryclient.Matches{Matches: matches[:countFitting(matches)], NotImplemented: []string{}})
}

func (s *searchAPI) findByScore(ctx context.Context, q *query, text, family string) ([]registryclient.Match, error) {
	req := search.Request{Text: text, ClaimedFamily: family, ByScore: true, Limit: int(q.number("limit"))}
	if q.err != nil {
		return nil, q.err
	}
	page, err := s.Finder.Find(ctx, req)
	return s.newMatches(page.Matches, false), err
}

func (s *searchAPI) newMatches(results []search.Match, isRanked bool) []registryclient.Match {
	now, matches := s.Now(), make([]registryclient.Match, len(results))
	for i := range results {
		matches[i] = newMatch(&results[i].Registration, now)
		if isRanked {
			matches[i].Score = results[i].Score // the routes of the reference show the mean reputation instead
			rank := results[i].Rank
			matches[i].Rank, matches[i].MissingWords = &rank, results[i].MissingWords
		}
	}
	return matches
}

// maxPageBytes limits cards and listings in an answer. A hundred cards of maximum size take 6 MB in
// hexadecimal, which exceeds the limits of Lambda and of careful clients.
const maxPageBytes = 1 << 20

func countFitting(matches []registryclient.Match) int {
	size := 0
	for i := range matches {
		m := &matches[i]
		size += len(m.CardBlob) + len(m.CapabilityCard) + len(m.DeclaredCapabilities) + len(m.Listing) + 1<<10
		if size > maxPageBytes && i > 0 {
			return i
		}
	}
	return len(matches)
}
