package bleve

import (
	"sync"

	"github.com/blevesearch/bleve/v2/index/scorch"
	segment "github.com/blevesearch/scorch_segment_api/v2"

	"fmt"
)

// columns contains the numbers of a segment's documents, indexed by document number.
type columns struct {
	step   []uint16 // score in steps of 1/search.ScoreSteps
	price  []int64
	joined []uint64
}

// columnCache caches the columns of the segments in use. Segments are immutable, so each is read
// once.
type columnCache struct {
	mu   sync.Mutex
	kept map[segment.Segment]*columns
}

// of returns the columns of a snapshot's segments in order. It drops the columns of all other
// segments from the cache.
func (c *columnCache) of(s *scorch.IndexSnapshot) ([]*columns, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	segmentColumns := make([]*columns, len(s.Segments()))
	used := make(map[segment.Segment]*columns, len(segmentColumns))
	for i, part := range s.Segments() {
		seg := part.Segment()
		cols := c.kept[seg]
		if cols == nil {
			var err error
			if cols, err = readColumns(seg); err != nil {
				return nil, err
			}
		}
		segmentColumns[i], used[seg] = cols, cols
	}
	c.kept = used
	return segmentColumns, nil
}

func readColumns(seg segment.Segment) (*columns, error) {
	docs := seg.Count()
	c := &columns{step: make([]uint16, docs), price: make([]int64, docs), joined: make([]uint64, docs)}
	values, ok := seg.(segment.DocValueVisitable)
	if !ok {
		return nil, unavailable(fmt.Errorf("a %T has no doc values", seg))
	}
	var (
		state segment.DocVisitState
		wrong error
		err   error
	)
	for d := range docs {
		state, err = values.VisitDocValues(d, []string{columnField}, func(_ string, term []byte) {
			c.step[d], c.price[d], c.joined[d], wrong = parseColumn(term)
		}, state)
		if err != nil || wrong != nil {
			return nil, damagedError(d, err, wrong)
		}
	}
	return c, nil
}
