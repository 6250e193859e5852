package bleve

import (
	"sync"

	"github.com/blevesearch/bleve/v2/index/scorch"
	segment "github.com/blevesearch/scorch_segment_api/v2"

	"fmt"
)

type columns struct {
	scoreSteps []uint16
	prices     []int64
	firstSeqs  []uint64
}

// columnCache caches the columns of the segments in use. Segments are immutable.
type columnCache struct {
	mu        sync.Mutex
	bySegment map[segment.Segment]*columns
}

// segmentColumns returns the columns of the segments of s. It drops all other columns from the
// cache.
func (c *columnCache) segmentColumns(s *scorch.IndexSnapshot) ([]*columns, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	columnsList := make([]*columns, len(s.Segments()))
	used := make(map[segment.Segment]*columns, len(columnsList))
	for i, segSnapshot := range s.Segments() {
		seg := segSnapshot.Segment()
		cols := c.bySegment[seg]
		if cols == nil {
			var err error
			if cols, err = readColumns(seg); err != nil {
				return nil, err
			}
		}
		columnsList[i], used[seg] = cols, cols
	}
	c.bySegment = used
	return columnsList, nil
}

func readColumns(seg segment.Segment) (*columns, error) {
	docs := seg.Count()
	c := &columns{scoreSteps: make([]uint16, docs), prices: make([]int64, docs), firstSeqs: make([]uint64, docs)}
	values, ok := seg.(segment.DocValueVisitable)
	if !ok {
		return nil, unavailableError(fmt.Errorf("a %T has no doc values", seg))
	}
	var (
		state    segment.DocVisitState
		parseErr error
		err      error
	)
	for d := range docs {
		state, err = values.VisitDocValues(d, []string{columnField}, func(_ string, term []byte) {
			c.scoreSteps[d], c.prices[d], c.firstSeqs[d], parseErr = parseColumn(term)
		}, state)
		if err != nil || parseErr != nil {
			return nil, damagedError(d, err, parseErr)
		}
	}
	return c, nil
}
