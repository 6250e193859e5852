package datadir

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/client/dispatch"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/composite"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// exported is an export with all parts: a card, a manifest, two entries, a
// chain.
func exported(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"key.json": plainKey, "envelope_state.json": state} {
		must(t, WriteNew(filepath.Join(dir, name), []byte(text)))
	}
	b, _, err := Import(dir, "", nil)
	must(t, err)
	must(t, b.SignCard(context.Background(), "translate ZH↔EN"))
	b.Manifest = manifest(t, b.Key)
	at := time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	g, err := newGenesis(context.Background(), b.Key, "alice", at)
	must(t, err)
	b.Logbook = append(b.Logbook, g)
	return string(b.AppendExport(nil, "alice", at))
}

// manifest makes key a closed child.
func manifest(t testing.TB, key *identity.Key) *composite.Manifest {
	t.Helper()
	parent, err := identity.KeyFromSeed([]byte(strings.Repeat("p", identity.Size)))
	must(t, err)
	m := composite.Manifest{ParentID: parent.ID(), ChildID: key.ID(), BirthPath: "D2", ClosedByDefault: true,
		Reachability: composite.ParentOnly, OutboundPolicy: composite.NoExternal, SchemaVersion: composite.SchemaV2}
	must(t, errors.Join(m.SignParent(context.Background(), parent), m.SignChild(context.Background(), key)))
	return &m
}

func TestAnExportIsWholeAndReadsBack(t *testing.T) {
	text := exported(t)
	e, err := ParseExport([]byte(text))
	must(t, err)
	if found := e.Check(); !AllOK(found) {
		t.Fatalf("Check() = %v, want all parts right", found)
	}
	path := filepath.Join(t.TempDir(), "export.json")
	must(t, WriteNew(path, []byte(text)))
	b, source, err := Import(path, "", nil)
	if err != nil || source != FromExport {
		t.Fatalf("Import() = %q, %v; want an export", source, err)
	}
	again := string(b.AppendExport(nil, "alice", time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)))
	if diff := cmp.Diff(text, again); diff != "" {
		t.Errorf("an export of what was imported differs (-first +second):\n%s", diff)
	}
}

func TestEveryDamageOfAnExportIsFoundAndNamed(t *testing.T) {
	text := exported(t)
	for name, tc := range map[string]struct {
		old, new string
		part     string
		detail   string
	}{
		"another seed":            {seedA, strings.Repeat("11", 32), "key", "the seed is the key of"},
		"half a seed":             {seedA, seedA[:62], "key", "64 hex digits"},
		"another id":              {`"id": "` + idA, `"id": "` + idB, "key", "the file says " + idB},
		"no id":                   {`"id": "` + idA, `"id": "`, "id", "32 bytes"},
		"changed card":            {"translate", "Translate", "card", "signature"},
		"card of another version": {`"halo_version":1`, `"halo_version":2`, "card", "halo_version"},
		"changed manifest":        {`"birth_path":"D2"`, `"birth_path":"D3"`, "manifest", "signature"},
		"manifest of another":     {`"child_id":"` + idA, `"child_id":"` + idB, "manifest", "signature"},
		"manifest that is none":   {`"birth_path":"D2"`, `"birth_path":"D9"`, "manifest", "birth_path"},
		"changed entry":           {`"name": "alice", "vacant_id"`, `"name": "mallo", "vacant_id"`, "logbook", "signature"},
		"entry with a wrong link": {`"prev_hash": "0`, `"prev_hash": "1`, "logbook", "prev_hash"},
		"entry that is none":      {`"kind": "GENESIS", `, ``, "logbook", "entry 0: kind"},
		"chain of a wrong form":   {`"seq": 1`, `"seq": -1`, "chain", "seq"},
		"chain to another":        {`"target": "` + idB, `"target": "` + idA, "chain", ""},
		"chain of another":        {`"self": "` + idA, `"self": "` + idB, "chain", "chain of"},
	} {
		t.Run(name, func(t *testing.T) {
			if !strings.Contains(text, tc.old) {
				t.Fatalf("the export has no %q", tc.old)
			}
			e, err := ParseExport([]byte(strings.Replace(text, tc.old, tc.new, 1)))
			must(t, err)
			var broken []Finding
			for _, f := range e.Check() {
				if !f.OK {
					broken = append(broken, f)
				}
			}
			if len(broken) == 0 || broken[0].Part != tc.part || !strings.Contains(broken[0].Detail, tc.detail) {
				t.Errorf("Check() found %v, want a broken %s with %q", broken, tc.part, tc.detail)
			}
		})
	}
}

func TestABrokenExportIsNotImported(t *testing.T) {
	path := filepath.Join(t.TempDir(), "export.json")
	must(t, WriteNew(path, []byte(strings.Replace(exported(t), "translate", "Translate", 1))))
	_, _, err := Import(path, "", nil)
	if !problem.Is(err, problem.Untrusted) || !strings.Contains(err.Error(), "card") {
		t.Errorf("Import() = %v, want it refused for its card", err)
	}
}

func TestParseExportRefusesOtherFiles(t *testing.T) {
	for _, text := range []string{"", "{}", "[]", "{", `{"format":"vacancy-export/2"}`, exported(t) + "x", `{"format":1}`} {
		if _, err := ParseExport([]byte(text)); !problem.Is(err, problem.Damaged) {
			t.Errorf("ParseExport(%.30q) = %v, want damaged", text, err)
		}
	}
}

func FuzzExport(f *testing.F) {
	f.Add([]byte(exported(f)))
	f.Add([]byte(`{"format":"vacancy-export/1"}`))
	f.Add([]byte(`{"format":"vacancy-export/1","id":"` + idA + `","chains":{"` + idB + `":{"format":1}},"logbook":[{}],"card":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseExport(b)
		if err != nil || !AllOK(e.Check()) {
			return
		}
		bundle, err := e.toBundle()
		if err != nil {
			t.Fatalf("bundle() of what Check found whole = %v", err)
		}
		again, err := ParseExport(bundle.AppendExport(nil, "x", time.Unix(0, 0)))
		if err != nil || !AllOK(again.Check()) {
			t.Fatalf("an export of a whole export is broken: %v, %v", err, again.Check())
		}
	})
}

func FuzzKeyFile(f *testing.F) {
	f.Add([]byte(plainKey))
	f.Add([]byte(keyringKey))
	f.Fuzz(func(t *testing.T, b []byte) {
		key, err := parseKeyFile("key.json", b)
		if err != nil {
			return
		}
		again, err := parseKeyFile("key.json", appendKeyFile(nil, key))
		if err != nil || hex.EncodeToString(again.Seed()) != hex.EncodeToString(key.Seed()) {
			t.Fatalf("a key file written and read is %v, %v", again, err)
		}
	})
}

func TestAChangedEnvelopeInAChainStateIsFound(t *testing.T) {
	seed, err := hex.DecodeString(seedA)
	must(t, err)
	key, err := identity.KeyFromSeed(seed)
	must(t, err)
	to, err := identity.ParseID(idB)
	must(t, err)
	e := envelope.Envelope{From: key.ID(), To: to, Seq: 1, Time: time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC),
		Payload: envelope.Message{Role: envelope.RoleUser, Parts: []string{"hello"}}, IdempotencyKey: "k"}
	if _, err := e.Sign(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	st := dispatch.State{Self: key.ID(), Target: to, Sent: []envelope.Envelope{e}}
	x := Export{Chains: []ExportedChain{{idB, st.AppendJSON(nil)}}}
	if f := x.checkChains(key.ID()); !AllOK(f) {
		t.Errorf("checkChains() = %v, want it whole", f)
	}
	x.Chains[0].State = bytes.Replace(x.Chains[0].State, []byte("hello"), []byte("hallo"), 1)
	if f := x.checkChains(key.ID()); AllOK(f) || !strings.Contains(f[0].Detail, "signature of call 1") {
		t.Errorf("checkChains() of a changed call = %v, want its signature named", f)
	}
}
