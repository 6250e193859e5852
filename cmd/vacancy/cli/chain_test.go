package cli

import (
	"crypto/rand"
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

// story writes a history with every kind of row to the shell's data directory;
// more adds writes.
func (s *shell) story(more func(*hosttest.Caller)) *hosttest.Caller {
	s.t.Helper()
	dir := filepath.Join(s.dataHome, "host")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	vault, err := local.Open(filepath.Join(dir, standalone.SealFile), rand.Reader)
	if err != nil {
		s.t.Fatal(err)
	}
	file, err := bolt.Open(filepath.Join(dir, standalone.DataFile), bolt.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	a := hosttest.NewSealed(s.t, file, vault).Story()
	_, err = upgrade.New(s.t.Context(), upgrade.Data{Store: file, Now: a.Now, Rand: rand.Reader})
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
	clitest.Golden(t, "chain", s.must("chain", caller, "demo"))
	clitest.Golden(t, "chain-last", s.must("chain", caller[:10], a.Pair().Vacant.String(), "--last", "3"))
	clitest.Golden(t, "chain.json", s.must("chain", caller, "demo", "--json"))
	for args, code := range map[string]int{
		"chain nobody demo":                  problem.ExitNotFound,
		"chain " + caller + " other":         problem.ExitNotFound,
		"chain demo demo":                    problem.ExitNotFound,
		"chain " + caller + " demo --last 0": problem.ExitUsage,
		"chain " + caller:                    problem.ExitUsage,
		"chain a b --data elsewhere":         problem.ExitNotFound,
	} {
		if got, out, errs := s.run("", strings.Fields(args)...); got != code || out != "" || errs == "" {
			t.Errorf("vacancy %s = exit %d, %q, %q; want %d", args, got, out, errs, code)
		}
	}
}

func TestAnIdentitysNameStandsForItsID(t *testing.T) {
	s := newShell(t)
	s.must("init", "alice")
	s.story(nil)
	code, _, errs := s.run("", "chain", "alice", "demo")
	if code != problem.ExitNotFound || !strings.Contains(errs, "no calls from") {
		t.Errorf("chain alice demo = exit %d, %q; want that alice has not called", code, errs)
	}
	s.must("init", "demo")
	if code, _, errs := s.run("", "chain", "demo", "demo"); code != problem.ExitUsage || !strings.Contains(errs, "give the id") {
		t.Errorf("chain of an ambiguous name = exit %d, %q; want it refused", code, errs)
	}
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
	clitest.Golden(t, "verify-home-whole", whole.must("verify"))
	clitest.Golden(t, "verify-home-whole.json", whole.must("verify", "--data", filepath.Join(whole.dataHome, "host"), "--json"))
	for name, args := range map[string][]string{"verify-home-broken": {"verify"}, "verify-home-broken.json": {"verify", "--json"}} {
		code, out, errs := broken.run("", args...)
		if code != problem.ExitFailed || errs != "" {
			t.Errorf("vacancy %v of a broken home = exit %d, %q; want 1 and no more words", args, code, errs)
		}
		clitest.Golden(t, name, out)
	}
	for args, code := range map[string]int{
		"verify --data elsewhere":      problem.ExitNotFound,
		"verify file --data directory": problem.ExitUsage,
		"verify a b":                   problem.ExitUsage,
	} {
		if got, out, errs := whole.run("", strings.Fields(args)...); got != code || out != "" || errs == "" {
			t.Errorf("vacancy %s = exit %d, %q, %q; want %d", args, got, out, errs, code)
		}
	}
}
