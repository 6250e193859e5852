package translog_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/transparency-dev/formats/log"
	"golang.org/x/mod/sumdb/note"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

func keyOf(t *testing.T, seed byte) *identity.Key {
	t.Helper()
	key, err := identity.KeyFromSeed([]byte(strings.Repeat(string(rune('a'+seed)), identity.Size)))
	must(t, err)
	return key
}

// The verifier key is sufficient to verify.
func TestACheckpointIsWhatOtherToolsOfSignedNotesRead(t *testing.T) {
	key := keyOf(t, 0)
	want := translog.Checkpoint{Host: key.ID(), Size: 17, Root: [32]byte{1, 2, 3}}
	msg, err := translog.ForgedNote(want, t.Context(), key)
	must(t, err)
	golden(t, "checkpoint.txt", string(msg))
	v, err := note.NewVerifier(translog.VerifierKey(key.ID()))
	if err != nil {
		t.Fatalf("NewVerifier(%s) = %v", translog.VerifierKey(key.ID()), err)
	}
	n, err := note.Open(msg, note.VerifierList(v))
	must(t, err)
	var c log.Checkpoint
	if rest, err := c.Unmarshal([]byte(n.Text)); err != nil || len(rest) > 0 {
		t.Fatalf("Unmarshal() = %q, %v", rest, err)
	}
	if diff := cmp.Diff(log.Checkpoint{Origin: "vacancy/" + key.ID().String(), Size: 17, Hash: want.Root[:]}, c); diff != "" {
		t.Errorf("checkpoint (-want +got):\n%s", diff)
	}
	if got, cosigned, err := translog.VerifyCheckpoint(msg); err != nil || got != want || len(cosigned) != 0 {
		t.Errorf("Open() = %+v, %v, %v, want %+v", got, cosigned, err, want)
	}
}

// The golden note was verified with NewVerifierForCosignatureV1 of
// transparency-dev/formats, under WitnessKey.
func TestACosignatureIsTheOneOfC2SP(t *testing.T) {
	host, witness := keyOf(t, 0), keyOf(t, 1)
	c := translog.Checkpoint{Host: host.ID(), Size: 17, Root: [32]byte{1, 2, 3}}
	msg, err := translog.Cosign(t.Context(), c, witness, time.Unix(1_800_000_000, 0))
	must(t, err)
	golden(t, "cosignature.txt", string(msg)+"\n"+translog.WitnessKey(witness.ID())+"\n")
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile("testdata/" + name)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestACheckpointThatSomebodyChangedDoesNotVerify(t *testing.T) {
	key, other := keyOf(t, 0), keyOf(t, 1)
	c := translog.Checkpoint{Host: key.ID(), Size: 17, Root: [32]byte{1, 2, 3}}
	msg, err := translog.ForgedNote(c, t.Context(), key)
	must(t, err)
	foreign, err := translog.ForgedNote(translog.Checkpoint{Host: c.Host, Size: 18, Root: c.Root}, t.Context(), other)
	must(t, err)
	cosigned, err := translog.Cosign(t.Context(), c, other, time.Unix(1_800_000_000, 0))
	must(t, err)
	text, signature, _ := strings.Cut(string(msg), "\n\n")
	otherID := other.ID().String()
	for name, msg := range map[string]string{
		"another size":              strings.Replace(string(msg), "\n17\n", "\n18\n", 1),
		"a size in another form":    strings.Replace(string(msg), "\n17\n", "\n017\n", 1),
		"another root":              strings.Replace(string(msg), "AQID", "AQIE", 1),
		"a short root":              strings.Replace(string(msg), "AQIDAAAA", "AQID", 1),
		"another host":              strings.ReplaceAll(string(msg), key.ID().String(), otherID),
		"another host in the text":  strings.Replace(string(msg), key.ID().String(), otherID, 1),
		"an origin of another kind": strings.ReplaceAll(string(msg), "vacancy/", "example.com/"),
		"an origin in capitals":     strings.Replace(string(msg), key.ID().String(), strings.ToUpper(key.ID().String()), 1),
		"another's signature":       string(foreign),
		"a line more":               text + "\nmore\n\n" + signature,
		"a blank line more":         text + "\n\n\n" + signature,
		"no signature":              text + "\n\n",
		"a cosignature alone":       string(cosigned),
		"nothing":                   "",
		"too much":                  string(msg) + strings.Repeat(signature, 200),
		"JSON":                      `{"detail":"no such path"}`,
		"a name that clears the screen of who reads it": string(msg) + "\u2014 x\u009b2J AAAAAAAA\n",
		"a name that turns the direction of writing":    string(msg) + "\u2014 x\u202ey AAAAAAAA\n",
	} {
		if _, _, err := translog.VerifyCheckpoint([]byte(msg)); !problem.Is(err, problem.Untrusted) {
			t.Errorf("Open(%s) = %v, want a problem of kind untrusted", name, err)
		}
	}
}

// Go's own verifier accepts the signature of the neutral point.
func TestACheckpointOfAKeyThatSignsForAnybodyDoesNotVerify(t *testing.T) {
	weak := identity.ID{1}
	msg, err := translog.ForgedNote(translog.Checkpoint{Host: weak, Size: 1}, t.Context(), anybody{weak})
	must(t, err)
	v, err := note.NewVerifier(translog.VerifierKey(weak))
	must(t, err)
	if _, err := note.Open(msg, note.VerifierList(v)); err != nil {
		t.Fatalf("the forged note does not even pass note.Open: %v; this test proves nothing", err)
	}
	if _, _, err := translog.VerifyCheckpoint(msg); !problem.Is(err, problem.Untrusted) {
		t.Errorf("Open() = %v, want a problem of kind untrusted", err)
	}
}

// A key that the host has certified signs receipts and bookings. It cannot sign checkpoints,
// neither for the host nor under its own id.
func TestACheckpointByACertifiedKeyDoesNotVerify(t *testing.T) {
	host, certified := keyOf(t, 0), keyOf(t, 1)
	msg, err := translog.ForgedNote(translog.Checkpoint{Host: host.ID(), Size: 17}, t.Context(), certified)
	must(t, err)
	if _, _, err := translog.VerifyCheckpoint(msg); !problem.Is(err, problem.Untrusted) {
		t.Errorf("Open() = %v, want a problem of kind untrusted", err)
	}
	msg, err = translog.ForgedNote(translog.Checkpoint{Host: certified.ID(), Size: 17}, t.Context(), certified)
	must(t, err)
	if c, _, err := translog.VerifyCheckpoint(msg); err != nil || c.Host == host.ID() {
		t.Errorf("Open() = %+v, %v, want a checkpoint of another host", c, err)
	}
}

// Everybody can sign by using the neutral point as R and 0 as S.
type anybody struct{ id identity.ID }

func (a anybody) ID() identity.ID { return a.id }
func (a anybody) Sign(context.Context, []byte) ([]byte, error) {
	return append([]byte{1}, make([]byte, 63)...), nil
}

func FuzzOpen(f *testing.F) {
	key, err := identity.NewKey(rand.Reader)
	must(f, err)
	msg, err := translog.ForgedNote(translog.Checkpoint{Host: key.ID(), Size: 17}, context.Background(), key)
	must(f, err)
	f.Add(msg)
	for _, name := range []string{"checkpoint.txt", "cosignature.txt"} {
		b, err := os.ReadFile("testdata/" + name)
		must(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		c, _, err := translog.VerifyCheckpoint(msg)
		if err != nil {
			return
		}
		if !strings.HasPrefix(string(msg), c.Text()+"\n") {
			t.Errorf("Open() takes a checkpoint in another form than its own:\n%s", hex.Dump(msg))
		}
		if again, err := translog.ParseCheckpoint(c.Text()); err != nil || again != c {
			t.Errorf("ParseCheckpoint(Text()) = %+v, %v, want %+v", again, err, c)
		}
	})
}
