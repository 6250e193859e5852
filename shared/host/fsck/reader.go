package fsck

import (
	"context"
	"fmt"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	pageRows = 256
	// last is a position after all rows.
	last = math.MaxInt64
	// maxLost is the number of consecutive unreadable positions after which the rest of a stream
	// is skipped. A damaged index may claim any number of positions.
	maxLost = 1000
)

// reader reads a stream row by row and continues after unreadable rows.
type reader struct {
	*run
	stream store.Stream
	page   []store.Row
	at     uint64 // next position
	tip    uint64 // last position, or zero if the last row is missing or unreadable
	asked  bool   // whether the tip was requested
	broken error  // error of the request for the tip
	ended  bool   // whether the rest of the stream is skipped
	single int    // number of rows to read one by one after a page failed
	lost   int    // consecutive unreadable positions
}

func (r *run) reader(s store.Stream) *reader { return &reader{run: r, stream: s, at: 1} }

// next returns the next row. For unreadable positions, which it reports, it returns the zero Row.
// more is false at the end.
func (r *reader) next(ctx context.Context) (row store.Row, more bool, err error) {
	if err := r.flushIfFull(); err != nil {
		return row, false, err
	}
	for len(r.page) == 0 {
		stop, broken, err := r.fill(ctx)
		if stop || err != nil {
			return row, false, err
		}
		if broken {
			return row, true, nil
		}
	}
	row = r.page[0]
	switch {
	case row.Position > r.at:
		r.missing(row.Position - 1)
		r.at = row.Position
		return store.Row{}, true, nil
	case row.Position < r.at:
		r.page = r.page[1:]
		r.addFinding(inStream(r.stream, r.at, Position, "this position", fmt.Sprintf("a row of position %d", row.Position)))
		return store.Row{}, true, nil
	}
	r.page, r.at, r.lost = r.page[1:], r.at+1, 0
	r.countRow()
	return row, true, nil
}

// fill reads the next page. stop means that there are no further pages. isUnreadable means that the
// next position is unreadable and was reported.
func (r *reader) fill(ctx context.Context) (stop, broken bool, err error) {
	if err := r.findTip(ctx); err != nil {
		return false, false, err
	}
	if r.ended || r.tip > 0 && r.at > r.tip {
		return true, false, nil
	}
	n := r.pageRows
	if r.tip > 0 { // rows after the tip are left out, because they may refer to rows that another reader has not read
		n = int(min(uint64(n), r.tip-r.at+1))
	}
	if r.single > 0 {
		n = 1
		r.single--
	}
	r.page, err = r.view.Rows(ctx, r.stream, r.at, n, store.Ascending)
	switch {
	case len(r.page) > 0: // rows that were read before an error are used
		return false, false, nil
	case err != nil && !isDamaged(err):
		return false, false, err
	case err != nil && n > 1:
		r.single = r.pageRows
		return false, false, nil
	case err != nil:
		r.addFinding(inStream(r.stream, r.at, Row, "a row that can be read", problem.AsError(err).Error()))
	case r.tip == 0:
		r.end()
		return true, false, nil
	default:
		return false, true, r.hole(ctx)
	}
	r.at++
	if r.lost++; r.lost == maxLost {
		r.giveUp()
	}
	return false, true, nil
}

func (r *reader) hole(ctx context.Context) error {
	// A read from a position in a gap may return no rows, so each position is read.
	for p := r.at + 1; p <= r.tip; p++ {
		rows, err := r.view.Rows(ctx, r.stream, p, 1, store.Ascending)
		if err != nil && !isDamaged(err) {
			return err
		}
		if len(rows) > 0 || err != nil {
			r.missing(p - 1)
			r.at = p
			return nil
		}
		if p-r.at == maxLost {
			r.giveUp()
			return nil
		}
	}
	r.missing(r.tip)
	r.at = r.tip + 1
	return nil
}

func (r *reader) giveUp() {
	r.addFinding(inStream(r.stream, r.at, Position, "rows up to "+fmt.Sprint(r.tip), "no row at many positions; the remaining rows are not checked"))
	r.ended = true
}

func (r *reader) findTip(ctx context.Context) error {
	// The tip is needed because a read from a position in a gap may return no rows.
	if r.asked {
		return nil
	}
	rows, err := r.view.Rows(ctx, r.stream, last, 1, store.Descending)
	if err != nil && !isDamaged(err) {
		return err
	}
	r.asked, r.broken = true, err
	if len(rows) > 0 {
		r.tip = rows[0].Position
	}
	return nil
}

func (r *reader) end() {
	// If the last row is unreadable and was not reached, it must be after the rows that were read.
	if r.broken != nil && r.lost == 0 {
		r.addFinding(inStream(r.stream, r.at, Row, "a last row that can be read", problem.AsError(r.broken).Error()))
	}
}

func (r *reader) missing(upTo uint64) {
	f := inStream(r.stream, r.at, Position, "a row", "none")
	if upTo > r.at {
		f.Got = fmt.Sprintf("none up to position %d", upTo)
	}
	r.addFinding(f)
}

// tail calls fn for the rows from next on and returns the position after them. It stops at damaged
// rows, which the check of the stream reports.
func (r *run) tail(ctx context.Context, s store.Stream, next uint64, fn func(store.Row) error) (uint64, error) {
	for {
		rows, err := r.view.Rows(ctx, s, next, r.pageRows, store.Ascending)
		if isDamaged(err) || err == nil && len(rows) == 0 {
			return next, nil
		}
		if err != nil {
			return next, err
		}
		for _, row := range rows {
			if row.Position < next {
				return next, nil
			}
			next = row.Position + 1
			if err := fn(row); err != nil {
				return next, err
			}
		}
	}
}
