package datadir

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

// seedA is the first key of PROTOCOL §24, and idA its id.
const (
	seedA = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	idA   = "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"
)

func newDir(t *testing.T) *Dir {
	t.Helper()
	return &Dir{
		Dir:  filepath.Join(t.TempDir(), "identities"),
		Now:  func() time.Time { return time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC) },
		Rand: bytes.NewReader(bytes.Repeat([]byte{7}, 1<<10)),
	}
}

func keyA(t *testing.T) *identity.Key {
	t.Helper()
	seed, err := hex.DecodeString(seedA)
	must(t, err)
	k, err := identity.KeyFromSeed(seed)
	must(t, err)
	return k
}

func mustMake(t *testing.T, h *Dir, name string, b Bundle) *Identity {
	t.Helper()
	id, err := h.Create(context.Background(), name, b)
	if err != nil {
		t.Fatalf("Make(%q) = %v, want an identity", name, err)
	}
	return id
}

func TestMakeWritesWhatOnlyItsOwnerReads(t *testing.T) {
	h := newDir(t)
	b := Bundle{Key: keyA(t)}
	must(t, b.SignCard(context.Background(), "translate"))
	b.Manifest = manifest(t, b.Key)
	id := mustMake(t, h, "alice", b)
	if back, err := id.Bundle(t.Context()); err != nil || back.Manifest == nil || back.Manifest.Hash() != b.Manifest.Hash() {
		t.Errorf("Bundle() = %+v, %v, want the manifest that was made", back.Manifest, err)
	}
	if runtime.GOOS != "windows" {
		for path, want := range map[string]os.FileMode{
			id.Dir: 0o700, id.KeyFile(): 0o600, id.ChainsDir(): 0o700,
			filepath.Join(id.Dir, logbookFile): 0o600, filepath.Join(id.Dir, cardFile): 0o600,
			filepath.Join(id.Dir, manifestFile): 0o600,
		} {
			st, err := os.Stat(path)
			must(t, err)
			if got := st.Mode().Perm(); got != want {
				t.Errorf("mode of %s = %o, want %o", path, got, want)
			}
		}
	}
	left, err := filepath.Glob(filepath.Join(h.Dir, ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("Make left %v behind (%v)", left, err)
	}
}

func TestGenesisIsTheReferencesLine(t *testing.T) {
	id := mustMake(t, newDir(t), "alice", Bundle{Key: keyA(t)})
	got, err := os.ReadFile(filepath.Join(id.Dir, logbookFile))
	must(t, err)
	// Signature and line of PROTOCOL §24, "Log of A", entry 0.
	want := `{"kind": "GENESIS", "payload": {"name": "alice", "vacant_id": "` + idA + `"}, "prev_hash": "` + strings.Repeat("0", 64) +
		`", "signature": "74b7aaba9d8bd76bbc167fbd0dccedf267a7629ae3953f9e1460932413115a3973566ba54c5c8c8c2d907ad4ee290d9954533ba50819f789a49cfc78f0f93800", "ts": "2026-05-06T00:00:00+00:00"}` + "\n"
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("logbook differs (-want +got):\n%s", diff)
	}
}

func TestAnIdentityIsNeverOverwritten(t *testing.T) {
	h := newDir(t)
	first := mustMake(t, h, "alice", Bundle{Key: keyA(t)})
	before, err := os.ReadFile(first.KeyFile())
	must(t, err)
	b, _, err := NewBundle(h.Rand)
	must(t, err)
	if _, err := h.Create(context.Background(), "alice", b); !problem.Is(err, problem.Conflict) {
		t.Errorf("Make() of a name that is taken = %v, want a conflict", err)
	}
	after, err := os.ReadFile(first.KeyFile())
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the key file changed (%v)", err)
	}
}

func TestAKeyHasOneName(t *testing.T) {
	h := newDir(t)
	mustMake(t, h, "alice", Bundle{Key: keyA(t)})
	_, err := h.Create(t.Context(), "carol", Bundle{Key: keyA(t)})
	if !problem.Is(err, problem.Conflict) || !strings.Contains(err.Error(), `"alice"`) {
		t.Errorf("Make() of the same key = %v, want a conflict that names alice", err)
	}
}

func TestOfManyWhoMakeOneNameOneSucceeds(t *testing.T) {
	h := newDir(t)
	h.Rand = nil // each key has its own randomness
	const makers = 16
	var wg sync.WaitGroup
	made := make([]*Identity, makers)
	errs := make([]error, makers)
	for i := range makers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			b, _, err := NewBundle(bytes.NewReader(bytes.Repeat([]byte{byte(i + 1)}, 64)))
			if err == nil {
				made[i], err = h.Create(context.Background(), "alice", b)
			}
			errs[i] = err
		}()
	}
	wg.Wait()
	var winner *Identity
	for i := range makers {
		switch {
		case errs[i] == nil && winner == nil:
			winner = made[i]
		case errs[i] == nil:
			t.Errorf("two makers of one name succeeded")
		case !problem.Is(errs[i], problem.Conflict):
			t.Errorf("a loser got %v, want a conflict", errs[i])
		}
	}
	if winner == nil {
		t.Fatal("no maker succeeded")
	}
	kept, err := h.Open("alice")
	if err != nil || kept.ID() != winner.ID() {
		t.Errorf("Open() = %v, %v; want the winner's key %s", kept, err, winner.ID())
	}
}

func TestNamesThatCannotBeFoldersAreRefused(t *testing.T) {
	for _, name := range []string{"", ".", "..", ".hidden", "a/b", `a\b`, "a b", "ä", "a\x00b", strings.Repeat("x", 65)} {
		if err := CheckName(name); !problem.Is(err, problem.Usage) {
			t.Errorf("CheckName(%q) = %v, want a usage error", name, err)
		}
	}
	for _, name := range []string{"a", "alice", "A.b_c-9", strings.Repeat("x", 64)} {
		if err := CheckName(name); err != nil {
			t.Errorf("CheckName(%q) = %v, want nil", name, err)
		}
	}
}

func TestANewIdentityDoesNotBeginWithAHyphenButAStoredOneOpens(t *testing.T) {
	h, key := newDir(t), keyA(t)
	for _, name := range []string{"-", "-a", "--help"} {
		if err := CheckNewName(name); !problem.Is(err, problem.Usage) {
			t.Errorf("CheckNewName(%q) = %v, want a usage error", name, err)
		}
	}
	if _, err := h.Create(t.Context(), "-a", Bundle{Key: key}); !problem.Is(err, problem.Usage) {
		t.Errorf("Make() = %v, want a usage error", err)
	}
	mustMake(t, h, "a", Bundle{Key: key})
	must(t, os.Rename(filepath.Join(h.Dir, "a"), filepath.Join(h.Dir, "--help")))
	if id, err := h.Open("--help"); err != nil || id.ID() != key.ID() {
		t.Errorf("Open() = %v, %v", id, err)
	}
}

func TestOpenRefusesAKeyThatIsNotItsOwners(t *testing.T) {
	for name, tc := range map[string]struct {
		file string
		mode os.FileMode
		want problem.Kind
	}{
		"readable by others":   {`{"pubkey_hex":"` + idA + `","seed_hex":"` + seedA + `"}`, 0o644, problem.Forbidden},
		"seed of another id":   {`{"pubkey_hex":"` + strings.Repeat("ab", 32) + `","seed_hex":"` + seedA + `"}`, 0o600, problem.Damaged},
		"short seed":           {`{"pubkey_hex":"` + idA + `","seed_hex":"00"}`, 0o600, problem.Damaged},
		"no seed":              {`{"pubkey_hex":"` + idA + `"}`, 0o600, problem.Damaged},
		"no JSON":              {`seed`, 0o600, problem.Damaged},
		"a key given twice":    {`{"seed_hex":"` + seedA + `","seed_hex":"` + seedA + `"}`, 0o600, problem.Damaged},
		"a form of the future": {`{"format":"vacancy-key/2","seed_hex":"` + seedA + `"}`, 0o600, problem.Damaged},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.want == problem.Forbidden && runtime.GOOS == "windows" {
				t.Skip("modes mean nothing on Windows")
			}
			h := newDir(t)
			dir := filepath.Join(h.Dir, "alice")
			must(t, os.MkdirAll(dir, 0o700))
			path := filepath.Join(dir, keyFile)
			must(t, os.WriteFile(path, []byte(tc.file), tc.mode))
			_, err := h.Open("alice")
			if !problem.Is(err, tc.want) {
				t.Errorf("Open() = %v, want %v", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), seedA) {
				t.Errorf("Open() = %v, which shows the seed", err)
			}
		})
	}
}

func TestOpenSaysThatAnIdentityIsNotThere(t *testing.T) {
	h := newDir(t)
	if _, err := h.Open("nobody"); !problem.Is(err, problem.NotFound) {
		t.Errorf("Open() = %v, want not found", err)
	}
	if names, err := h.Names(); err != nil || len(names) > 0 {
		t.Errorf("Names() of no home = %v, %v; want none", names, err)
	}
}

func TestNamesLeavesOutWhatWasNeverFinished(t *testing.T) {
	h := newDir(t)
	mustMake(t, h, "bob", Bundle{Key: keyA(t)})
	must(t, os.Mkdir(filepath.Join(h.Dir, ".new-123"), 0o700))
	got, err := h.Names()
	must(t, err)
	if diff := cmp.Diff([]string{"bob"}, got); diff != "" {
		t.Errorf("Names() differs (-want +got):\n%s", diff)
	}
}

func TestTheKeyFileReadsBack(t *testing.T) {
	h := newDir(t)
	made := mustMake(t, h, "alice", Bundle{Key: keyA(t)})
	got, err := h.Open("alice")
	if err != nil || got.ID() != made.ID() || got.ID().String() != idA {
		t.Fatalf("Open() = %v, %v; want %s", got, err, idA)
	}
	b, err := got.Bundle(context.Background())
	if err != nil || len(b.Logbook) != 1 || b.Card != nil || len(b.Chains) != 0 {
		t.Errorf("Bundle() = %v, %v; want one entry, no card, no chains", b, err)
	}
	if err := logbook.VerifyChain(got.ID(), b.Logbook); err != nil {
		t.Errorf("VerifyChain() = %v, want nil", err)
	}
}

func TestWriteNewNeverReplacesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, WriteNew(path, []byte("one")))
	if err := WriteNew(path, []byte("two")); !problem.Is(err, problem.Conflict) {
		t.Errorf("WriteNew() over a file = %v, want a conflict", err)
	}
	if err := WriteNew(filepath.Join(path, "x"), nil); err == nil || errors.Is(err, os.ErrExist) {
		t.Errorf("WriteNew() below a file = %v, want the system's error", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "one" {
		t.Errorf("the file holds %q, %v; want what was first", b, err)
	}
}

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
