package search

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/card"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Registry is where hits are read again: host/registry's Reread, strongly
// consistent.
type Registry interface {
	Reread(ctx context.Context, id identity.ID, last *registry.Reading) (*registry.Reading, error)
}

// Config is what a Service is made of. Index, Registry, Now and Log are needed.
type Config struct {
	Index    Index
	Registry Registry
	Now      func() time.Time
	Log      *slog.Logger
	// Refresh brings the index up to date before it is asked, as far as that is
	// due; live's does. Where it fails, the index is asked as it is: its hits
	// are read again anyhow, and what is new is missing for a moment.
	Refresh func(context.Context) error
	// Timeout is the most time that one Find takes; 5 seconds if 0.
	Timeout time.Duration
}

const (
	// MaxLimit is the largest page that a caller gets (PROTOCOL §21).
	MaxLimit = 100
	// DefaultLimit is the page where nobody says.
	DefaultLimit = 20

	timeout = 5 * time.Second
	// spare hits are fetched with a page, for those that fall away.
	spare = 8
	// maxLooked is the most hits that one Find looks at: an index full of lies
	// gives a short page with a cursor, not a long wait.
	maxLooked = 1000
	// readers at a time of the registrations of a page.
	readers = 16
	// maxRead is how many bytes of registrations one Find reads, but for the last
	// few: a hundred of an ordinary size. Reading is what a search costs, and who
	// searches is nobody in particular: large cards make a short page with a
	// cursor, not a dear one.
	maxRead = 256 << 10
)

// Service answers searches. It is safe for concurrent use.
type Service struct {
	Config
	verified *recent[identity.Hash, bool]
	readings *recent[identity.ID, *prepared]
}

// New makes a Service.
func New(c Config) *Service {
	if c.Timeout == 0 {
		c.Timeout = timeout
	}
	return &Service{
		Config:   c,
		verified: newRecent[identity.Hash, bool](keptVerdicts),
		readings: newRecent[identity.ID, *prepared](keptReadings),
	}
}

// Request is what somebody looks for. The zero Request is everything that is
// listed, by rank.
type Request struct {
	// Query is words, all of which have to match.
	Query string
	// Text has to be a part of one declared text, as it stands but normalised:
	// what the reference's search does.
	Text string
	// Tag and Family are of the listing, which the vacant has signed or the
	// operator has set; ClaimedFamily is what whoever published claims.
	Tag, Family, ClaimedFamily string
	MaxPrice                   *int64 // micro-dollars a call
	MinReputation              float64
	// ByScore ranks by reputation alone, as the reference does.
	ByScore bool
	// Limit is 1 to MaxLimit; DefaultLimit if 0.
	Limit  int
	Cursor string // of the page before
}

// Match is one answer: what the store says now.
type Match struct {
	Registration registry.Registration
	Card         card.Card // parsed and verified
	Score        float64
	Rank         float64
}

// Page is one page of answers. Next is the cursor of the next page; "" after
// the last.
type Page struct {
	Matches []Match
	Next    string
}

// Find answers r. Errors are of kind Malformed for a request beyond its limits
// or a cursor that is not of this request, Unavailable or Deadline.
func (s *Service) Find(ctx context.Context, r Request) (Page, error) {
	q, none, err := r.parse()
	if err != nil || none {
		return Page{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	s.refresh(ctx)
	return s.fill(ctx, q)
}

// refresh brings the index up to date, and leaves time to ask it as it is:
// who publishes a lot makes searches old, not fail.
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

// fill asks the index until the page is full or there is nothing more.
func (s *Service) fill(ctx context.Context, q Query) (Page, error) {
	want, page := q.Limit, Page{}
	var read atomic.Int64
	for looked := 0; ; {
		q.Limit = min(want-len(page.Matches)+spare, MaxPage)
		hits, err := s.Index.Query(ctx, q)
		if err != nil {
			return Page{}, late(ctx, err)
		}
		// The spare hits are read only if others fall away.
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

// read reads hits again, and leaves out each that falls away. It adds to size
// what it has read.
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

// late says Deadline for what failed because Find's own time was over.
func late(ctx context.Context, err error) error {
	if ctx.Err() == context.DeadlineExceeded {
		return problem.Wrap(problem.Deadline, err, "the search took too long")
	}
	return err
}
