package collusionevidence

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// These limits apply to reads of rows and plans. They are in read units of 4 KB, rounded up. A
// collection has AllUnits, and each vacant a share of them. A reader whose budget is not empty may
// read one more page, which may be large, so a collection costs at most AllUnits and one page,
// which is MaxUnits.
const (
	AllUnits    = 384
	VacantUnits = 64 // reserved for the responses of a vacant
	// TreeUnits is for the child's plans. It suffices for plan.MaxCalls records and plans of usual
	// length. SiblingTreeUnits is for a sibling's plans, which can refuse only in strict mode.
	TreeUnits        = 320
	SiblingTreeUnits = 32
	MaxUnits         = AllUnits + cutUnits

	unitBytes = 4 << 10
	// A page ends after the row with which it exceeds pageBytes, and not where the store ends it,
	// so that all hosts get the same result. Rows after this end may have been read and are paid
	// for, up to the megabyte at which DynamoDB ends a page.
	pageBytes = 512 << 10
	cutUnits  = 1 << 20 / unitBytes
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
	left int
	of   *readBudget // budget that also pays, or nil
}

func (p *readBudget) share(n int) *readBudget { return &readBudget{n, p} }

func (p *readBudget) empty() bool { return p.left <= 0 || p.of != nil && p.of.empty() }

func (p *readBudget) spend(bytes int) {
	for units := max(1, (bytes+unitBytes-1)/unitBytes); p != nil; p = p.of {
		p.left -= units
	}
}

// page reads up to n of a pair's responses, newest first, and pays for them. cut means that there
// are more responses after the end of the page.
func (c *Collector) page(ctx context.Context, pair call.Pair, from uint64, n int, p *readBudget) (rows []store.Row, cut bool, err error) {
	if rows, err = c.Store.Rows(ctx, pair.Responses(), from, n, store.Descending); err != nil {
		return nil, false, problem.Wrap(problem.Unavailable, err, "storage is unavailable; the responses of %s cannot be read", pair.Vacant.Short())
	}
	size := 0
	for i, row := range rows {
		if size += len(row.Data) + rowBytes; size > pageBytes {
			p.spend(cutUnits * unitBytes)
			return rows[:i+1], i+1 < n && row.Position > 1, nil
		}
	}
	p.spend(size)
	return rows, false, nil
}
