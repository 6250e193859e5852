package fsck_test

import (
	"context"
	"errors"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody"
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
	damaged := &altered{Store: a.Store, rows: map[store.Stream]func([]store.Row) []store.Row{a.Pair().Requests(): drop(8)}}
	stop := errors.New("the client has stopped reading")
	cancelled, cancel := context.WithCancel(a.Ctx)
	cancel()
	for name, tc := range map[string]struct {
		ctx   context.Context
		found error
		vault custody.Vault
		want  func(error) bool
	}{
		"nobody takes the findings": {a.Ctx, stop, a.Vault, func(err error) bool { return errors.Is(err, stop) }},
		"cancelled":                 {cancelled, nil, a.Vault, func(err error) bool { return errors.Is(err, context.Canceled) }},
		"the vault is away":         {a.Ctx, nil, closedVault{}, func(err error) bool { return problem.Is(err, problem.Unavailable) }},
	} {
		_, err := fsck.Run(tc.ctx, fsck.Config{
			Source: damaged, Vault: tc.vault, Now: a.Now, Retention: hosttest.Retention,
			ReportFinding: func(fsck.Finding) error { return tc.found },
		})
		if !tc.want(err) {
			t.Errorf("%s: Run() = %v", name, err)
		}
	}
}

func TestProgressOnlyGrows(t *testing.T) {
	a := &caller{hosttest.New(t, memory.New()).Caller()}
	for range 1100 {
		a.Call("hello")
	}
	var told []fsck.Result
	res, err := fsck.Run(a.Ctx, fsck.Config{
		Source: a.Store, Vault: a.Vault, Now: a.Now, Retention: hosttest.Retention,
		ReportFinding: func(f fsck.Finding) error { return errors.New(f.String()) },
		Progress:      func(r fsck.Result) { told = append(told, r) },
	})
	a.Must(err)
	if len(told) == 0 {
		t.Fatal("Progress was not told")
	}
	for i, r := range told {
		if r.Rows > res.Rows || i > 0 && r.Rows <= told[i-1].Rows {
			t.Errorf("Progress told %d rows of %d, before %v", r.Rows, res.Rows, told[:i])
		}
	}
}
