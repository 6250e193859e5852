package cli

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/clitest"
	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/keys/custody/local"
	"github.com/vacancy-host/vacancy/shared/host/upgrade"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

// story writes a history with every kind of row to the shell's data directory. If more is not nil, it adds rows.
func (s *shell) story(more func(*hosttest.Caller)) *hosttest.Caller {
	s.t.Helper()
	dir := filepath.Join(s.dataHome, "host")
	err := os.MkdirAll(dir, 0o700)
	vault, vaultErr := local.Open(filepath.Join(dir, standalone.SealFile), rand.Reader)
	file, fileErr := bolt.Open(filepath.Join(dir, standalone.DataFile), bolt.Options{})
	must(s.t, errors.Join(err, vaultErr, fileErr))
	a := hosttest.NewWithVault(s.t, file, vault).Story()
	_, err = upgrade.InitVersion(s.t.Context(), upgrade.Data{Store: file, Now: a.Now, Rand: rand.Reader})
	a.Must(err)
	if more != nil {
		more(a)
	}
	a.Must(file.Close())
	return a
}

func TestAHistoryIsToldAsWritten(t *testing.T) {
	s := newShell(t)
	a := s.story(func(a *hosttest.Caller) {
		a.Call("control \x1b[31m characters\nand " + strings.Repeat("long ", 40))
	})
	caller := a.Pair().Caller.String()
	clitest.CompareGolden(t, "chain", s.must("chain", caller, "demo"))
	clitest.CompareGolden(t, "chain-last", s.must("chain", caller[:10], a.Pair().Vacant.String(), "--last", "3"))
	clitest.CompareGolden(t, "chain.json", s.must("chain", caller, "demo", "--json"))
}

func TestACheckOfAHomeIsShownAsWritten(t *testing.T) {
	whole, broken := newShell(t), newShell(t)
	whole.story(nil)
	broken.story(func(a *hosttest.Caller) {
		for p, data := range [][]byte{{2, 1}, {1, 1, 5}} {
			a.Must(a.Store.Commit(a.Ctx, store.Append{Stream: a.Pair().Requests(), Position: uint64(p) + 17, WriteID: store.WriteID{1}, Data: data}))
		}
		a.Must(a.Store.Commit(a.Ctx, store.Append{Stream: "what\x1b[2J#", Position: 1, WriteID: store.WriteID{1}, Data: []byte("?")}))
	})
	clitest.CompareGolden(t, "verify-home-whole", whole.must("verify"))
	clitest.CompareGolden(t, "verify-home-whole.json", whole.must("verify", "--data", filepath.Join(whole.dataHome, "host"), "--json"))
	for name, args := range map[string][]string{"verify-home-broken": {"verify"}, "verify-home-broken.json": {"verify", "--json"}} {
		code, out, errs := broken.run("", args...)
		if code != problem.ExitFailed || errs != "" {
			t.Errorf("vacancy %v of a broken home = exit %d, %q; want 1 and no more words", args, code, errs)
		}
		clitest.CompareGolden(t, name, out)
	}
}
