package bleve

import (
	"cmp"
	"context"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/blevesearch/bleve/v2/index/scorch"
	segment "github.com/blevesearch/scorch_segment_api/v2"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
)

type segmentMatches struct {
	segment *scorch.SegmentSnapshot
	columns *columns
	// docs contains the documents that may match, and points the maximum number of points of each
	// document. uncertain marks documents that must be verified with their proof.
	docs      *roaring.Bitmap
	points    []uint8
	uncertain []bool
}

// tier contains the documents that a word matches in one group and one kind.
type tier struct {
	points    int
	docs      *roaring.Bitmap
	isCertain bool
}

func matchSegment(ctx context.Context, seg *scorch.SegmentSnapshot, cols *columns, q *search.Query) (*segmentMatches, error) {
	dict, err := seg.Segment().Dictionary(termField)
	if err != nil {
		return nil, unavailableError(err)
	}
	p := &segmentMatches{segment: seg, columns: cols, docs: seg.DocNumbersLive()}
	tr := termReader{dict: dict}
	isCertain := p.applyFilters(&tr, q)
	words := make([][]tier, len(q.Words))
	for i, w := range q.Words {
		if err := ctx.Err(); err != nil {
			return nil, unavailableError(err)
		}
		words[i] = tr.findTiers(w)
	}
	p.filterWords(words, q.RequiredWords())
	if tr.err != nil {
		return nil, unavailableError(tr.err)
	}
	if p.docs.IsEmpty() {
		return p, nil
	}
	size := p.docs.Maximum() + 1
	p.points, p.uncertain = make([]uint8, size), make([]bool, size)
	if !isCertain {
		forEachDoc(p.docs, func(d uint32) { p.uncertain[d] = true })
	}
	for _, tiers := range words {
		p.addPoints(tiers)
	}
	return p, nil
}

func (p *segmentMatches) filterWords(words [][]tier, minWords int) {
	if minWords == len(words) {
		for _, tiers := range words {
			p.docs = roaring.And(p.docs, union(tiers))
		}
		return
	}
	// moreThan[i] contains the documents with more than i of the words so far.
	moreThan := make([]*roaring.Bitmap, minWords)
	for i := range moreThan {
		moreThan[i] = roaring.New()
	}
	for _, tiers := range words {
		matching := roaring.And(p.docs, union(tiers))
		for i := minWords - 1; i > 0; i-- {
			moreThan[i].Or(roaring.And(moreThan[i-1], matching))
		}
		moreThan[0].Or(matching)
	}
	p.docs = moreThan[minWords-1]
}

// applyFilters returns false if the remaining documents must be verified.
func (p *segmentMatches) applyFilters(tr *termReader, q *search.Query) (isCertain bool) {
	for _, t := range q.Tags() {
		p.docs = roaring.And(p.docs, tr.docsWithTerm(string(tagKind)+t))
	}
	for _, f := range []struct {
		kind  rune
		value string
	}{{familyKind, q.Family}, {claimedFamilyKind, q.ClaimedFamily}} {
		if f.value != "" {
			p.docs = roaring.And(p.docs, tr.docsWithTerm(string(f.kind)+f.value))
		}
	}
	if q.Text == "" {
		return true
	}
	letters, parts, isCertain := substringTerms(q.Text)
	p.docs = roaring.And(p.docs, tr.docsWithAll(letters))
	for _, part := range parts {
		var sets [search.GroupCount]*roaring.Bitmap
		for g, terms := range part {
			sets[g] = tr.docsWithAll(terms)
		}
		p.docs = roaring.And(p.docs, roaring.FastOr(sets[:]...))
	}
	return isCertain
}

func (p *segmentMatches) addPoints(tiers []tier) {
	rest := p.docs
	for _, t := range tiers {
		if rest.IsEmpty() {
			return
		}
		matching := roaring.And(rest, t.docs)
		if matching.IsEmpty() {
			continue
		}
		forEachDoc(matching, func(d uint32) {
			p.points[d] += uint8(t.points)
			if !t.isCertain {
				p.uncertain[d] = true
			}
		})
		rest = roaring.AndNot(rest, t.docs)
	}
}

func forEachDoc(docs *roaring.Bitmap, fn func(uint32)) {
	var buf [256]uint32
	for it := docs.ManyIterator(); ; {
		n := it.NextMany(buf[:])
		if n == 0 {
			return
		}
		for _, d := range buf[:n] {
			fn(d)
		}
	}
}

func union(tiers []tier) *roaring.Bitmap {
	sets := make([]*roaring.Bitmap, len(tiers))
	for i, t := range tiers {
		sets[i] = t.docs
	}
	return roaring.FastOr(sets...)
}

// termReader records the first error.
type termReader struct {
	dict segment.TermDictionary
	err  error
}

// findTiers returns the matches of a word, most points first. A document may be in several tiers.
func (r *termReader) findTiers(w string) []tier {
	var wordTiers []tier
	addTier := func(l *lookup, k search.Kind, docs *roaring.Bitmap, certain bool) {
		if !docs.IsEmpty() {
			wordTiers = append(wordTiers, tier{search.MatchPoints(search.Group(l.group), k), docs, certain})
		}
	}
	for _, l := range wordLookups(w) {
		addTier(&l, search.KindExact, r.docsWithTerm(l.word), true)
		if l.stem != "" {
			addTier(&l, search.KindPrefix, r.docsWithTerm(l.stem), true)
		}
		startDocs := r.docsWithTerm(l.edge)
		if len(l.grams) > 0 {
			inside := r.docsWithAll(l.grams)
			addTier(&l, search.KindInside, inside, l.isGramProof)
			if !l.isEdgeProof {
				startDocs = roaring.And(startDocs, inside)
			}
		}
		addTier(&l, search.KindPrefix, startDocs, l.isEdgeProof)
	}
	slices.SortStableFunc(wordTiers, func(a, b tier) int {
		if c := cmp.Compare(b.points, a.points); c != 0 || a.isCertain == b.isCertain {
			return c
		}
		if a.isCertain {
			return -1
		}
		return 1
	})
	return wordTiers
}

func (r *termReader) docsWithAll(terms []string) *roaring.Bitmap {
	sets := make([]*roaring.Bitmap, len(terms))
	for i, t := range terms {
		if sets[i] = r.docsWithTerm(t); sets[i].IsEmpty() {
			return sets[i]
		}
	}
	slices.SortFunc(sets, func(a, b *roaring.Bitmap) int { return cmp.Compare(a.GetCardinality(), b.GetCardinality()) })
	docs := sets[0]
	for _, s := range sets[1:] {
		if docs = roaring.And(docs, s); docs.IsEmpty() {
			break
		}
	}
	return docs
}

// docsWithTerm returns the documents that have a term. The bitmap refers to the segment's memory
// and must not be changed.
func (r *termReader) docsWithTerm(term string) *roaring.Bitmap {
	if r.err != nil {
		return roaring.New()
	}
	list, err := r.dict.PostingsList([]byte(term), nil, nil)
	if err != nil {
		r.err = err
		return roaring.New()
	}
	it, ok := list.Iterator(false, false, false, nil).(segment.OptimizablePostingsIterator)
	if !ok {
		return roaring.New() // scorch returns another type for an absent term
	}
	if doc, ok := it.DocNum1Hit(); ok {
		return roaring.BitmapOf(uint32(doc))
	}
	if docs := it.ActualBitmap(); docs != nil {
		return docs
	}
	return roaring.New()
}
