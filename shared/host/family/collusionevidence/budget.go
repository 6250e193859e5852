package collusionevidence

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// The constants bound the cost of reading. A unit is 4 KiB. The last page may exceed
// CollectionUnits, so a collection costs at most MaxUnits.
const (
	CollectionUnits = 384
	VacantUnits     = 64
	// TreeUnits is the budget for the plans of the child's tree, and SiblingTreeUnits for each
	// other vacant.
	TreeUnits        = 320
	SiblingTreeUnits = 32
	MaxUnits         = CollectionUnits + truncatedPageUnits

	unitBytes = 4 << 10
	// A page ends with the row that exceeds pageBytes, so that all hosts get the same result. Such
	// a page costs truncatedPageUnits, because DynamoDB may have read a megabyte.
	pageBytes          = 512 << 10
	truncatedPageUnits = 1 << 20 / unitBytes
	// pageRows is small, because a row may have store.MaxData bytes.
	pageRows = 8
	maxPages = 16
	// rowBytes is the maximum size of a row without its data.
	rowBytes = 128
)

type readBudget struct {
	units  int
	parent *readBudget // larger budget that is also charged, or nil
}

func (p *readBudget) newShare(n int) *readBudget { return &readBudget{n, p} }

func (p *readBudget) isEmpty() bool { return p.units <= 0 || p.parent != nil && p.parent.isEmpty() }

func (p *readBudget) spend(bytes int) {
	for units := max(1, (bytes+unitBytes-1)/unitBytes); p != nil; p = p.parent {
		p.units -= units
	}
}

// readPage returns a pair's responses, newest first. truncated means that rows are missing because
// of pageBytes.
func (c *Collector) readPage(ctx context.Context, pair call.Pair, start uint64, n int, budget *readBudget) (rows []store.Row, truncated bool, err error) {
	if rows, err = c.Store.Rows(ctx, pair.Responses(), start, n, store.Descending); err != nil {
		return nil, false, problem.Wrap(problem.Unavailable, err, "storage is unavailable; the responses of %s cannot be read", pair.Vacant.Short())
	}
	size := 0
	for i, row := range rows {
		if size += len(row.Data) + rowBytes; size > pageBytes {
			budget.spend(truncatedPageUnits * unitBytes)
			return rows[:i+1], i+1 < n && row.Position > 1, nil
		}
	}
	budget.spend(size)
	return rows, false, nil
}
