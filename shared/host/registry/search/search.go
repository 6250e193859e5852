// Package search finds vacants by capability. It defines the words of a query, the rank of a match
// and the interface of an index. Its Service verifies every hit before it is shown.
//
// An index is never trusted. It only proposes vacants and their order. Each hit is read from the
// store, the signature of its card is verified, and unlisted vacants are dropped.
//
// # Words
//
// Text is normalised (Normalise) and then cut into words (Words). A word is a run of letters, marks
// and digits, including the + and # at its end ("c++", "c#"). Every symbol, for example an emoji,
// is a word by itself. All other characters separate words, so wildcards and the punctuation of
// JSON have no effect. In scripts without spaces (Han, Kana, Hangul, Thai, Lao, Khmer, Burmese), a
// run of letters is one word and is separated from other scripts.
//
// All words of a query must match an entry. English stop words such as "a" and "to" are ignored
// unless the query has no other words. A word of the query matches a word of the entry in one of
// three ways: both are equal (KindExact); the entry's word starts with it or is another form of the
// same English word (KindPrefix); the entry's word contains it (KindInside). KindInside requires at
// least three runes, or one in scripts without spaces.
//
// If no entry has all words and Request.AllowMissingWords is set, a search accepts entries with one
// of two words, or with more than half of three or more words.
//
// # Rank
//
// A word has the points of its best match, which depend on the group of the field and the kind of
// the match. A missing word has no points:
//
//	                                     exact  prefix  inside
//	name, capability of the card, tags,     16      12       8
//	skills; slug, name, category of a venue
//	summary of the listing                  12       9       6
//	claimed by the publisher                 8       6       4
//
// The relevance is the mean of the words' points, divided by 16. For a query without words it is 1.
// Rank = relevance × (0.5 + 0.5 × score). The score is the earned reputation
// (reputation.State.EarnedScore), in steps of 1/4096. Relevance and score do not depend on other
// entries, so a cursor remains valid while other entries change. All computations use integers
// (Query.Weight), so that every index gets the same numbers. If ranks are equal, the vacant that
// joined first comes first.
package search

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Entry is the document of a vacant in an index.
type Entry struct {
	ID identity.ID
	// Name is the host's name for a vacant that it runs, or "".
	Name string
	// FirstSeq is the position of the vacant's first event. It is unique and above 0.
	FirstSeq   uint64
	Capability string
	// DeclaredCapabilities contains the capabilities that the publisher claims without a signature.
	DeclaredCapabilities []string
	// Tags, Skills, Summary and Family are from the listing.
	Tags, Skills    []string
	Summary, Family string
	// ClaimedFamily is the family of the base model, as claimed by the publisher.
	ClaimedFamily string
	// Price is in micro-dollars per call.
	Price int64
	// VenueTexts contains the slug, name and category of the listing's venue. It is empty for the
	// default venue, whose words would match all vacants.
	VenueTexts []string
	// Category is from the venue. Areas contains its location and the other areas that it serves.
	Category string
	Areas    []string
	Bookable bool
	// Score is the earned reputation, from 0 to 1.
	Score float64
}

// Batch is an atomic change of an index. Putting an entry replaces the entry with the same id. An
// id must not be in both Put and Remove. Removing an absent id is not an error.
type Batch struct {
	Put    []Entry
	Remove []identity.ID
	// Mark is the position in the registry's feed of changes that the index has reached. If it is
	// not empty, it is stored with the batch.
	Mark string
}

// Query selects and orders entries. The zero Query selects all entries.
type Query struct {
	// Words are normalised, as returned by ParseWords. RequiredWords returns how many of them must
	// match.
	Words []string
	// MinWords is the number of words that must match. Zero means all words.
	MinWords    int
	cachedWords []queryWord // Words with their stems, set by WithStems
	// Text is normalised and must be a substring of one of the normalised DeclaredCapabilities. An
	// empty Text matches every entry.
	Text string
	// Tag is normalised and must equal a normalised tag of the listing.
	Tag string
	// Category must equal the venue's category, and Area one of its areas. Both are normalised.
	// Bookable excludes venues without bookings.
	Category, Area string
	Bookable       bool
	// Family and ClaimedFamily are compared without normalisation.
	Family, ClaimedFamily string
	// MaxPrice is the maximum price. It may be nil.
	MaxPrice *int64
	// MinScore is the minimum score, compared in steps of 1/4096.
	MinScore float64
	// ByScore orders the hits only by score.
	ByScore bool
	// After is the place after which the page starts. It is nil for the first page.
	After *Place
	// Limit is the page size, from 1 to MaxPage.
	Limit int
}

func (q *Query) RequiredWords() int {
	if q.MinWords <= 0 {
		return len(q.Words)
	}
	return min(q.MinWords, len(q.Words))
}

// MaxPage limits the hits of one query. It is larger than a page of results, because verification
// may drop hits.
const MaxPage = 500

type Hit struct {
	ID identity.ID
	Place
}

// Place is the position of a hit in the order of its query: by descending Rank and then by
// ascending FirstSeq. It changes only if the entry changes.
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

// Index is a full-text index of entries. All methods are safe for concurrent use and respect their
// context. A Query that starts after Apply has returned sees its changes. Errors are of kind
// Unavailable, or Malformed for a query that the index does not support.
type Index interface {
	Apply(ctx context.Context, b Batch) error
	Query(ctx context.Context, q Query) ([]Hit, error)
	// Mark returns the last mark that was passed to Apply, or "".
	Mark(ctx context.Context) (string, error)
	// Count returns the number of entries.
	Count(ctx context.Context) (int, error)
	Close() error
}
