package translog_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// sealedAt returns a log that was sealed at these sizes one after the other.
func sealedAt(t *testing.T, sizes ...int) (*fixture, *translog.Log) {
	t.Helper()
	w := newWorld(t)
	l := w.log(w.Store, 0)
	before := 0
	for _, size := range sizes {
		w.events(size - before)
		w.seal(l)
		before = size
	}
	return w, l
}

// sizes are close to full tiles and perfect trees.
var sizes = []uint64{1, 2, 3, 7, 8, 9, 100, 255, 256, 257, 300, 511, 512, 513, 767, 768, 1023, 1024, 1100}

func TestEveryInclusionProofIsThatOfRFC6962(t *testing.T) {
	w, l := sealedAt(t, 0, 3, 256, 257, 900, 1100)
	for _, size := range sizes {
		for _, seq := range append(sizes, 5, 250, 400, 600) {
			if seq > size {
				continue
			}
			p, err := l.Inclusion(t.Context(), seq, size)
			if err != nil {
				t.Fatalf("Inclusion(%d, %d) = %v", seq, size, err)
			}
			want, err := w.tree.InclusionProof(seq-1, size)
			must(t, err)
			if diff := cmp.Diff(want, [][]byte(p.Proof), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Inclusion(%d, %d) (-want +got):\n%s", seq, size, diff)
			}
			if p.Tree.Root != w.root(size) {
				t.Errorf("Inclusion(%d, %d) has root %x, want %x", seq, size, p.Tree.Root, w.root(size))
			}
			if err := translog.CheckInclusion(p.Tree, seq, p.Leaf, p.Proof); err != nil {
				t.Errorf("CheckInclusion(%d, %d) = %v, want nil", seq, size, err)
			}
		}
	}
}

func TestEveryConsistencyProofIsThatOfRFC6962(t *testing.T) {
	w, l := sealedAt(t, 5, 300, 1100)
	for _, to := range sizes {
		for _, from := range append([]uint64{0}, sizes...) {
			if from > to {
				continue
			}
			c, err := l.Consistency(t.Context(), from, to)
			if err != nil {
				t.Fatalf("Consistency(%d, %d) = %v", from, to, err)
			}
			want, err := w.tree.ConsistencyProof(from, to)
			must(t, err)
			if diff := cmp.Diff(want, [][]byte(c.Proof), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("Consistency(%d, %d) (-want +got):\n%s", from, to, diff)
			}
			if err := translog.CheckConsistency(c.From, c.To, c.Proof); err != nil {
				t.Errorf("CheckConsistency(%d, %d) = %v, want nil", from, to, err)
			}
		}
	}
}

func TestAProofOfAnythingElseDoesNotVerify(t *testing.T) {
	_, l := sealedAt(t, 700)
	in, err := l.Inclusion(t.Context(), 300, 600)
	must(t, err)
	con, err := l.Consistency(t.Context(), 300, 600)
	must(t, err)
	tree := func(change func(*translog.Checkpoint)) translog.Checkpoint {
		c := in.Tree
		change(&c)
		return c
	}
	for name, err := range map[string]error{
		"another event":       translog.CheckInclusion(in.Tree, in.Seq, identity.Hash{1}, in.Proof),
		"another place":       translog.CheckInclusion(in.Tree, in.Seq+1, in.Leaf, in.Proof),
		"place 0":             translog.CheckInclusion(in.Tree, 0, in.Leaf, in.Proof),
		"a place beyond":      translog.CheckInclusion(in.Tree, 601, in.Leaf, in.Proof),
		"another root":        translog.CheckInclusion(tree(func(c *translog.Checkpoint) { c.Root[0]++ }), in.Seq, in.Leaf, in.Proof),
		"another size":        translog.CheckInclusion(tree(func(c *translog.Checkpoint) { c.Size = 2000 }), in.Seq, in.Leaf, in.Proof),
		"a node less":         translog.CheckInclusion(in.Tree, in.Seq, in.Leaf, in.Proof[1:]),
		"a short node":        translog.CheckInclusion(in.Tree, in.Seq, in.Leaf, append(translog.Proof{{1}}, in.Proof[1:]...)),
		"a later first tree":  translog.CheckConsistency(translog.Checkpoint{Size: 301, Root: con.From.Root}, con.To, con.Proof),
		"another first root":  translog.CheckConsistency(translog.Checkpoint{Size: 300, Root: con.To.Root}, con.To, con.Proof),
		"a rewound log":       translog.CheckConsistency(con.To, con.From, con.Proof),
		"no proof":            translog.CheckConsistency(con.From, con.To, nil),
		"a false empty log":   translog.CheckConsistency(translog.Checkpoint{Root: con.To.Root}, con.To, nil),
		"two of one size":     translog.CheckConsistency(con.From, translog.Checkpoint{Size: 300, Root: con.To.Root}, nil),
		"nodes without cause": translog.CheckConsistency(con.From, con.From, con.Proof),
	} {
		if !problem.Is(err, problem.Untrusted) {
			t.Errorf("%s: check = %v, want a problem of kind untrusted", name, err)
		}
	}
}

func TestProofOfAnUnsealedEntryIsRefused(t *testing.T) {
	w := newWorld(t)
	l := w.log(w.Store, 0)
	w.events(10)
	ctx := t.Context()
	calls := func() map[string]error {
		_, inclusion := l.Inclusion(ctx, 1, 0)
		_, consistency := l.Consistency(ctx, 0, 0)
		_, _, leaves := l.Leaves(ctx, 1, 10)
		_, latest := l.LoadLatestCheckpoint(ctx)
		_, at := l.LoadCheckpoint(ctx, 3)
		_, epoch := l.Epoch(ctx, 1)
		_, last := l.Epoch(ctx, 0)
		return map[string]error{"Inclusion": inclusion, "Consistency": consistency, "Leaves": leaves, "Latest": latest, "At": at, "Epoch": epoch, "Epoch(0)": last}
	}
	for name, err := range calls() {
		if !problem.Is(err, problem.NotFound) {
			t.Errorf("%s before the first Seal = %v, want not found", name, err)
		}
	}
	w.seal(l)
	w.events(5)
	for name, call := range map[string]func() error{
		"an event beyond":       func() error { _, err := l.Inclusion(ctx, 11, 0); return err },
		"event 0":               func() error { _, err := l.Inclusion(ctx, 0, 0); return err },
		"a tree beyond":         func() error { _, err := l.Inclusion(ctx, 1, 11); return err },
		"an event outside":      func() error { _, err := l.Inclusion(ctx, 8, 7); return err },
		"a later tree beyond":   func() error { _, err := l.Consistency(ctx, 1, 11); return err },
		"an earlier one beyond": func() error { _, err := l.Consistency(ctx, 8, 7); return err },
		"too many leaves":       func() error { _, _, err := l.Leaves(ctx, 1, translog.MaxLeaves+1); return err },
		"no leaves":             func() error { _, _, err := l.Leaves(ctx, 1, 0); return err },
		"leaves from 0":         func() error { _, _, err := l.Leaves(ctx, 0, 1); return err },
	} {
		if err := call(); !problem.Is(err, problem.Malformed) {
			t.Errorf("%s = %v, want malformed", name, err)
		}
	}
	leaves, size, err := l.Leaves(ctx, 9, 100)
	if err != nil || len(leaves) != 2 || size != 10 {
		t.Errorf("Leaves(9) = %d of %d, %v, want the last 2 of 10", len(leaves), size, err)
	}
	if leaves, _, err := l.Leaves(ctx, 11, 100); err != nil || len(leaves) != 0 {
		t.Errorf("Leaves(11) = %d, %v, want none", len(leaves), err)
	}
}

func TestAFaultOfTheStoreIsNoRefusal(t *testing.T) {
	w, l := sealedAt(t, 600)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, inclusion := l.Inclusion(ctx, 1, 0)
	_, consistency := l.Consistency(ctx, 1, 0)
	_, _, leaves := l.Leaves(ctx, 1, 10)
	_, latest := l.LoadLatestCheckpoint(ctx)
	_, epoch := l.Epoch(ctx, 1)
	_, seal := w.log(w.Store, 0).Seal(ctx)
	for name, err := range map[string]error{"Inclusion": inclusion, "Consistency": consistency, "Leaves": leaves, "Latest": latest, "Epoch": epoch, "Seal": seal} {
		if !problem.Is(err, problem.Unavailable) {
			t.Errorf("%s without a store = %v, want unavailable", name, err)
		}
	}
}
