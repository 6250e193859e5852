// Package search finds vacants by capability: the words of a query, the rank of
// a match, the index port, and the service that verifies every hit before it is
// shown.
//
// The invariant: an index is never trusted. It only proposes vacants and their
// order; each hit is read from the store, its card's signature verified, and
// unlisted vacants dropped.
//
// # Words
//
// Text is normalised (Normalise), then cut into words (Words): runs of letters,
// marks and digits, with the + and # that end one ("c++", "c#"), and every
// symbol like an emoji by itself. All else separates, so that a wildcard or the
// punctuation of JSON means nothing. Scripts written without spaces (Han, Kana,
// Hangul, Thai, Lao, Khmer, Burmese) are cut from the others and kept in one
// run.
//
// Every word of a query has to match an entry, but English words that say nothing
// ("a", "to") unless there are no others. A word matches a word of the entry if that is
// the same (Exact), begins with it or is another form of the same English word (Prefix),
// or has it anywhere (Inside: from three runes on, in scripts without spaces from one).
//
// Where no entry has all words, a search may ask for entries that have most of the words
// (Request.Most): more than half of three or more, one of two.
//
// # Rank
//
// A word is worth the most that any match of it is worth (Points), by the field's group
// and the kind of match; a missing word is worth nothing:
//
//	                                     exact  prefix  inside
//	name, capability of the card, tags,     16      12       8
//	skills; slug, name, category of a venue
//	summary of the listing                  12       9       6
//	claimed, by whoever published            8       6       4
//
// Relevance is the mean over the words, divided by 16; without words it is 1.
// Rank = relevance × (0.5 + 0.5 × score), score being the mean of the factual,
// logical and relevance dimensions in steps of 1/4096. Neither depends on other
// entries, so that a cursor stays where it is while others write. All is
// integer arithmetic (Rank), so that every index gets the same numbers. Of
// equals the one that joined first comes first.
package search

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Entry is the document of one vacant in an index.
type Entry struct {
	ID identity.ID
	// Name is the host's name for a vacant that it runs; "" for others.
	Name string
	// Joined is the position of the vacant's first event, unique and above 0.
	Joined uint64
	// Capability is the text of the signed card.
	Capability string
	// Declared are the capabilities that the publisher claims; unsigned.
	Declared []string
	// Tags, Skills, Summary and Family are the listing's.
	Tags, Skills    []string
	Summary, Family string
	// ClaimedFamily is the base model's family that the publisher claims.
	ClaimedFamily string
	// Price is micro-dollars a call.
	Price int64
	// VenueTexts are slug, name and category of the listing's venue; none of the default
	// one, whose words would find everybody.
	VenueTexts []string
	// Category is the venue's, Areas its location and the others that it serves.
	Category string
	Areas    []string
	Bookable bool
	// Score is the mean of three reputation dimensions, 0 to 1.
	Score float64
}

// Batch is one change of an index, applied as a whole or not at all. Putting an
// entry replaces the one of the same id; an id is in one of Put and Remove at
// most, and removing an absent id is not an error.
type Batch struct {
	Put    []Entry
	Remove []identity.ID
	// Mark, if set, is stored with the batch: the position in the registry's
	// changes that the index reached.
	Mark string
}

// Query selects and orders entries. The zero Query returns every entry by rank.
type Query struct {
	// Words are normalised, as ParseWords returns them. Needed of them must match.
	Words []string
	// Least is the number of Words that must match. Zero means all.
	Least  int
	sought []sought // Words, if the query is Prepared
	// Text is normalised and must be a substring of one normalised Declared
	// text; "" matches every entry.
	Text string
	// Tag is normalised and must equal one of the listing's normalised tags.
	Tag string
	// Category and Area are normalised and must equal the venue's category, and one of its
	// areas. Bookable excludes those that take no bookings.
	Category, Area string
	Bookable       bool
	// Family and ClaimedFamily are compared byte by byte.
	Family, ClaimedFamily string
	// MaxPrice, if set, is the highest price.
	MaxPrice *int64
	// MinScore is the lowest Score, in steps of 1/4096.
	MinScore float64
	// ByScore ranks only by score.
	ByScore bool
	// After is the place after which the page begins; nil for the first page.
	After *Place
	// Limit is the size of the page, 1 to MaxPage.
	Limit int
}

// Needed returns the number of q's words that must match.
func (q *Query) Needed() int {
	if q.Least <= 0 {
		return len(q.Words)
	}
	return min(q.Least, len(q.Words))
}

// MaxPage bounds the hits of one query. It is more than a page of answers,
// because hits may be dropped when they are verified.
const MaxPage = 500

// Hit is one match of a query.
type Hit struct {
	ID identity.ID
	Place
}

// Place is the position of a hit in its query's order: by Rank descending, then
// by Joined ascending. It changes only with the entry.
type Place struct {
	Rank   float64
	Joined uint64
}

// Before reports whether p stands before q.
func (p Place) Before(q Place) bool {
	if p.Rank != q.Rank {
		return p.Rank > q.Rank
	}
	return p.Joined < q.Joined
}

// Index is a full-text index over entries. All methods are safe for concurrent
// use and honour their context. A Query that begins after Apply returned sees
// its changes. Errors are of kind Unavailable, or Malformed for a query that
// the index does not support.
type Index interface {
	Apply(ctx context.Context, b Batch) error
	Query(ctx context.Context, q Query) ([]Hit, error)
	// Mark returns the last mark given to Apply; "" if there was none.
	Mark(ctx context.Context) (string, error)
	// Count is the number of entries.
	Count(ctx context.Context) (int, error)
	Close() error
}
