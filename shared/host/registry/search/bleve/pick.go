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
		return nil, problem.New(problem.Malformed, "expected a limit of 1 to %d hits and at most %d words", search.MaxPage, search.MaxWords)
	}
	q = q.WithStems()
	err = x.withSnapshot(func(s *scorch.IndexSnapshot) error {
		cols, err := x.columns.segmentColumns(s)
		if err != nil {
			return err
		}
		p := picker{q: &q, limit: q.Limit}
		if q.After != nil {
			p.after = &place{q.WeightFromRank(q.After.Rank), q.After.FirstSeq}
		}
		for i, seg := range s.Segments() {
			part, err := matchSegment(ctx, seg, cols[i], &q)
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

// place is a search.Place with the weight instead of the rank.
type place struct {
	weight   int
	firstSeq uint64
}

func (p place) ranksBefore(o place) bool {
	if p.weight != o.weight {
		return p.weight > o.weight
	}
	return p.firstSeq < o.firstSeq
}

// candidate is a document and its place, or its best possible place if the match must still be
// verified.
type candidate struct {
	place
	part *segmentMatches
	doc  uint32
}

type picker struct {
	q     *search.Query
	limit int
	after *place
	parts []*segmentMatches
	// best contains the verified documents in order, up to limit.
	best []candidate
	// lastConsidered is the last place of the previous rounds, or nil in the first round.
	lastConsidered *place
}

const (
	extraCandidates  = 32
	maxCandidates    = 1 << 14
	ctxCheckInterval = 64
)

// pick selects the documents with the best possible places and verifies the uncertain ones. It
// continues until the remaining documents cannot be on the page.
func (p *picker) pick(ctx context.Context) ([]search.Hit, error) {
	for size := p.limit + extraCandidates; ; size = min(2*size, maxCandidates) {
		top := p.nextCandidates(size)
		for i, cand := range top {
			if i%ctxCheckInterval == 0 && ctx.Err() != nil {
				return nil, unavailableError(ctx.Err())
			}
			if err := p.consider(cand); err != nil {
				return nil, err
			}
			if len(p.best) == p.limit && !cand.ranksBefore(p.best[p.limit-1].place) {
				return p.collectHits()
			}
		}
		if len(top) < size {
			return p.collectHits()
		}
		p.lastConsidered = &top[len(top)-1].place
	}
}

func (p *picker) nextCandidates(size int) []candidate {
	h := make(candidateHeap, 0, min(size, 1024))
	for _, part := range p.parts {
		forEachDoc(part.docs, func(d uint32) {
			docPlace, ok := p.bestPlace(part, d)
			if !ok || len(h) == size && !docPlace.ranksBefore(h[0].place) {
				return
			}
			cand := candidate{docPlace, part, d}
			if len(h) < size {
				heap.Push(&h, cand)
				return
			}
			h[0] = cand
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

// bestPlace returns the best possible place of a document. It returns false if the document cannot
// be on the page or was already considered.
func (p *picker) bestPlace(part *segmentMatches, d uint32) (place, bool) {
	cols := part.columns
	if p.q.MaxPrice != nil && cols.prices[d] > *p.q.MaxPrice || int(cols.scoreSteps[d]) < search.ScoreStep(p.q.MinScore) {
		return place{}, false
	}
	docPlace := place{p.q.Weight(int(part.points[d]), int(cols.scoreSteps[d])), cols.firstSeqs[d]}
	if p.lastConsidered != nil && !p.lastConsidered.ranksBefore(docPlace) {
		return docPlace, false
	}
	return docPlace, part.uncertain[d] || p.after == nil || p.after.ranksBefore(docPlace)
}

func (p *picker) consider(cand candidate) error {
	if cand.part.uncertain[cand.doc] {
		points, ok, err := p.verifyMatch(cand)
		if err != nil || !ok {
			return err
		}
		cand.weight = p.q.Weight(points, int(cand.part.columns.scoreSteps[cand.doc]))
		if p.after != nil && !p.after.ranksBefore(cand.place) {
			return nil
		}
	}
	index, _ := slices.BinarySearchFunc(p.best, cand, func(a, b candidate) int {
		if a.ranksBefore(b.place) {
			return -1
		}
		return 1
	})
	if index == p.limit {
		return nil
	}
	p.best = slices.Insert(p.best, index, cand)
	p.best = p.best[:min(len(p.best), p.limit)]
	return nil
}

func (p *picker) verifyMatch(cand candidate) (points int, ok bool, err error) {
	err = cand.part.segment.VisitDocument(uint64(cand.doc), func(name string, _ byte, value []byte, _ []uint64) bool {
		if name != proofField {
			return true
		}
		points, ok = matchProof(p.q, string(value))
		return false
	})
	if err != nil {
		return 0, false, unavailableError(err)
	}
	return points, ok, nil
}

func (p *picker) collectHits() ([]search.Hit, error) {
	hits := make([]search.Hit, 0, len(p.best))
	for _, cand := range p.best {
		raw, err := cand.part.segment.DocID(uint64(cand.doc))
		if err != nil || len(raw) != identity.Size {
			return nil, damagedError(uint64(cand.doc), err, nil)
		}
		hits = append(hits, search.Hit{
			ID:    identity.ID(raw),
			Place: search.Place{Rank: p.q.Rank(cand.weight), FirstSeq: cand.firstSeq},
		})
	}
	return hits, nil
}

func damagedError(doc uint64, errs ...error) error {
	return problem.Wrap(problem.Damaged, errors.Join(errs...), "document %d of the search index is damaged", doc)
}

// candidateHeap is a heap whose root is the candidate that ranks last.
type candidateHeap []candidate

func (h candidateHeap) Len() int           { return len(h) }
func (h candidateHeap) Less(i, j int) bool { return h[j].ranksBefore(h[i].place) }
func (h candidateHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *candidateHeap) Push(x any)        { *h = append(*h, x.(candidate)) }
func (h *candidateHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
