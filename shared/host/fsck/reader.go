package fsck

import (
	"context"
	"fmt"
	"math"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
)

const (
	pageRows     = 256
	afterAllRows = math.MaxInt64
	// maxLost is the number of consecutive unreadable positions after which the rest of a stream
	// is skipped. A damaged index may claim any number of positions.
	maxLost = 1000
)

// reader reads a stream row by row and continues after unreadable rows.
type reader struct {
	*run
	stream          store.Stream
	page            []store.Row
	nextPosition    uint64
	tip             uint64 // last position, or zero if the last row is missing or unreadable
	isTipRead       bool
	tipErr          error
	restSkipped     bool
	singleReads     int // rows to read one by one after a page failed
	consecutiveLost int
}

func (r *run) newReader(s store.Stream) *reader { return &reader{run: r, stream: s, nextPosition: 1} }

// next reports an unreadable position and returns the zero Row for it. more is false at the end.
func (r *reader) next(ctx context.Context) (row store.Row, more bool, err error) {
	if err := r.flushIfFull(); err != nil {
		return row, false, err
	}
	for len(r.page) == 0 {
		stop, isUnreadable, err := r.readPage(ctx)
		if stop || err != nil {
			return row, false, err
		}
		if isUnreadable {
			return row, true, nil
		}
	}
	row = r.page[0]
	switch {
	case row.Position > r.nextPosition:
		r.reportMissing(row.Position - 1)
		r.nextPosition = row.Position
		return store.Row{}, true, nil
	case row.Position < r.nextPosition:
		r.page = r.page[1:]
		r.addFinding(newStreamFinding(r.stream, r.nextPosition, Position, "this position", fmt.Sprintf("a row of position %d", row.Position)))
		return store.Row{}, true, nil
	}
	r.page, r.nextPosition, r.consecutiveLost = r.page[1:], r.nextPosition+1, 0
	r.countRow()
	return row, true, nil
}

// readPage reads the next page. isUnreadable means that the next position is unreadable and was
// reported.
func (r *reader) readPage(ctx context.Context) (stop, isUnreadable bool, err error) {
	if err := r.findTip(ctx); err != nil {
		return false, false, err
	}
	if r.restSkipped || r.tip > 0 && r.nextPosition > r.tip {
		return true, false, nil
	}
	n := r.pageRows
	if r.tip > 0 { // rows after the tip may refer to rows that other readers skip
		n = int(min(uint64(n), r.tip-r.nextPosition+1))
	}
	if r.singleReads > 0 {
		n = 1
		r.singleReads--
	}
	r.page, err = r.view.Rows(ctx, r.stream, r.nextPosition, n, store.Ascending)
	switch {
	case len(r.page) > 0: // rows that were read before an error are used
		return false, false, nil
	case err != nil && !isDamaged(err):
		return false, false, err
	case err != nil && n > 1:
		r.singleReads = r.pageRows
		return false, false, nil
	case err != nil:
		r.addFinding(newStreamFinding(r.stream, r.nextPosition, Row, "a row that can be read", problem.AsError(err).Error()))
	case r.tip == 0:
		r.reportUnreadableEnd()
		return true, false, nil
	default:
		return false, true, r.skipGap(ctx)
	}
	r.nextPosition++
	if r.consecutiveLost++; r.consecutiveLost == maxLost {
		r.skipRest()
	}
	return false, true, nil
}

func (r *reader) skipGap(ctx context.Context) error {
	// A read from a position in a gap may return no rows, so each position is read.
	for p := r.nextPosition + 1; p <= r.tip; p++ {
		rows, err := r.view.Rows(ctx, r.stream, p, 1, store.Ascending)
		if err != nil && !isDamaged(err) {
			return err
		}
		if len(rows) > 0 || err != nil {
			r.reportMissing(p - 1)
			r.nextPosition = p
			return nil
		}
		if p-r.nextPosition == maxLost {
			r.skipRest()
			return nil
		}
	}
	r.reportMissing(r.tip)
	r.nextPosition = r.tip + 1
	return nil
}

func (r *reader) skipRest() {
	r.addFinding(newStreamFinding(r.stream, r.nextPosition, Position, "rows up to "+fmt.Sprint(r.tip), "many positions without a row; the remaining rows are not checked"))
	r.restSkipped = true
}

func (r *reader) findTip(ctx context.Context) error {
	// The tip is needed because a read from a position in a gap may return no rows.
	if r.isTipRead {
		return nil
	}
	rows, err := r.view.Rows(ctx, r.stream, afterAllRows, 1, store.Descending)
	if err != nil && !isDamaged(err) {
		return err
	}
	r.isTipRead, r.tipErr = true, err
	if len(rows) > 0 {
		r.tip = rows[0].Position
	}
	return nil
}

func (r *reader) reportUnreadableEnd() {
	// The last row is reported here only if readPage did not reach it.
	if r.tipErr != nil && r.consecutiveLost == 0 {
		r.addFinding(newStreamFinding(r.stream, r.nextPosition, Row, "a last row that can be read", problem.AsError(r.tipErr).Error()))
	}
}

func (r *reader) reportMissing(upTo uint64) {
	f := newStreamFinding(r.stream, r.nextPosition, Position, "a row", "none")
	if upTo > r.nextPosition {
		f.Got = fmt.Sprintf("none up to position %d", upTo)
	}
	r.addFinding(f)
}

// eachNewRow calls fn for the rows from next on and returns the position after them. It stops at a
// damaged row.
func (r *run) eachNewRow(ctx context.Context, s store.Stream, next uint64, fn func(store.Row) error) (uint64, error) {
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
