// Package search finds vacants by capability. An Index proposes vacants and their order, but is
// never trusted: Service reads each hit from the store, verifies the signature of its card, and
// drops unlisted vacants.
//
// All words of a query must match an entry. A word has the points of its best match:
//
//	                                     exact  prefix  inside
//	name, capability of the card, tags,     16      12       8
//	skills; slug, name, category of a venue
//	summary of the listing                  12       9       6
//	claimed by the publisher                 8       6       4
//
// The relevance is the mean of the words' points, divided by 16. Rank = relevance × (0.5 + 0.5 ×
// score), where score is the earned reputation.
package search

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

type Entry struct {
	ID         identity.ID
	Name       string
	FirstSeq   uint64
	Capability string
	// DeclaredCapabilities and ClaimedFamily are unsigned claims of the publisher.
	DeclaredCapabilities []string
	Tags, Skills         []string
	Summary, Family      string
	ClaimedFamily        string
	// Price is in micro-dollars per call.
	Price int64
	// VenueTexts is empty for the default venue, whose words would match all vacants.
	VenueTexts []string
	Category   string
	Areas      []string
	Bookable   bool
	// Score is from 0 to 1.
	Score float64
}

// Batch is an atomic change of an index. An id must not be in both Put and Remove.
type Batch struct {
	Put    []Entry
	Remove []identity.ID
	// Mark is the position in the registry's feed of changes that the index has reached. An empty
	// Mark keeps the stored mark.
	Mark string
}

// A Query without words and filters selects all entries.
type Query struct {
	Words []string
	// MinWords is the number of words that must match. Zero means all words.
	MinWords    int
	cachedWords []queryWord
	// Text must be a substring of a normalised declared capability.
	Text                  string
	Tag                   string
	Category, Area        string
	Bookable              bool
	Family, ClaimedFamily string
	MaxPrice              *int64
	MinScore              float64
	ByScore               bool
	After                 *Place
	Limit                 int
}

func (q *Query) RequiredWords() int {
	if q.MinWords <= 0 {
		return len(q.Words)
	}
	return min(q.MinWords, len(q.Words))
}

// MaxPage limits Query.Limit. It is larger than MaxLimit, because verification may drop hits.
const MaxPage = 500

type Hit struct {
	ID identity.ID
	Place
}

// Place is the position of a hit: by descending Rank and then by ascending FirstSeq.
type Place struct {
	Rank     float64
	FirstSeq uint64
}

func (p Place) Before(q Place) bool {
	if p.Rank != q.Rank {
		return p.Rank > q.Rank
	}
	return p.FirstSeq < q.FirstSeq
}

// Index is a full-text index. All methods are safe for concurrent use. A Query that starts after
// Apply has returned sees its changes.
type Index interface {
	Apply(ctx context.Context, b Batch) error
	Query(ctx context.Context, q Query) ([]Hit, error)
	// Mark returns the last mark that was passed to Apply, or "".
	Mark(ctx context.Context) (string, error)
	Count(ctx context.Context) (int, error)
	Close() error
}
