package fsck

import (
	"context"
	"testing"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// half is a view of a stream in which all even rows are damaged, except the last row.
type half struct {
	store.View
	rows uint64
}

func (v half) Rows(_ context.Context, _ store.Stream, from uint64, _ int, d store.Direction) ([]store.Row, error) {
	switch {
	case d == store.Descending:
		return []store.Row{{Position: v.rows}}, nil
	case from > v.rows:
		return nil, nil
	case from%2 == 0 && from < v.rows:
		return nil, problem.New(problem.Damaged, "a row is damaged")
	}
	return []store.Row{{Position: from}}, nil
}

// A reading without reports skips more damaged rows than fit into a batch of reports.
func TestAStreamWithManyDamagedRowsIsReadAgain(t *testing.T) {
	const rows = 3 * maxPendingFindings
	r := &run{view: half{rows: rows}, pageRows: 16, findingCounts: map[identity.Hash]int{}}
	read := 0
	if err := r.eachRow(t.Context(), "events", func(store.Row) error { read++; return nil }); err != nil || read < rows/2 {
		t.Errorf("eachRow() = %v after %d rows, want at least %d", err, read, rows/2)
	}
	if len(r.findingCounts) > 0 {
		t.Errorf("%d findings of the quiet reading count", len(r.findingCounts))
	}
}
