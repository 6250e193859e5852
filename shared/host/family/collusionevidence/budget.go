package collusionevidence

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// Bounds of reading rows and plans, in read units of 4 KB, rounded up. A
// collection has AllUnits, and each vacant a share of it. A reader with any
// budget left may read one page, which may be large: a collection never costs
// more than AllUnits and a page, MaxUnits.
const (
	AllUnits    = 384
	VacantUnits = 64 // of a vacant's responses
	// TreeUnits are for the plan of the child: more than plan.MaxCalls records
	// and plans of usual length. SiblingTreeUnits are for a sibling's plan,
	// which can refuse only under a strict policy.
	TreeUnits        = 320
	SiblingTreeUnits = 32
	MaxUnits         = AllUnits + cutUnits

	unitBytes = 4 << 10
	// A page is cut after the row that makes it larger than pageBytes, not
	// where a host cuts it, so that all hosts judge alike. Rows after the cut
	// may have been read and are paid for, up to the megabyte at which DynamoDB
	// ends a page.
	pageBytes = 512 << 10
	cutUnits  = 1 << 20 / unitBytes
	// pageRows are requested at once: few, because a row may have
	// store.MaxData.
	pageRows = 8
	// maxPages is the most pages of rows read of one vacant, however small.
	maxPages = 16
	// rowBytes bounds the size of a row without its data.
	rowBytes = 128
)

// readBudget is a remaining number of read units.
type readBudget struct {
	left int
	of   *readBudget // also pays; may be nil
}

// share returns a budget of at most n units that p pays, too.
func (p *readBudget) share(n int) *readBudget { return &readBudget{n, p} }

func (p *readBudget) empty() bool { return p.left <= 0 || p.of != nil && p.of.empty() }

// spend pays for bytes that were read at once.
func (p *readBudget) spend(bytes int) {
	for units := max(1, (bytes+unitBytes-1)/unitBytes); p != nil; p = p.of {
		p.left -= units
	}
}

// page reads up to n of a pair's responses, newest first, and pays for them.
// cut means that there are more.
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
