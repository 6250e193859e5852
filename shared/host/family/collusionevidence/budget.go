package collusionevidence

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// The limits from CollectionUnits to MaxUnits bound the cost of reading rows and plans. They are in
// read units: a unit is 4 KiB, and each read is rounded up to complete units. A collection has a
// budget of CollectionUnits, and each vacant has a smaller budget within it. Reading stops when a
// budget is used up. The last page may exceed the budget, so a collection costs at most MaxUnits,
// which is CollectionUnits plus the cost of one page.
const (
	CollectionUnits = 384
	VacantUnits     = 64 // limit for the responses of one vacant
	// TreeUnits is the budget for the plans of the child and of its descendants. It suffices for
	// plan.MaxCalls records and plans of usual length. SiblingTreeUnits is the budget for each
	// other vacant. It is small, because only one plan of the parent is read, and the siblings'
	// substrates can cause a refusal only in strict mode.
	TreeUnits        = 320
	SiblingTreeUnits = 32
	MaxUnits         = CollectionUnits + truncatedPageUnits

	unitBytes = 4 << 10
	// A page ends with the row that takes its size above pageBytes, so that all hosts get the same
	// result. The store may have read more rows, up to the megabyte at which DynamoDB ends a page.
	// Such a page therefore costs truncatedPageUnits.
	pageBytes          = 512 << 10
	truncatedPageUnits = 1 << 20 / unitBytes
	// pageRows is the number of rows per request. It is small, because a row may have store.MaxData
	// bytes.
	pageRows = 8
	// maxPages limits the pages of rows per vacant, regardless of their size.
	maxPages = 16
	// rowBytes is the maximum size of a row without its data.
	rowBytes = 128
)

// readBudget is a number of remaining read units.
type readBudget struct {
	units  int
	parent *readBudget // larger budget to which the same units are charged, or nil
}

func (p *readBudget) newShare(n int) *readBudget { return &readBudget{n, p} }

func (p *readBudget) isEmpty() bool { return p.units <= 0 || p.parent != nil && p.parent.isEmpty() }

func (p *readBudget) spend(bytes int) {
	for units := max(1, (bytes+unitBytes-1)/unitBytes); p != nil; p = p.parent {
		p.units -= units
	}
}

// readPage reads up to n of a pair's responses, newest first, and charges them to the budget.
// truncated means that the page ended at its size limit before n rows, although older responses
// exist.
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
