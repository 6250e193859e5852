package witness_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/client/witness"
	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/event"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

var stream = store.StreamOf("evt", identity.ID{})

// host has a log of real events, and can lie if a test wants.
type host struct {
	t      *testing.T
	key    *identity.Key
	log    *translog.Log
	inner  store.Store
	events []logged
	hide   map[uint64]bool
}

type logged struct {
	event.Event
	prev, hash identity.Hash
}

func newKey(t *testing.T) *identity.Key {
	t.Helper()
	key, err := identity.NewKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func newHost(t *testing.T, key *identity.Key) *host {
	t.Helper()
	h := &host{t: t, key: key, inner: memory.New(), hide: map[uint64]bool{}}
	var err error
	h.log, err = translog.New(translog.Config{
		Store: h.inner, Stream: stream,
		DecodeLeaf: func(row store.Row) (leaf, prev identity.Hash, err error) {
			return identity.Hash(row.Data[:32]), identity.Hash(row.Data[32:]), nil
		},
		Identity:  func(context.Context) (identity.Signer, error) { return h.key, nil },
		IsWitness: func(context.Context, identity.ID) (bool, error) { return true, nil },
		Now:       func() time.Time { return time.Unix(1_800_000_000, 0) }, Rand: rand.Reader,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// publish makes n events of vacants with this name and seals them.
func (h *host) publish(n int, name string) *host {
	h.t.Helper()
	for i := range n {
		key, err := identity.KeyFromSeed(bytes.Repeat([]byte(name[:1]), 32))
		if err != nil {
			h.t.Fatal(err)
		}
		e := event.Event{Type: event.Register, Actor: key.ID(), ActorSeq: int64(i) + 1, IdempotencyKey: fmt.Sprintf("%s %d", name, i), Time: int64(i),
			Payload: event.RegisterPayload(identity.Hash{1}, 1, key.ID(), lifecycle.Public)}
		if err := e.Sign(h.t.Context(), key); err != nil {
			h.t.Fatal(err)
		}
		h.append(e)
	}
	h.seal()
	return h
}

func (h *host) append(e event.Event) {
	h.t.Helper()
	var prev identity.Hash
	if len(h.events) > 0 {
		prev = h.events[len(h.events)-1].hash
	}
	next := logged{e, prev, e.Hash(prev)}
	h.events = append(h.events, next)
	data := append(slices.Clone(next.hash[:]), prev[:]...)
	if err := h.inner.Commit(h.t.Context(), store.Append{Stream: stream, Position: uint64(len(h.events)), WriteID: store.WriteID{1}, Data: data}); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) seal() {
	h.t.Helper()
	if _, err := h.log.Seal(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// note is the newest checkpoint.
func (h *host) note() []byte {
	h.t.Helper()
	p, err := h.log.LoadLatestCheckpoint(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	return p.Note
}

// The host's answers, as an honest one gives them.

func (h *host) Checkpoint(ctx context.Context) ([]byte, error) {
	p, err := h.log.LoadLatestCheckpoint(ctx)
	return p.Note, err
}

func (h *host) Consistency(ctx context.Context, from, to uint64) (translog.Proof, error) {
	c, err := h.log.Consistency(ctx, from, to)
	return c.Proof, err
}

func (h *host) Inclusion(ctx context.Context, seq, size uint64) (translog.Proof, error) {
	i, err := h.log.Inclusion(ctx, seq, size)
	return i.Proof, err
}

func (h *host) Leaves(ctx context.Context, seq uint64, n int) ([]identity.Hash, error) {
	leaves, _, err := h.log.Leaves(ctx, seq, n)
	return leaves, err
}

func (h *host) Event(_ context.Context, seq uint64) (*event.Event, identity.Hash, error) {
	if h.hide[seq] {
		return nil, identity.Hash{}, nil
	}
	e := h.events[seq-1]
	return &e.Event, e.prev, nil
}

func (h *host) SubmitCheckpoint(ctx context.Context, note []byte) (int, error) {
	p, err := h.log.AddCosignatures(ctx, note)
	return p.CosignatureCount, err
}

// liar changes some answers.
type liar struct {
	witness.Log
	checkpoint  func([]byte) []byte
	leaves      func(seq uint64, leaves []identity.Hash) []identity.Hash
	event       func(*event.Event, *identity.Hash)
	consistency func() translog.Proof
	inclusion   func() translog.Proof
}

func (l liar) Checkpoint(ctx context.Context) ([]byte, error) {
	note, err := l.Log.Checkpoint(ctx)
	if l.checkpoint != nil {
		note = l.checkpoint(note)
	}
	return note, err
}

func (l liar) Leaves(ctx context.Context, seq uint64, n int) ([]identity.Hash, error) {
	leaves, err := l.Log.Leaves(ctx, seq, n)
	if l.leaves != nil {
		leaves = l.leaves(seq, leaves)
	}
	return leaves, err
}

func (l liar) Event(ctx context.Context, seq uint64) (*event.Event, identity.Hash, error) {
	e, prev, err := l.Log.Event(ctx, seq)
	if l.event != nil && seq == 4 {
		l.event(e, &prev)
	}
	return e, prev, err
}

func (l liar) Consistency(ctx context.Context, from, to uint64) (translog.Proof, error) {
	if l.consistency != nil {
		return l.consistency(), nil
	}
	return l.Log.Consistency(ctx, from, to)
}

func (l liar) Inclusion(ctx context.Context, seq, size uint64) (translog.Proof, error) {
	if l.inclusion != nil {
		return l.inclusion(), nil
	}
	return l.Log.Inclusion(ctx, seq, size)
}

func TestAnHonestLogVerifies(t *testing.T) {
	h := newHost(t, newKey(t)).publish(7, "a")
	h.hide[3] = true
	first, err := witness.Follower{Log: h, Host: h.key.ID()}.Verify(t.Context(), nil, false)
	if err != nil || first.Size != 7 || first.LeafCount != 7 || first.VerifiedCount != 6 || first.HiddenCount != 1 || first.Previous != nil {
		t.Errorf("Verify() = %+v, %v, want 7 events, one of them hidden", first, err)
	}
	h.publish(1200, "b")
	next, err := witness.Follower{Log: h}.Verify(t.Context(), first.Note, false)
	if err != nil || next.Size != 1207 || next.LeafCount != 1207 || next.VerifiedCount != 1200 || next.Previous.Size != 7 {
		t.Errorf("Verify() since 7 = %+v, %v, want the 1200 events that are new", next, err)
	}
	all, err := witness.Follower{Log: h}.Verify(t.Context(), next.Note, true)
	if err != nil || all.VerifiedCount != 1206 || all.HiddenCount != 1 {
		t.Errorf("Verify() of all = %d checked, %d hidden, %v, want 1206 and 1", all.VerifiedCount, all.HiddenCount, err)
	}
	again, err := witness.Follower{Log: h}.Verify(t.Context(), next.Note, false)
	if err != nil || again.VerifiedCount != 0 {
		t.Errorf("Verify() with nothing new = %d checked, %v, want none", again.VerifiedCount, err)
	}
}

func TestTheEmptyLogVerifies(t *testing.T) {
	h := newHost(t, newKey(t)).publish(0, "a")
	r, err := witness.Follower{Log: h}.Verify(t.Context(), nil, false)
	if err != nil || r.Size != 0 {
		t.Fatalf("Verify() = %+v, %v, want an empty log", r, err)
	}
	if r, err = (witness.Follower{Log: h.publish(3, "a")}).Verify(t.Context(), r.Note, false); err != nil || r.VerifiedCount != 3 {
		t.Errorf("Verify() since 0 = %+v, %v, want 3 events", r, err)
	}
}

func TestEveryLieOfAHostIsFound(t *testing.T) {
	key := newKey(t)
	honest := newHost(t, key).publish(10, "a")
	before := honest.note()
	honest.publish(10, "b")
	longer := honest.note()
	forked := newHost(t, key).publish(10, "a").publish(10, "c")
	rewritten := newHost(t, key).publish(20, "c")
	short := newHost(t, key).publish(5, "c")
	other := newHost(t, newKey(t)).publish(20, "a")
	unsigned := newHost(t, key).publish(3, "a")
	bad := unsigned.events[0].Event
	bad.ActorSeq, bad.Signature = 4, bytes.Repeat([]byte{7}, 64)
	unsigned.append(bad)
	unsigned.seal()
	tests := []struct {
		name   string
		log    witness.Log
		before []byte
		want   string
		fork   bool
	}{
		{"a forked tree of the same size", forked, longer, "signed two different logs of 20 events", true},
		{"a tree whose beginning was rewritten", rewritten, before, "does not prove that its log of 20 events begins with the 10", true},
		{"a tree whose beginning was rewritten, with another's proof", liar{Log: rewritten, consistency: func() translog.Proof {
			p, _ := honest.Consistency(t.Context(), 10, 20)
			return p
		}}, before, "does not prove that its log of 20 events begins with the 10", true},
		{"a log that was taken back", short, before, "was truncated: it had 10 events and has 5", true},
		{"another key", other, before, "is now signed by host " + other.key.ID().String(), false},
		{"another host than the one that was named", other, nil, "want host " + key.ID().String(), false},
		{"a checkpoint that nobody signed", liar{Log: honest, checkpoint: func(b []byte) []byte {
			return bytes.Replace(b, []byte("\n20\n"), []byte("\n21\n"), 1)
		}}, nil, "does not verify", false},
		{"something that is no checkpoint", liar{Log: honest, checkpoint: func([]byte) []byte { return []byte("<html>") }}, nil, "does not verify", false},
		{"an altered leaf", liar{Log: honest, leaves: func(seq uint64, l []identity.Hash) []identity.Hash {
			l[3][0]++
			return l
		}}, nil, "but its checkpoint has the root", false},
		{"leaves that are kept back", liar{Log: honest, leaves: func(seq uint64, l []identity.Hash) []identity.Hash {
			return l[:min(len(l), max(0, 15-int(seq)))]
		}}, nil, "signed for 20 events, but returned only 14", false},
		{"leaves that are too many", liar{Log: honest, leaves: func(seq uint64, l []identity.Hash) []identity.Hash {
			return append(l, identity.Hash{1})
		}}, nil, "returned more events than the 20 that it signed for", false},
		{"an event with another key", liar{Log: honest, event: func(e *event.Event, _ *identity.Hash) { e.IdempotencyKey = "x" }}, nil, "event 4, as the host returned it, differs from the event in the log", false},
		{"an event of another time", liar{Log: honest, event: func(e *event.Event, _ *identity.Hash) { e.Time++ }}, nil, "event 4, as the host returned it", false},
		{"an event of another actor", liar{Log: honest, event: func(e *event.Event, _ *identity.Hash) { e.Actor = other.key.ID() }}, nil, "event 4, as the host returned it", false},
		{"an event with another payload", liar{Log: honest, event: func(e *event.Event, _ *identity.Hash) { e.Payload = []byte("{}") }}, nil, "event 4, as the host returned it", false},
		{"an event after another", liar{Log: honest, event: func(_ *event.Event, prev *identity.Hash) { prev[0]++ }}, nil, "event 4 does not follow event 3", false},
		{"an event that its actor never signed", unsigned, nil, "event 4 is in the log, but not signed by its actor", false},
		{"a proof of inclusion that is none", liar{Log: honest, inclusion: func() translog.Proof { return nil }}, nil, "does not prove that event 1 is in its log", false},
		{"a checkpoint before that is none", honest, []byte("hello"), "the earlier checkpoint", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := witness.Follower{Log: tt.log, Host: key.ID()}.Verify(t.Context(), tt.before, false)
			if tt.before != nil { // whose host is then known from it
				_, err = witness.Follower{Log: tt.log}.Verify(t.Context(), tt.before, false)
			}
			if !problem.Is(err, problem.Untrusted) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("Verify() = %v, want untrusted: %q", err, tt.want)
			}
			var fork *witness.ForkError
			if errors.As(err, &fork) != tt.fork {
				t.Fatalf("Verify() = %T, want a Fork: %v", err, tt.fork)
			}
			if !tt.fork {
				return
			}
			// The two signed checkpoints are the proof: both are one host's.
			a, _, err1 := translog.VerifyCheckpoint(fork.OldNote)
			b, _, err2 := translog.VerifyCheckpoint(fork.NewNote)
			if err := errors.Join(err1, err2); err != nil || a.Host != key.ID() || b.Host != key.ID() || a == b {
				t.Errorf("the proof is %+v and %+v, %v, want two checkpoints of one host", a, b, err)
			}
		})
	}
}

// The host shows an older log, which the known log continues.
func TestAnOldCheckpointOutOfACacheIsNoLie(t *testing.T) {
	h := newHost(t, newKey(t)).publish(10, "a")
	old := h.note()
	h.publish(10, "b")
	stale := liar{Log: h, checkpoint: func([]byte) []byte { return old }}
	if _, err := (witness.Follower{Log: stale}).Verify(t.Context(), h.note(), false); !problem.Is(err, problem.Unavailable) {
		t.Errorf("Verify() = %v, want unavailable", err)
	}
	left := 1
	var fork *witness.ForkError
	if _, err := (witness.Follower{Log: failing{stale, &left}}).Verify(t.Context(), h.note(), false); !problem.Is(err, problem.Unavailable) || errors.As(err, &fork) {
		t.Errorf("Verify() of a host that went away before it could explain = %v, want unavailable and nobody accused", err)
	}
}

// failing cannot be reached after some requests.
type failing struct {
	witness.Log
	left *int
}

func (f failing) ask() error {
	if *f.left--; *f.left < 0 {
		return problem.New(problem.Unavailable, "away")
	}
	return nil
}

func (f failing) Checkpoint(ctx context.Context) ([]byte, error) {
	if err := f.ask(); err != nil {
		return nil, err
	}
	return f.Log.Checkpoint(ctx)
}

func (f failing) Consistency(ctx context.Context, from, to uint64) (translog.Proof, error) {
	if err := f.ask(); err != nil {
		return nil, err
	}
	return f.Log.Consistency(ctx, from, to)
}

func (f failing) Leaves(ctx context.Context, seq uint64, n int) ([]identity.Hash, error) {
	if err := f.ask(); err != nil {
		return nil, err
	}
	return f.Log.Leaves(ctx, seq, n)
}

func (f failing) Inclusion(ctx context.Context, seq, size uint64) (translog.Proof, error) {
	if err := f.ask(); err != nil {
		return nil, err
	}
	return f.Log.Inclusion(ctx, seq, size)
}

func TestAHostThatIsAwayIsNoLiar(t *testing.T) {
	h := newHost(t, newKey(t)).publish(10, "a")
	before := h.note()
	h.publish(10, "b")
	for left := 0; ; left++ {
		n := left
		_, err := witness.Follower{Log: failing{h, &n}}.Verify(t.Context(), before, false)
		if err == nil {
			if left < 5 {
				t.Errorf("Verify() asks %d questions, want 5 at least", left)
			}
			return
		}
		if !problem.Is(err, problem.Unavailable) {
			t.Errorf("Verify() with %d answers = %v, want unavailable", left, err)
		}
	}
}

func TestAWitnessCosignsWhatItVerified(t *testing.T) {
	h := newHost(t, newKey(t)).publish(10, "a")
	f := witness.Follower{Log: h}
	r, err := f.Verify(t.Context(), nil, false)
	if err != nil {
		t.Fatal(err)
	}
	key := newKey(t)
	n, err := f.Cosign(t.Context(), r, key, time.Unix(1_800_000_000, 0))
	if err != nil || n != 1 {
		t.Fatalf("Cosign() = %d, %v, want 1", n, err)
	}
	r, err = f.Verify(t.Context(), nil, false)
	want := []translog.Cosignature{{Name: "vacant/" + key.ID().String(), Witness: key.ID(), Time: 1_800_000_000}}
	if diff := cmp.Diff(want, r.Cosignatures); diff != "" || err != nil {
		t.Errorf("Verify() = %v; cosignatures (-want +got):\n%s", err, diff)
	}
}

// A host with two histories could show each client the history of its own checkpoint. Therefore the
// stored checkpoint is checked as well.
func TestACheckpointInAFileDoesNotHideTheOneThatIsKnown(t *testing.T) {
	key := newKey(t)
	one := newHost(t, key).publish(10, "a").publish(5, "b")
	other := newHost(t, key).publish(10, "a")
	file := other.note()
	other.publish(10, "c")
	var fork *witness.ForkError
	_, err := witness.Follower{Log: other, KnownNote: one.note()}.Verify(t.Context(), file, false)
	if !problem.Is(err, problem.Untrusted) || !errors.As(err, &fork) || !bytes.Equal(fork.OldNote, one.note()) {
		t.Errorf("Verify() of a fork since a file = %v, want a lie, proved by the checkpoint that is known", err)
	}
	// Both the file and the current log may be older than the known checkpoint.
	late := newHost(t, key).publish(10, "a")
	early := late.note()
	late.publish(3, "b")
	r, err := witness.Follower{Log: late, KnownNote: late.note()}.Verify(t.Context(), early, false)
	if err != nil || r.Previous.Size != 10 || r.VerifiedCount != 3 {
		t.Errorf("Verify() since a file = %+v, %v, want the 3 events since then", r, err)
	}
}
