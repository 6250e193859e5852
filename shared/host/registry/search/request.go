package search

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// parse sets matchesNone if r.Query is not blank but contains no words.
func (r *Request) parse() (q Query, matchesNone bool, err error) {
	if q.Words, err = ParseWords(r.Query); err != nil {
		return q, false, err
	}
	if q.Text, err = ParseText(r.Text); err != nil {
		return q, false, err
	}
	text, err := ParseText(r.Query)
	if err != nil {
		return q, false, err
	}
	matchesNone = text != "" && len(q.Words) == 0
	if r.Limit < 0 || r.Limit > MaxLimit {
		return q, false, problem.Invalid("limit", "1 to "+strconv.Itoa(MaxLimit), strconv.Itoa(r.Limit))
	}
	if q.Limit = r.Limit; q.Limit == 0 {
		q.Limit = DefaultLimit
	}
	if err := r.setFilters(&q); err != nil {
		return q, false, err
	}
	q = q.WithStems()
	if r.Cursor != "" {
		place, err := q.parseCursor(r.Cursor)
		if relaxedQuery, ok := q.relax(); err != nil && r.AllowMissingWords && ok {
			q = relaxedQuery
			place, err = q.parseCursor(r.Cursor)
		}
		if err != nil {
			return q, false, err
		}
		q.After = &place
	}
	return q, matchesNone, nil
}

func (q Query) relax() (_ Query, ok bool) {
	n := len(q.Words)
	if q.MinWords = n/2 + 1; n == 2 {
		q.MinWords = 1
	}
	return q, n > 1
}

func (r *Request) setFilters(q *Query) error {
	for _, f := range []struct{ name, value string }{
		{"tag", r.Tag}, {"category", r.Category}, {"location", r.Area}, {"family", r.Family}, {"family", r.ClaimedFamily},
	} {
		if len(f.value) > MaxQueryBytes {
			return problem.Invalid(f.name, "at most "+strconv.Itoa(MaxQueryBytes)+" bytes", strconv.Itoa(len(f.value)))
		}
		if !utf8.ValidString(f.value) {
			return problem.Invalid(f.name, "UTF-8", "other bytes")
		}
	}
	if math.IsNaN(r.MinReputation) || r.MinReputation < 0 || r.MinReputation > 1 {
		return problem.Invalid("min_reputation", "0 to 1", strconv.FormatFloat(r.MinReputation, 'g', -1, 64))
	}
	if r.MaxPrice != nil && *r.MaxPrice < 0 {
		return problem.Invalid("max_price", "0 or more micro-dollars", strconv.FormatInt(*r.MaxPrice, 10))
	}
	if r.ShortID != "" {
		if !identity.IsShort(r.ShortID) {
			return problem.Invalid("id", "the first 12 digits of an id, in lower case", strconv.Quote(truncate(r.ShortID)))
		}
		if r.Tag != "" {
			return problem.Invalid("tag", "no tag together with id", strconv.Quote(truncate(r.Tag)))
		}
	}
	q.Tag, q.Family, q.ClaimedFamily = Normalise(r.Tag), r.Family, r.ClaimedFamily
	if r.ShortID != "" {
		q.Tag = shortIDTag(r.ShortID)
	}
	q.Category, q.Area, q.Bookable = Normalise(r.Category), Normalise(r.Area), r.Bookable
	q.MaxPrice, q.MinScore, q.ByScore = r.MaxPrice, r.MinReputation, r.ByScore
	return nil
}

// encodeCursor adds a checksum that detects cursors of other queries. It needs no secret key,
// because a forged place reveals no data.
func (q *Query) encodeCursor(p Place) string {
	b := binary.AppendUvarint(nil, uint64(q.WeightFromRank(p.Rank)))
	b = binary.AppendUvarint(b, p.FirstSeq)
	checksum := q.cursorChecksum(b)
	return base64.RawURLEncoding.EncodeToString(append(b, checksum[:]...))
}

const checksumSize = 12

func (q *Query) cursorChecksum(place []byte) (checksum [checksumSize]byte) {
	b := []byte("vacancy:search-cursor:v1")
	add := func(s string) {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	add(string(place))
	b = binary.AppendUvarint(b, uint64(len(q.Words)))
	for _, w := range q.Words {
		add(w)
	}
	for _, s := range []string{q.Text, q.Tag, q.Family, q.ClaimedFamily, q.Category, q.Area} {
		add(s)
	}
	price := int64(-1)
	if q.MaxPrice != nil {
		price = *q.MaxPrice
	}
	b = binary.AppendVarint(b, price)
	b = binary.AppendVarint(b, int64(ScoreStep(q.MinScore)))
	b = strconv.AppendBool(strconv.AppendBool(b, q.ByScore), q.Bookable)
	if q.MinWords > 0 {
		b = binary.AppendUvarint(b, uint64(q.MinWords))
	}
	sum := identity.Sum(b)
	copy(checksum[:], sum[:])
	return checksum
}

func (q *Query) parseCursor(s string) (Place, error) {
	invalidErr := problem.Invalid("cursor", "the cursor of an earlier page of this query", strconv.Quote(truncate(s)))
	if len(s) > 64 {
		return Place{}, invalidErr
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(b) < checksumSize {
		return Place{}, invalidErr
	}
	place, checksum := b[:len(b)-checksumSize], b[len(b)-checksumSize:]
	if c := q.cursorChecksum(place); string(c[:]) != string(checksum) {
		return Place{}, invalidErr
	}
	weight, n := binary.Uvarint(place)
	if n <= 0 || weight > math.MaxInt32 {
		return Place{}, invalidErr
	}
	firstSeq, m := binary.Uvarint(place[n:])
	if m <= 0 || n+m != len(place) {
		return Place{}, invalidErr
	}
	return Place{Rank: q.Rank(int(weight)), FirstSeq: firstSeq}, nil
}

func truncate(s string) string {
	if len(s) > 40 {
		return s[:40]
	}
	return s
}
