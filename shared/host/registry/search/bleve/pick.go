package bleve

import (
	"container/heap"
	"context"
	"errors"
	"slices"

	"github.com/blevesearch/bleve/v2/index/scorch"

	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func (x *Index) Query(ctx context.Context, q search.Query) (hits []search.Hit, err error) {
	if q.Limit < 1 || q.Limit > search.MaxPage || len(q.Words) > search.MaxWords {
		return nil, problem.New(problem.Malformed, "a query has 1 to %d hits and at most %d words", search.MaxPage, search.MaxWords)
	}
	q = q.WithSoughtWords()
	err = x.reading(func(s *scorch.IndexSnapshot) error {
		cols, err := x.columns.of(s)
		if err != nil {
			return err
		}
		p := picker{q: &q, limit: q.Limit}
		if q.After != nil {
			p.after = &place{q.WeightOf(q.After.Rank), q.After.Joined}
		}
		for i, seg := range s.Segments() {
			part, err := match(ctx, seg, cols[i], &q)
			if err != nil {
				return err
			}
			if !part.docs.IsEmpty() {
				p.parts = append(p.parts, part)
			}
		}
		hits, err = p.pick(ctx)
		return err
	})
	return hits, err
}

// place is a search.Place with a weight in place of the rank.
type place struct {
	weight int
	joined uint64
}

func (p place) ranksBefore(o place) bool {
	if p.weight != o.weight {
		return p.weight > o.weight
	}
	return p.joined < o.joined
}

// candidate is a document together with its place. If the match of the document must still be
// verified, the place is the best possible place.
type candidate struct {
	place
	part *part
	doc  uint32
}

// picker selects the best documents of all segments.
type picker struct {
	q     *search.Query
	limit int
	after *place // place after which the page starts
	parts []*part
	// best contains the verified documents in order, up to limit.
	best []candidate
	// looked is the place down to which all documents were considered, or nil before the first
	// round.
	looked *place
}

const (
	// round is the number of documents that are selected at first in addition to a page.
	round = 32
	// maxRound limits the documents that are selected at once.
	maxRound = 1 << 14
	// checkEvery is the number of documents read between checks of the context.
	checkEvery = 64
)

// pick selects the documents with the best possible places and verifies the uncertain ones. It
// continues until the remaining documents cannot be on the page.
func (p *picker) pick(ctx context.Context) ([]search.Hit, error) {
	for size := p.limit + round; ; size = min(2*size, maxRound) {
		top := p.top(size)
		for i, f := range top {
			if i%checkEvery == 0 && ctx.Err() != nil {
				return nil, unavailable(ctx.Err())
			}
			if err := p.consider(f); err != nil {
				return nil, err
			}
			if len(p.best) == p.limit && !f.ranksBefore(p.best[p.limit-1].place) {
				return p.hits()
			}
		}
		if len(top) < size {
			return p.hits()
		}
		p.looked = &top[len(top)-1].place
	}
}

// top returns the best documents after looked.
func (p *picker) top(size int) []candidate {
	h := make(heapOf, 0, min(size, 1024))
	for _, part := range p.parts {
		each(part.docs, func(d uint32) {
			docPlace, ok := p.placeOf(part, d)
			if !ok || len(h) == size && !docPlace.ranksBefore(h[0].place) {
				return
			}
			f := candidate{docPlace, part, d}
			if len(h) < size {
				heap.Push(&h, f)
				return
			}
			h[0] = f
			heap.Fix(&h, 0)
		})
	}
	slices.SortFunc(h, func(a, b candidate) int {
		if a.ranksBefore(b.place) {
			return -1
		}
		return 1
	})
	return h
}

// placeOf returns the best possible place of a document. It returns false if the document cannot be
// on the page or was already considered.
func (p *picker) placeOf(part *part, d uint32) (place, bool) {
	c := part.columns
	if p.q.MaxPrice != nil && c.price[d] > *p.q.MaxPrice || int(c.step[d]) < search.ScoreStep(p.q.MinScore) {
		return place{}, false
	}
	docPlace := place{p.q.Weight(int(part.points[d]), int(c.step[d])), c.joined[d]}
	if p.looked != nil && !p.looked.ranksBefore(docPlace) {
		return docPlace, false
	}
	return docPlace, part.doubt[d] || p.after == nil || p.after.ranksBefore(docPlace)
}

func (p *picker) consider(f candidate) error {
	if f.part.doubt[f.doc] {
		points, ok, err := p.prove(f)
		if err != nil || !ok {
			return err
		}
		f.weight = p.q.Weight(points, int(f.part.columns.step[f.doc]))
		if p.after != nil && !p.after.ranksBefore(f.place) {
			return nil
		}
	}
	index, _ := slices.BinarySearchFunc(p.best, f, func(a, b candidate) int {
		if a.ranksBefore(b.place) {
			return -1
		}
		return 1
	})
	if index == p.limit {
		return nil
	}
	p.best = slices.Insert(p.best, index, f)
	p.best = p.best[:min(len(p.best), p.limit)]
	return nil
}

func (p *picker) prove(f candidate) (points int, ok bool, err error) {
	err = f.part.segment.VisitDocument(uint64(f.doc), func(name string, _ byte, value []byte, _ []uint64) bool {
		if name != proofField {
			return true
		}
		points, ok = matchProof(p.q, string(value))
		return false
	})
	if err != nil {
		return 0, false, unavailable(err)
	}
	return points, ok, nil
}

func (p *picker) hits() ([]search.Hit, error) {
	hits := make([]search.Hit, 0, len(p.best))
	for _, f := range p.best {
		raw, err := f.part.segment.DocID(uint64(f.doc))
		if err != nil || len(raw) != identity.Size {
			return nil, damagedError(uint64(f.doc), err, nil)
		}
		hits = append(hits, search.Hit{
			ID:    identity.ID(raw),
			Place: search.Place{Rank: p.q.Rank(f.weight), Joined: f.joined},
		})
	}
	return hits, nil
}

func damagedError(doc uint64, errs ...error) error {
	return problem.Wrap(problem.Damaged, errors.Join(errs...), "document %d of the search index is damaged", doc)
}

// heapOf is a heap of candidates. Its root is the candidate that ranks last.
type heapOf []candidate

func (h heapOf) Len() int           { return len(h) }
func (h heapOf) Less(i, j int) bool { return h[j].ranksBefore(h[i].place) }
func (h heapOf) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *heapOf) Push(f any)        { *h = append(*h, f.(candidate)) }
func (h *heapOf) Pop() any {
	old := *h
	f := old[len(old)-1]
	*h = old[:len(old)-1]
	return f
}
