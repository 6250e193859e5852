package search

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Registry interface {
	Reread(ctx context.Context, id identity.ID, last *registry.CachedRegistration) (*registry.CachedRegistration, error)
}

// Config configures a Service. Refresh and Timeout are optional.
type Config struct {
	Index    Index
	Registry Registry
	Now      func() time.Time
	Log      *slog.Logger
	// Refresh updates the index if an update is due. If it fails, the query uses the current index.
	Refresh func(context.Context) error
	// Timeout limits one Find. Zero means 5 seconds.
	Timeout time.Duration
}

const (
	// MaxLimit follows PROTOCOL §21.
	MaxLimit     = 100
	DefaultLimit = 20

	defaultTimeout = 5 * time.Second
	// spareHits replace dropped hits of a page.
	spareHits = 8
	// maxVerifiedHits and maxReadBytes limit the work of one Find, because anyone may search. If a
	// limit is reached, the page is short.
	maxVerifiedHits    = 1000
	maxConcurrentReads = 16
	maxReadBytes       = 256 << 10
)

// Service is safe for concurrent use.
type Service struct {
	Config
	cardVerdicts  *lru.Cache[identity.Hash, bool]
	registrations *lru.Cache[identity.ID, *preparedRegistration]
}

func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err)
	}
	return c
}

func New(c Config) *Service {
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	return &Service{
		Config:        c,
		cardVerdicts:  newCache[identity.Hash, bool](maxCachedVerdicts),
		registrations: newCache[identity.ID, *preparedRegistration](maxCachedRegistrations),
	}
}

// Request is a search. The zero Request returns all listed vacants, ordered by rank.
type Request struct {
	Query string
	// AllowMissingWords accepts entries with most of the words if no entry has all words.
	AllowMissingWords bool
	Text              string
	// Tag and Family are compared with the listing, and ClaimedFamily with the publisher's claim.
	Tag, Family, ClaimedFamily string
	Category, Area             string
	Bookable                   bool
	// ShortID is the first 12 digits of an id. It cannot be combined with Tag.
	ShortID       string
	MaxPrice      *int64 // micro-dollars per call
	MinReputation float64
	ByScore       bool
	// Limit defaults to DefaultLimit.
	Limit  int
	Cursor string
}

type Match struct {
	Registration registry.Registration
	Card         card.Card // parsed and verified
	Score        float64
	Rank         float64
	MissingWords []string
}

// Page is a page of results. Next is "" after the last page.
type Page struct {
	Matches []Match
	Next    string
}

// Find returns the results of r. The error is Malformed if r exceeds a limit or its cursor belongs
// to another request.
func (s *Service) Find(ctx context.Context, r Request) (Page, error) {
	q, matchesNone, err := r.parse()
	if err != nil || matchesNone {
		return Page{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	s.refresh(ctx)
	page, err := s.collectPage(ctx, q)
	if relaxedQuery, ok := q.relax(); err == nil && r.AllowMissingWords && ok && r.Cursor == "" && len(page.Matches) == 0 && page.Next == "" {
		return s.collectPage(ctx, relaxedQuery)
	}
	return page, err
}

// refresh leaves time for the query. If many vacants publish at once, searches return outdated
// results and do not fail.
func (s *Service) refresh(ctx context.Context) {
	if s.Refresh == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout*4/5)
	defer cancel()
	if err := s.Refresh(ctx); err != nil {
		s.Log.WarnContext(ctx, "the search index is not up to date", "error", err)
	}
}

func (s *Service) collectPage(ctx context.Context, q Query) (Page, error) {
	want, page := q.Limit, Page{}
	var readBytes atomic.Int64
	for seenHits := 0; ; {
		q.Limit = min(want-len(page.Matches)+spareHits, MaxPage)
		hits, err := s.Index.Query(ctx, q)
		if err != nil {
			return Page{}, deadlineError(ctx, err)
		}
		// Spare hits are verified only if others are dropped.
		for rest := hits; len(rest) > 0; {
			batch := rest[:min(len(rest), want-len(page.Matches), maxConcurrentReads)]
			rest = rest[len(batch):]
			matches, err := s.verifyHits(ctx, &q, batch, &readBytes)
			if err != nil {
				return Page{}, deadlineError(ctx, err)
			}
			page.Matches = append(page.Matches, matches...)
			if len(page.Matches) == want || readBytes.Load() >= maxReadBytes {
				if len(rest) > 0 || len(hits) == q.Limit {
					page.Next = q.encodeCursor(batch[len(batch)-1].Place)
				}
				return page, nil
			}
		}
		if len(hits) < q.Limit {
			return page, nil
		}
		q.After = &hits[len(hits)-1].Place
		if seenHits += len(hits); seenHits >= maxVerifiedHits {
			page.Next = q.encodeCursor(*q.After)
			return page, nil
		}
	}
}

func (s *Service) verifyHits(ctx context.Context, q *Query, hits []Hit, readBytes *atomic.Int64) ([]Match, error) {
	results := make([]*Match, len(hits))
	g, ctx := errgroup.WithContext(ctx)
	for i, h := range hits {
		g.Go(func() (err error) {
			results[i], err = s.verifyHit(ctx, q, h, readBytes)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	matches := make([]Match, 0, len(results))
	for _, m := range results {
		if m != nil {
			matches = append(matches, *m)
		}
	}
	return matches, nil
}

func deadlineError(ctx context.Context, err error) error {
	if ctx.Err() == context.DeadlineExceeded {
		return problem.Wrap(problem.DeadlineExceeded, err, "the search took too long")
	}
	return err
}
