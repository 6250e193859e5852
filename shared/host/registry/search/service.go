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

// Registry reads the registrations of hits with strongly consistent reads. *registry.Registry
// implements it.
type Registry interface {
	Reread(ctx context.Context, id identity.ID, last *registry.CachedRegistration) (*registry.CachedRegistration, error)
}

// Config configures a Service. Refresh and Timeout are optional.
type Config struct {
	Index    Index
	Registry Registry
	Now      func() time.Time
	Log      *slog.Logger
	// Refresh updates the index if an update is due, for example with live.Live. If it fails, the
	// query uses the current index. Hits are verified anyway, so only new entries are missing.
	Refresh func(context.Context) error
	// Timeout limits one Find. Zero means 5 seconds.
	Timeout time.Duration
}

const (
	// MaxLimit is the maximum page size (PROTOCOL §21).
	MaxLimit     = 100
	DefaultLimit = 20

	defaultTimeout = 5 * time.Second
	// spareHits is the number of additional hits per page, which replace dropped hits.
	spareHits = 8
	// maxVerifiedHits limits the hits that one Find verifies. If an index contains many invalid
	// entries, the result is a short page with a cursor and not a long wait.
	maxVerifiedHits = 1000
	// maxConcurrentReads limits concurrent reads of registrations.
	maxConcurrentReads = 16
	// maxReadBytes limits the bytes of registrations that one Find reads. The last batch may exceed
	// it. It suffices for a hundred registrations of ordinary size. Anyone may search, so large
	// cards lead to a short page with a cursor and not to an expensive search.
	maxReadBytes = 256 << 10
)

// Service answers searches. It is safe for concurrent use.
type Service struct {
	Config
	cardVerdicts  *lru.Cache[identity.Hash, bool]                // results of isOwnCard, keyed by the hash of the card's blob
	registrations *lru.Cache[identity.ID, *preparedRegistration] // registrations that were read and prepared for matching
}

func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // all sizes are positive constants
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
	// Query contains words that must all match. See ParseWords.
	Query string
	// AllowMissingWords accepts entries with most of the words if no entry has all words.
	AllowMissingWords bool
	// Text must be a substring of a declared text after normalisation, as in the reference's
	// search.
	Text string
	// Tag and Family are compared with the listing, which the vacant has signed or the operator has
	// set. ClaimedFamily is compared with the publisher's claim.
	Tag, Family, ClaimedFamily string
	// Category and Area are compared with the venue. Bookable excludes venues without bookings.
	Category, Area string
	Bookable       bool
	// ShortID is the first 12 digits of an id. It cannot be combined with Tag.
	ShortID       string
	MaxPrice      *int64 // micro-dollars per call
	MinReputation float64
	// ByScore orders the results only by reputation, as in the reference.
	ByScore bool
	// Limit is 1 to MaxLimit. Zero means DefaultLimit.
	Limit  int
	Cursor string // cursor from the previous page
}

// Match is a result with the current registration.
type Match struct {
	Registration registry.Registration
	Card         card.Card // parsed and verified
	Score        float64
	Rank         float64
	MissingWords []string // words of the query that do not match
}

// Page is a page of results. Next is the cursor of the next page, or "" after the last page.
type Page struct {
	Matches []Match
	Next    string
}

// Find returns the results of r. The error is Malformed if r exceeds a limit or its cursor belongs
// to another request, and otherwise Unavailable or DeadlineExceeded.
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

// refresh updates the index but leaves time for the query. If many vacants publish at once,
// searches return outdated results instead of failing.
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
