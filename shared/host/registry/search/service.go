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

// Registry reads hits again, strongly consistent; *registry.Registry implements
// it.
type Registry interface {
	Reread(ctx context.Context, id identity.ID, last *registry.Reading) (*registry.Reading, error)
}

// Config configures a Service. Index, Registry, Now and Log are required.
type Config struct {
	Index    Index
	Registry Registry
	Now      func() time.Time
	Log      *slog.Logger
	// Refresh brings the index up to date if that is due; live.Live's does. If
	// it fails, the query uses the index as it is: hits are verified anyway,
	// and new entries are missing for a moment.
	Refresh func(context.Context) error
	// Timeout bounds one Find; 5 seconds if 0.
	Timeout time.Duration
}

const (
	// MaxLimit is the largest page (PROTOCOL §21).
	MaxLimit = 100
	// DefaultLimit is the page size if none is requested.
	DefaultLimit = 20

	timeout = 5 * time.Second
	// spare is the number of extra hits fetched with a page, to replace dropped
	// ones.
	spare = 8
	// maxLooked bounds the hits that one Find verifies: an index full of
	// invalid entries gives a short page with a cursor, not a long wait.
	maxLooked = 1000
	// readers bounds concurrent reads of registrations.
	readers = 16
	// maxRead bounds the bytes of registrations that one Find reads, except for
	// the last few: a hundred of ordinary size. Reads are the cost of a search,
	// which anybody may make: large cards give a short page with a cursor, not
	// an expensive one.
	maxRead = 256 << 10
)

// Service answers searches. It is safe for concurrent use.
type Service struct {
	Config
	verified *lru.Cache[identity.Hash, bool]
	readings *lru.Cache[identity.ID, *prepared]
}

// newCache returns a cache of the most recently used items.
func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	c, err := lru.New[K, V](size)
	if err != nil {
		panic(err) // for a size that is not positive
	}
	return c
}

// New makes a Service.
func New(c Config) *Service {
	c.Timeout = cmp.Or(c.Timeout, timeout)
	return &Service{
		Config:   c,
		verified: newCache[identity.Hash, bool](keptVerdicts),
		readings: newCache[identity.ID, *prepared](keptReadings),
	}
}

// Request is a search. The zero Request returns everything that is listed, by
// rank.
type Request struct {
	// Query contains words, all of which must match (ParseWords).
	Query string
	// Most finds entries with most of the words, if no entry has all.
	Most bool
	// Text must be a substring of one declared text, after normalisation, like
	// the reference's search.
	Text string
	// Tag and Family are the listing's, signed by the vacant or set by the
	// operator; ClaimedFamily is the publisher's claim.
	Tag, Family, ClaimedFamily string
	// Category and Area are a venue's; Bookable excludes vacants that take no
	// bookings.
	Category, Area string
	Bookable       bool
	// ShortID is the first 12 digits of an id; it takes the place of Tag.
	ShortID       string
	MaxPrice      *int64 // micro-dollars a call
	MinReputation float64
	// ByScore ranks only by reputation, like the reference.
	ByScore bool
	// Limit is 1 to MaxLimit; DefaultLimit if 0.
	Limit  int
	Cursor string // from the previous page
}

// Match is one result, as the store has it now.
type Match struct {
	Registration registry.Registration
	Card         card.Card // parsed and verified
	Score        float64
	Rank         float64
	Missing      []string // words of the query that it lacks
}

// Page is a page of results. Next is the cursor of the next page; "" after the
// last.
type Page struct {
	Matches []Match
	Next    string
}

// Find answers r. Errors are of kind Malformed for a request beyond its limits
// or another request's cursor, Unavailable or Deadline.
func (s *Service) Find(ctx context.Context, r Request) (Page, error) {
	q, none, err := r.parse()
	if err != nil || none {
		return Page{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	s.refresh(ctx)
	page, err := s.fill(ctx, q)
	if most, ok := q.most(); err == nil && r.Most && ok && r.Cursor == "" && len(page.Matches) == 0 && page.Next == "" {
		return s.fill(ctx, most)
	}
	return page, err
}

// refresh refreshes the index but leaves time to query it as it is: a flood of
// publications makes searches stale, not fail.
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

// fill queries the index until the page is full or the index has no more hits.
func (s *Service) fill(ctx context.Context, q Query) (Page, error) {
	want, page := q.Limit, Page{}
	var read atomic.Int64
	for looked := 0; ; {
		q.Limit = min(want-len(page.Matches)+spare, MaxPage)
		hits, err := s.Index.Query(ctx, q)
		if err != nil {
			return Page{}, late(ctx, err)
		}
		// Spare hits are verified only if others are dropped.
		for rest := hits; len(rest) > 0; {
			some := rest[:min(len(rest), want-len(page.Matches), readers)]
			rest = rest[len(some):]
			matches, err := s.read(ctx, &q, some, &read)
			if err != nil {
				return Page{}, late(ctx, err)
			}
			page.Matches = append(page.Matches, matches...)
			if len(page.Matches) == want || read.Load() >= maxRead {
				if len(rest) > 0 || len(hits) == q.Limit {
					page.Next = q.cursor(some[len(some)-1].Place)
				}
				return page, nil
			}
		}
		if len(hits) < q.Limit {
			return page, nil
		}
		q.After = &hits[len(hits)-1].Place
		if looked += len(hits); looked >= maxLooked {
			page.Next = q.cursor(*q.After)
			return page, nil
		}
	}
}

// read verifies hits and drops the invalid ones. It adds the bytes that it read
// to size.
func (s *Service) read(ctx context.Context, q *Query, hits []Hit, size *atomic.Int64) ([]Match, error) {
	all := make([]*Match, len(hits))
	g, ctx := errgroup.WithContext(ctx)
	for i, h := range hits {
		g.Go(func() (err error) {
			all[i], err = s.verify(ctx, q, h, size)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	matches := make([]Match, 0, len(all))
	for _, m := range all {
		if m != nil {
			matches = append(matches, *m)
		}
	}
	return matches, nil
}

// late returns Deadline for an error after Find's own timeout.
func late(ctx context.Context, err error) error {
	if ctx.Err() == context.DeadlineExceeded {
		return problem.Wrap(problem.Deadline, err, "the search took too long")
	}
	return err
}
