package collusionevidence

import (
	"context"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

// The bounds of what is read of rows and plans, in read units: one is 4 KB, and
// less counts whole. All of a collection is paid from AllUnits, of which a vacant
// gets its share; who has something left may still read once, so that a page of
// large rows goes beyond: a collection never costs more than AllUnits and a
// page, MaxUnits.
const (
	AllUnits    = 384
	VacantUnits = 64 // of a vacant's responses
	// TreeUnits are for what the plan of the child asks: more than plan.MaxCalls
	// records and plans of a usual length. SiblingTreeUnits are for that of a
	// sibling, which refuses under a strict policy alone.
	TreeUnits        = 320
	SiblingTreeUnits = 32
	MaxUnits         = AllUnits + cutUnits

	unitBytes = 4 << 10
	// A page is cut where a page of any host still goes on: after the row that
	// makes it larger than pageBytes, and not where the host cuts it, so that all
	// judge alike. What lies behind may have been read and is paid as if it was,
	// up to the megabyte at which DynamoDB ends a page.
	pageBytes = 512 << 10
	cutUnits  = 1 << 20 / unitBytes
	// pageRows are asked for at once: few, since a row may have store.MaxData.
	pageRows = 8
	// maxPages of rows are read of one vacant, however small.
	maxPages = 16
	// rowBytes are what a row has beside its data, at most.
	rowBytes = 128
)

// readBudget is what is left of some read units.
type readBudget struct {
	left int
	of   *readBudget // from which it is paid too; nil: nothing
}

// share is a read budget of at most n units, paid from p as well.
func (p *readBudget) share(n int) *readBudget { return &readBudget{n, p} }

func (p *readBudget) empty() bool { return p.left <= 0 || p.of != nil && p.of.empty() }

// spend pays for so many bytes that were read at once.
func (p *readBudget) spend(bytes int) {
	for units := max(1, (bytes+unitBytes-1)/unitBytes); p != nil; p = p.of {
		p.left -= units
	}
}

// page reads up to n of a pair's responses, the newest first, and pays for them.
// cut says that there are more of them.
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
