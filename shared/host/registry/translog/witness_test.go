package translog_test

import (
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// witness is a registered vacant.
func (w *fixture) witness() *identity.Key {
	w.Helper()
	key, err := identity.NewKey(rand.Reader)
	must(w, err)
	w.May[key.ID()] = true
	return key
}

func (w *fixture) cosigned(c translog.Checkpoint, by identity.Signer) []byte {
	w.Helper()
	msg, err := translog.Cosign(w.Context(), c, by, w.Now)
	must(w, err)
	return msg
}

func TestACosignatureStandsInTheCheckpointFromThenOn(t *testing.T) {
	w, l := sealedAt(t, 10)
	first, key := w.latest(l), w.witness()
	got, err := l.AddCosignatures(t.Context(), w.cosigned(first.Checkpoint, key))
	if err != nil || got.CosignatureCount != 1 {
		t.Fatalf("Cosign() = %d cosignatures, %v, want 1", got.CosignatureCount, err)
	}
	p := w.latest(l)
	c, cosigned, err := translog.VerifyCheckpoint(p.Note)
	want := []translog.Cosignature{{Name: "vacant/" + key.ID().String(), Witness: key.ID(), Time: w.Now.Unix()}}
	if diff := cmp.Diff(want, cosigned); diff != "" || err != nil || c != first.Checkpoint {
		t.Errorf("VerifyCheckpoint() = %+v, %v; cosignatures (-want +got):\n%s", c, err, diff)
	}
	if diff := cmp.Diff([]string{want[0].Name}, p.Witnesses()); diff != "" {
		t.Errorf("Witnesses() (-want +got):\n%s", diff)
	}
	// A later signature of the same witness changes nothing.
	w.Now = w.Now.Add(time.Minute)
	if _, err := l.AddCosignatures(t.Context(), w.cosigned(first.Checkpoint, key)); err != nil {
		t.Errorf("Cosign() again = %v, want nil", err)
	}
	if again := w.latest(l); string(again.Note) != string(p.Note) {
		t.Errorf("the checkpoint = %s, want it as it was: %s", again.Note, p.Note)
	}
	// An earlier checkpoint is also cosigned and keeps its other signatures.
	w.events(5)
	w.seal(l)
	got, err = l.AddCosignatures(t.Context(), append(p.Note, lines(w.cosigned(first.Checkpoint, w.witness()))...))
	if err != nil || got.Size != 10 || got.CosignatureCount != 2 {
		t.Errorf("Cosign(an earlier one) = %d of %d, %v, want 2 of 10", got.CosignatureCount, got.Size, err)
	}
	if latest := w.latest(l); latest.CosignatureCount != 0 {
		t.Errorf("the newest checkpoint has %d cosignatures, want none", latest.CosignatureCount)
	}
}

// lines returns the signature lines of a note.
func lines(msg []byte) []byte {
	_, signatures, _ := strings.Cut(string(msg), "\n\n")
	return []byte(signatures)
}

func TestUnknownWitnessIsRefused(t *testing.T) {
	w, l := sealedAt(t, 10, 20)
	c := w.latest(l).Checkpoint
	key, stranger := w.witness(), keyOf(t, 3)
	good := w.cosigned(c, key)
	ahead, err := translog.Cosign(t.Context(), c, key, w.Now.Add(301*time.Second))
	must(t, err)
	forked := c
	forked.Root[0]++
	between := translog.Checkpoint{Host: c.Host, Size: 15, Root: w.root(15)}
	own, err := translog.ForgedNote(c, t.Context(), w.Key)
	must(t, err)
	foreign := translog.Checkpoint{Host: stranger.ID(), Size: c.Size, Root: c.Root}
	for _, tt := range []struct {
		name string
		msg  []byte
		want problem.Kind
	}{
		{"a vacant that is not registered", w.cosigned(c, stranger), problem.Forbidden},
		{"a signature that does not verify", []byte(strings.Replace(string(good), "\n20\n", "\n10\n", 1)), problem.BadSignature},
		{"a time ahead", ahead, problem.ClockSkew},
		{"another tree of this size", w.cosigned(forked, key), problem.Conflict},
		{"a tree that was never sealed", w.cosigned(between, key), problem.NotFound},
		{"a tree beyond", w.cosigned(translog.Checkpoint{Host: c.Host, Size: 99}, key), problem.NotFound},
		{"another host's log", w.cosigned(foreign, key), problem.Conflict},
		{"the host's own signature alone", own, problem.Forbidden},
		{"no signature", []byte(c.Text() + "\n"), problem.Malformed},
		{"no note", []byte("hello"), problem.Malformed},
		{"too much", []byte(c.Text() + "\n" + strings.Repeat("x", translog.MaxNoteBytes)), problem.Malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := l.AddCosignatures(t.Context(), tt.msg); !problem.Is(err, tt.want) {
				t.Errorf("Cosign() = %v (%s), want %s", err, problem.AsError(err).Kind, tt.want)
			}
		})
	}
	if p := w.latest(l); p.CosignatureCount != 0 {
		t.Errorf("the checkpoint has %d cosignatures, want none", p.CosignatureCount)
	}
	delete(w.May, key.ID()) // as when it is revoked
	if _, err := l.AddCosignatures(t.Context(), good); !problem.Is(err, problem.Forbidden) {
		t.Errorf("Cosign() of one that was revoked = %v, want forbidden", err)
	}
	l.Config.IsWitness = func(context.Context, identity.ID) (bool, error) { return false, store.ErrUnavailable }
	if _, err := l.AddCosignatures(t.Context(), good); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Cosign() without a registry = %v, want unavailable", err)
	}
}

func TestStrangersDoNotCrowdOutConfiguredWitnesses(t *testing.T) {
	w := newWorld(t)
	trusted := keyOf(t, 5)
	c := w.config(w.Store)
	c.WitnessKeys = []string{translog.WitnessKey(trusted.ID())}
	l, err := translog.New(c)
	must(t, err)
	w.events(4)
	w.seal(l)
	checkpoint := w.latest(l).Checkpoint
	for n := range translog.MaxCosignatures {
		if p, err := l.AddCosignatures(t.Context(), w.cosigned(checkpoint, w.witness())); err != nil || p.CosignatureCount != n+1 {
			t.Fatalf("Cosign() = %d, %v, want %d", p.CosignatureCount, err, n+1)
		}
	}
	if _, err := l.AddCosignatures(t.Context(), w.cosigned(checkpoint, w.witness())); !problem.Is(err, problem.TooManyRequests) {
		t.Errorf("Cosign() of one more = %v, want too many", err)
	}
	p, err := l.AddCosignatures(t.Context(), w.cosigned(checkpoint, trusted))
	if err != nil || p.CosignatureCount != translog.MaxCosignatures+1 {
		t.Errorf("Cosign() of a configured witness = %d, %v, want %d", p.CosignatureCount, err, translog.MaxCosignatures+1)
	}
	if len(p.Note) > translog.MaxNoteBytes {
		t.Errorf("the note has %d bytes, want at most %d", len(p.Note), translog.MaxNoteBytes)
	}
	w.latest(l)
}

func TestAWitnessKeyThatIsNoneIsRefused(t *testing.T) {
	good := translog.WitnessKey(keyOf(t, 0).ID())
	for _, key := range []string{"", "x", good[1:], good + "x", strings.Replace(good, "+", "++", 1), translog.WitnessKey(identity.ID{1}), "a b" + good[70:]} {
		if _, err := translog.New(translog.Config{WitnessKeys: []string{key}}); !problem.Is(err, problem.Usage) {
			t.Errorf("New(%q) = %v, want usage", key, err)
		}
	}
	// Witnesses publish the same key also for plain signatures.
	for _, key := range []string{good, translog.VerifierKey(keyOf(t, 0).ID())} {
		if _, err := translog.New(translog.Config{WitnessKeys: []string{key}}); err != nil {
			t.Errorf("New(%q) = %v, want nil", key, err)
		}
	}
}

func TestWitnessesAtOnceAreAllKept(t *testing.T) {
	w, l := sealedAt(t, 10)
	c := w.latest(l).Checkpoint
	var notes [][]byte
	for range 5 {
		notes = append(notes, w.cosigned(c, w.witness()))
	}
	var all sync.WaitGroup
	for _, msg := range notes {
		all.Go(func() {
			if _, err := l.AddCosignatures(t.Context(), msg); err != nil {
				t.Errorf("Cosign() = %v", err)
			}
		})
	}
	all.Wait()
	if p := w.latest(l); p.CosignatureCount != 5 {
		t.Errorf("the checkpoint has %d cosignatures, want 5", p.CosignatureCount)
	}
}

func TestACosignatureSurvivesEveryFaultOfTheStore(t *testing.T) {
	for _, fate := range storetest.FaultsOf("Commit") {
		for broken := 1; broken <= 3; broken++ {
			w, l := sealedAt(t, 10)
			msg := w.cosigned(w.latest(l).Checkpoint, w.witness())
			call := 0
			lossy := &storetest.Lossy{Store: w.Store, ChooseFault: func(string, []store.Write) storetest.Fault {
				if call++; call == broken {
					return fate
				}
				return storetest.NoFault
			}}
			_, err := w.log(lossy, 0).AddCosignatures(t.Context(), msg)
			if err != nil && !problem.Is(err, problem.Unavailable) {
				t.Errorf("%v at call %d: Cosign() = %v, want nil or unavailable", fate, broken, err)
			}
			p, err := l.AddCosignatures(t.Context(), msg)
			lossy.ApplyPending(t.Context())
			if err != nil || p.CosignatureCount != 1 || w.latest(l).CosignatureCount != 1 {
				t.Errorf("%v at call %d: Cosign() again = %d, %v, want 1", fate, broken, p.CosignatureCount, err)
			}
		}
	}
}
