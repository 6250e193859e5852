package witness_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/client/witness"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const base = "https://vacancy.example:8443/a"

func TestVerifiedCheckpointIsKeptAndNeverReplacedByAnOlder(t *testing.T) {
	m := witness.Checkpoints{Dir: filepath.Join(t.TempDir(), "logs")}
	h := newHost(t, newKey(t)).publish(3, "a")
	verify := func() witness.Report {
		t.Helper()
		r, err := witness.Follower{Log: h}.Verify(t.Context(), nil, false)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	if note, err := m.Load(base); note != nil || err != nil {
		t.Errorf("Load() = %q, %v, want nothing", note, err)
	}
	early := verify()
	h.publish(2, "b")
	late := verify()
	for _, r := range []witness.Report{early, late, early} {
		if err := m.Save(t.Context(), base, r); err != nil {
			t.Fatalf("Save() = %v", err)
		}
	}
	if note, err := m.Load(base); err != nil || !bytes.Equal(note, late.Note) {
		t.Errorf("Load() = %q, %v, want the later one: %q", note, err, late.Note)
	}
	if note, err := m.Load(base + "b"); note != nil || err != nil {
		t.Errorf("Load() of another = %q, %v, want nothing", note, err)
	}
	if st, err := os.Stat(m.Path(base)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v, want it for its owner alone", st.Mode(), err)
	}
	// The person accepted another host at the same URL.
	h = newHost(t, newKey(t)).publish(1, "a")
	other := verify()
	if err := m.Save(t.Context(), base, other); err != nil {
		t.Fatal(err)
	}
	if note, err := m.Load(base); err != nil || !bytes.Equal(note, other.Note) {
		t.Errorf("Load() = %q, %v, want the other host's: %q", note, err, other.Note)
	}
}

func TestAMemoryThatIsDamagedIsNotTakenForNone(t *testing.T) {
	m := witness.Checkpoints{Dir: t.TempDir()}
	if err := os.WriteFile(m.Path(base), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Load(base); !problem.Is(err, problem.Damaged) {
		t.Errorf("Load() = %v, want damaged", err)
	}
}

func TestTheProofOfAForkIsKept(t *testing.T) {
	m := witness.Checkpoints{Dir: filepath.Join(t.TempDir(), "logs")}
	path, err := m.SaveFork(base, &witness.ForkError{OldNote: newHost(t, newKey(t)).publish(1, "a").note(), NewNote: newHost(t, newKey(t)).publish(2, "a").note()})
	if err != nil || !strings.HasSuffix(path, ".2.fork") {
		t.Fatalf("Accuse() = %q, %v", path, err)
	}
	if b, err := os.ReadFile(path); err != nil || strings.Count(string(b), "vacancy/") != 4 {
		t.Errorf("the proof = %q, %v, want two signed checkpoints", b, err)
	}
}
