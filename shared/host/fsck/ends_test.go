package fsck_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/custody"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// closedVault is a vault that cannot be reached.
type closedVault struct{ custody.Vault }

func (closedVault) Open(context.Context, string, []byte) ([]byte, error) {
	return nil, problem.New(problem.Unavailable, "the vault is away")
}

func TestACheckThatCannotComeToItsEndSaysSo(t *testing.T) {
	a := story(t, memory.New())
	damaged := &altered{kept: a.store, rows: map[store.Stream]func([]store.Row) []store.Row{a.pair().Requests(): drop(8)}}
	stop := errors.New("the reader has gone")
	cancelled, cancel := context.WithCancel(a.ctx)
	cancel()
	for name, tc := range map[string]struct {
		ctx   context.Context
		found error
		vault custody.Vault
		want  func(error) bool
	}{
		"nobody takes the findings": {a.ctx, stop, a.vault, func(err error) bool { return errors.Is(err, stop) }},
		"cancelled":                 {cancelled, nil, a.vault, func(err error) bool { return errors.Is(err, context.Canceled) }},
		"the vault is away":         {a.ctx, nil, closedVault{}, func(err error) bool { return problem.Is(err, problem.Unavailable) }},
	} {
		_, err := fsck.Run(tc.ctx, fsck.Config{
			Home: damaged, Vault: tc.vault, Now: func() time.Time { return a.now }, Retention: retention,
			Found: func(fsck.Finding) error { return tc.found },
		})
		if !tc.want(err) {
			t.Errorf("%s: Run() = %v", name, err)
		}
	}
}

func TestProgressOnlyGrows(t *testing.T) {
	a := newHome(t, memory.New()).caller()
	for range 1100 {
		a.call("hello")
	}
	var told []fsck.Result
	res, err := fsck.Run(a.ctx, fsck.Config{
		Home: a.store, Vault: a.vault, Now: func() time.Time { return a.now }, Retention: retention,
		Found:    func(f fsck.Finding) error { return errors.New(f.String()) },
		Progress: func(r fsck.Result) { told = append(told, r) },
	})
	a.must(err)
	if len(told) == 0 {
		t.Fatal("Progress was not told")
	}
	for i, r := range told {
		if r.Rows > res.Rows || i > 0 && r.Rows <= told[i-1].Rows {
			t.Errorf("Progress told %d rows of %d, before %v", r.Rows, res.Rows, told[:i])
		}
	}
}
