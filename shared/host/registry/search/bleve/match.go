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

// part contains the matches of a query in one segment.
type part struct {
	segment *scorch.SegmentSnapshot
	columns *columns
	// docs contains the documents that may match. points is the maximum number of points of each
	// document. doubt marks documents whose match or points must be verified with the texts in
	// their proof (proof.go).
	docs   *roaring.Bitmap
	points []uint8
	doubt  []bool
}

// tier contains the documents that a word matches in one group and one kind.
type tier struct {
	points  int
	docs    *roaring.Bitmap
	certain bool // whether the matches need no verification
}

func match(ctx context.Context, seg *scorch.SegmentSnapshot, cols *columns, q *search.Query) (*part, error) {
	dict, err := seg.Segment().Dictionary(termField)
	if err != nil {
		return nil, unavailable(err)
	}
	p := &part{segment: seg, columns: cols, docs: seg.DocNumbersLive()}
	r := reader{dict: dict}
	certain := p.filter(&r, q)
	words := make([][]tier, len(q.Words))
	for i, w := range q.Words {
		if err := ctx.Err(); err != nil {
			return nil, unavailable(err)
		}
		words[i] = r.tiers(w)
	}
	p.filterWords(words, q.RequiredWords())
	if r.err != nil {
		return nil, unavailable(r.err)
	}
	if p.docs.IsEmpty() {
		return p, nil
	}
	size := p.docs.Maximum() + 1
	p.points, p.doubt = make([]uint8, size), make([]bool, size)
	if !certain {
		each(p.docs, func(d uint32) { p.doubt[d] = true })
	}
	for _, tiers := range words {
		p.add(tiers)
	}
	return p, nil
}

// filterWords removes documents that cannot have the minimum number of words.
func (p *part) filterWords(words [][]tier, least int) {
	if least == len(words) {
		for _, tiers := range words {
			p.docs = roaring.And(p.docs, union(tiers))
		}
		return
	}
	// some[i] contains the documents with more than i of the words so far.
	some := make([]*roaring.Bitmap, least)
	for i := range some {
		some[i] = roaring.New()
	}
	for _, tiers := range words {
		in := roaring.And(p.docs, union(tiers))
		for i := least - 1; i > 0; i-- {
			some[i].Or(roaring.And(some[i-1], in))
		}
		some[0].Or(in)
	}
	p.docs = some[least-1]
}

// filter removes documents that do not pass the filters. It returns false if the remaining
// documents must be verified.
func (p *part) filter(r *reader, q *search.Query) (certain bool) {
	for _, t := range q.Tags() {
		p.docs = roaring.And(p.docs, r.docs(string(tag)+t))
	}
	for _, f := range []struct {
		kind  rune
		value string
	}{{family, q.Family}, {claimed, q.ClaimedFamily}} {
		if f.value != "" {
			p.docs = roaring.And(p.docs, r.docs(string(f.kind)+f.value))
		}
	}
	if q.Text == "" {
		return true
	}
	letters, parts, certain := pieces(q.Text)
	p.docs = roaring.And(p.docs, r.all(letters))
	for _, part := range parts {
		var sets [search.Groups]*roaring.Bitmap
		for g, terms := range part {
			sets[g] = r.all(terms)
		}
		p.docs = roaring.And(p.docs, roaring.FastOr(sets[:]...))
	}
	return certain
}

func (p *part) add(tiers []tier) {
	rest := p.docs
	for _, t := range tiers {
		if rest.IsEmpty() {
			return
		}
		in := roaring.And(rest, t.docs)
		if in.IsEmpty() {
			continue
		}
		each(in, func(d uint32) {
			p.points[d] += uint8(t.points)
			if !t.certain {
				p.doubt[d] = true
			}
		})
		rest = roaring.AndNot(rest, t.docs)
	}
}

func each(docs *roaring.Bitmap, fn func(uint32)) {
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

// reader looks up terms in one segment. It records the first error.
type reader struct {
	dict segment.TermDictionary
	err  error
}

// tiers returns the matches of a word, most points first. A document may be in several tiers, but
// only its best tier counts.
func (r *reader) tiers(w string) []tier {
	var wordTiers []tier
	add := func(l *lookup, k search.Kind, docs *roaring.Bitmap, certain bool) {
		if !docs.IsEmpty() {
			wordTiers = append(wordTiers, tier{search.Points(search.Group(l.group), k), docs, certain})
		}
	}
	for _, l := range looks(w) {
		add(&l, search.Exact, r.docs(l.word), true)
		if l.form != "" {
			add(&l, search.Prefix, r.docs(l.form), true)
		}
		begin := r.docs(l.edge)
		if len(l.grams) > 0 {
			inside := r.all(l.grams)
			add(&l, search.KindInside, inside, l.inside)
			if !l.begins {
				begin = roaring.And(begin, inside)
			}
		}
		add(&l, search.Prefix, begin, l.begins)
	}
	slices.SortStableFunc(wordTiers, func(a, b tier) int {
		if c := cmp.Compare(b.points, a.points); c != 0 || a.certain == b.certain {
			return c
		}
		if a.certain {
			return -1
		}
		return 1
	})
	return wordTiers
}

func (r *reader) all(terms []string) *roaring.Bitmap {
	sets := make([]*roaring.Bitmap, len(terms))
	for i, t := range terms {
		if sets[i] = r.docs(t); sets[i].IsEmpty() {
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

// docs returns the documents that have a term. The bitmap refers to the segment's memory and must
// not be changed.
func (r *reader) docs(term string) *roaring.Bitmap {
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
