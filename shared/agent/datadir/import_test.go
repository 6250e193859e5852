package datadir

import (
	"context"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

const idB = "29acbae141bccaf0b22e1a94d34d0bc7361e526d0bfe12c89794bc9322966dd7"

// write makes a directory with files and returns its path.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

func TestImportTakesASeedInEveryForm(t *testing.T) {
	raw, err := hex.DecodeString(seedA)
	must(t, err)
	dir := write(t, map[string]string{"hex": seedA, "line": "  " + strings.ToUpper(seedA) + "\n", "raw": string(raw)})
	for name, tc := range map[string]struct{ path, stdin string }{
		"hex":          {filepath.Join(dir, "hex"), ""},
		"a line":       {filepath.Join(dir, "line"), ""},
		"32 bytes":     {filepath.Join(dir, "raw"), ""},
		"stdin in hex": {"-", seedA + "\n"},
		"stdin raw":    {"-", string(raw)},
	} {
		t.Run(name, func(t *testing.T) {
			b, source, err := Import(tc.path, "", strings.NewReader(tc.stdin))
			if err != nil || source != FromSeed || b.Key.ID().String() != idA {
				t.Errorf("Import() = %v, %q, %v; want the key of %s from a seed", b.Key, source, err, idA)
			}
		})
	}
}

func TestImportRefusesWhatIsNoSeed(t *testing.T) {
	dir := write(t, map[string]string{"short": seedA[:62], "long": seedA + "00", "text": "my secret", "empty": "", "not-hex": "zz" + seedA[2:]})
	for _, name := range []string{"short", "long", "text", "empty", "not-hex"} {
		_, _, err := Import(filepath.Join(dir, name), "", nil)
		if !problem.Is(err, problem.Usage) {
			t.Errorf("Import(%s) = %v, want a usage error", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), seedA[2:20])) {
			t.Errorf("Import(%s) = %v, which shows what may be a secret", name, err)
		}
	}
	if _, _, err := Import(filepath.Join(dir, "absent"), "", nil); !problem.Is(err, problem.NotFound) {
		t.Errorf("Import() of nothing = %v, want not found", err)
	}
	if _, _, err := Import(filepath.Join(dir, "short"), "-", nil); !problem.Is(err, problem.Usage) {
		t.Errorf("Import() of a file with a seed beside it = %v, want a usage error", err)
	}
}

// referenceLog is the logbook of PROTOCOL §24, as the reference stores it.
func referenceLog(t *testing.T) string {
	t.Helper()
	key := keyA(t)
	at := time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	first := logbook.Next(nil, logbook.KindGenesis, at, logbook.GenesisPayload("alice", key.ID()))
	if _, err := first.Sign(context.Background(), key); err != nil {
		t.Fatal(err)
	}
	second := logbook.Next(&first, "HEARTBEAT", at.Add(time.Second), []byte(`{"weight":1.0,"text":"\u4f60"}`))
	if _, err := second.Sign(context.Background(), key); err != nil {
		t.Fatal(err)
	}
	return string(second.AppendLine(append(first.AppendLine(nil), '\n'))) + "\n"
}

const (
	plainKey   = `{"key_storage": "plaintext", "pubkey_hex": "` + idA + `", "seed_hex": "` + seedA + `"}`
	keyringKey = `{"key_storage": "keyring", "pubkey_hex": "` + idA + `"}`
)

// e1 is the hash of the envelope E1 of PROTOCOL §24.
const e1 = "3bdd1acc92e4e279c3b294101b1789edbbfe50fddecf002eb1ffa1f072060d97"

const state = `{"` + idB + `":{"request":{"last_hash_hex":"` + e1 + `","last_seq":1},"response":{"last_hash_hex":"` + e1 + `","last_seq":1}}}`

func TestImportContinuesAHomeOfTheReference(t *testing.T) {
	dir := write(t, map[string]string{
		"key.json": plainKey, "logbook.jsonl": referenceLog(t) + "\n", "envelope_state.json": state, "meta.json": "{}",
	})
	b, source, err := Import(dir, "", nil)
	if err != nil || source != FromReference {
		t.Fatalf("Import() = %q, %v; want a home of the reference", source, err)
	}
	h := newDir(t)
	id := mustMake(t, h, "alice", b)
	got, err := id.Bundle(context.Background())
	must(t, err)
	if len(got.Logbook) != 2 || len(got.Chains) != 1 {
		t.Fatalf("Bundle() has %d entries and %d chains, want 2 and 1", len(got.Logbook), len(got.Chains))
	}
	if err := logbook.VerifyChain(id.ID(), got.Logbook); err != nil {
		t.Errorf("VerifyChain() = %v, want nil", err)
	}
	want, _ := identity.ParseHash(e1)
	c := got.Chains[0]
	if c.Target.String() != idB || c.RequestTip.Seq != 1 || c.RequestTip.Hash != want || c.ResponseTip.Seq != 1 {
		t.Errorf("chain = %+v, want to continue after seq 1 to %s", c, idB)
	}
}

func TestImportTakesTheSeedOfAKeyringBesideTheHome(t *testing.T) {
	dir := write(t, map[string]string{"key.json": keyringKey, "logbook.jsonl": referenceLog(t)})
	b, _, err := Import(dir, "-", strings.NewReader(seedA+"\n"))
	if err != nil || b.Key.ID().String() != idA || len(b.Logbook) != 2 {
		t.Errorf("Import() with the seed = %v, %v; want the whole home", b.Key, err)
	}
	_, _, err = Import(dir, "", nil)
	if !problem.Is(err, problem.NotFound) || !strings.Contains(err.Error(), "keyring get vacant.cli "+filepath.Base(dir)) {
		t.Errorf("Import() without the seed = %v, want the command that takes it out", err)
	}
	if _, _, err := Import(dir, "-", strings.NewReader(strings.Repeat("11", 32))); !problem.Is(err, problem.Damaged) {
		t.Errorf("Import() with another seed = %v, want it refused", err)
	}
}

func TestImportRefusesADamagedHome(t *testing.T) {
	log := referenceLog(t)
	for name, tc := range map[string]struct {
		files map[string]string
		want  problem.Kind
		text  string
	}{
		"no key file": {map[string]string{"logbook.jsonl": log}, problem.NotFound, "is not a home directory of the reference implementation: it has no key.json"},
		"changed entry": {map[string]string{"key.json": plainKey, "logbook.jsonl": strings.Replace(log, "alice", "mallo", 1)},
			problem.Untrusted, "entry 0 signature"},
		"missing entry": {map[string]string{"key.json": plainKey, "logbook.jsonl": log[strings.Index(log, "\n")+1:]},
			problem.Untrusted, "entry 0 prev_hash"},
		"half a line": {map[string]string{"key.json": plainKey, "logbook.jsonl": log[:len(log)-9]}, problem.Untrusted, "line 2"},
		"bad state": {map[string]string{"key.json": plainKey, "logbook.jsonl": log, "envelope_state.json": `{"x":1}`},
			problem.Damaged, "envelope_state.json"},
		"an identity of ours": {map[string]string{"key.json": `{"format":"vacancy-key/1","seed_hex":"` + seedA + `"}`},
			problem.Usage, "export"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := Import(write(t, tc.files), "", nil)
			if !problem.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
				t.Errorf("Import() = %v, want %v with %q", err, tc.want, tc.text)
			}
		})
	}
}

func TestAHomeWithoutCallsOrLogbookIsTaken(t *testing.T) {
	b, _, err := Import(write(t, map[string]string{"key.json": `{"pubkey_hex":"` + idA + `","seed_hex":"` + seedA + `"}`}), "", nil)
	if err != nil || len(b.Logbook) != 0 || len(b.Chains) != 0 {
		t.Errorf("Import() = %v, %v; want the key alone", b, err)
	}
}
