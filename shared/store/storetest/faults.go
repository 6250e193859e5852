package storetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
)

var faultTests = []contractTest{
	{"a single write that is resent after any fault is applied once", testResendSingleWrite},
	{"a transaction that is resent after any fault is applied once", testResendTransaction},
	{"a late write after its resend changes nothing", testDelayedAfterResend},
	{"a late transaction is refused completely if another write took a position", testDelayedAfterOther},
	{"a late write that was not resent is applied or refused", testDelayedWithoutResend},
}

var commitFaults = FaultsOf("Commit")

// commitUntilAcknowledged repeats the same writes until they are acknowledged.
func commitUntilAcknowledged(t *testing.T, s store.Store, writes ...store.Write) {
	t.Helper()
	for range 10 {
		err := s.Commit(t.Context(), writes...)
		if err == nil {
			return
		}
		if !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("Commit() = %v, want nil or ErrUnavailable", err)
		}
	}
	t.Fatal("Commit() failed ten times")
}

// withFirstFaults applies the faults to the first commits, in order. Later commits have no fault.
func withFirstFaults(s store.Store, faults ...Fault) *Lossy {
	return &Lossy{Store: s, ChooseFault: func(op string, _ []store.Write) Fault {
		if op != "Commit" || len(faults) == 0 {
			return NoFault
		}
		f := faults[0]
		faults = faults[1:]
		return f
	}}
}

func testResendSingleWrite(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	k, position := newKey(), uint64(0)
	for _, firstFault := range commitFaults {
		for _, secondFault := range append([]Fault{NoFault}, commitFaults...) {
			l := withFirstFaults(s, firstFault, secondFault)
			position++
			a := newAppend(name, position, firstFault.String()+secondFault.String())
			commitUntilAcknowledged(t, l, a)
			wantTip(t, s, name, rowOf(a))

			l = withFirstFaults(s, firstFault, secondFault)
			p := newPut(k, position-1, firstFault.String()+secondFault.String())
			commitUntilAcknowledged(t, l, p)
			wantDoc(t, s, docOf(p))
			l.ApplyPending(t.Context())
			wantDoc(t, s, docOf(p))
		}
	}
	for _, fault := range commitFaults {
		p := newPut(newKey(), 0, "")
		commit(t, s, p)
		l := withFirstFaults(s, fault)
		commitUntilAcknowledged(t, l, store.Delete{Key: p.Key, IfVersion: 1})
		wantAbsent(t, s, p.Key)
		l.ApplyPending(t.Context())
		wantAbsent(t, s, p.Key)
	}
}

func testResendTransaction(t *testing.T, h Adapter) {
	for _, firstFault := range commitFaults {
		for _, secondFault := range append([]Fault{NoFault}, commitFaults...) {
			c := newCommitFixture(t, h)
			l := withFirstFaults(c.store, firstFault, secondFault)
			commitUntilAcknowledged(t, l, c.writes()...)
			c.wantApplied(t, h)
			for i, err := range l.ApplyPending(t.Context()) {
				if err != nil {
					t.Errorf("late write %d = %v, want nil: it was applied before", i, err)
				}
			}
			c.wantApplied(t, h)
		}
	}
}

func testDelayedAfterResend(t *testing.T, h Adapter) {
	c := newCommitFixture(t, h)
	l := withFirstFaults(c.store, Delayed, Delayed)
	commitUntilAcknowledged(t, l, c.writes()...)
	commit(t, c.store, newAppend(c.firstAppend.Stream, 2, "follows"))
	commit(t, c.store, newAppend(c.secondAppend.Stream, 2, "follows"))
	before := [][]store.Row{allRows(t, c.store, c.firstAppend.Stream), allRows(t, c.store, c.secondAppend.Stream)}
	l.ApplyPending(t.Context())
	if diff := cmp.Diff(before, [][]store.Row{allRows(t, c.store, c.firstAppend.Stream), allRows(t, c.store, c.secondAppend.Stream)}); diff != "" {
		t.Errorf("rows (-before +after):\n%s", diff)
	}
	balance := c.balance
	balance.Version, balance.Number = 2, 6
	wantDoc(t, c.store, balance)
}

func testDelayedAfterOther(t *testing.T, h Adapter) {
	c := newCommitFixture(t, h)
	l := withFirstFaults(c.store, Delayed)
	if err := l.Commit(t.Context(), c.writes()...); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Commit() = %v, want ErrUnavailable", err)
	}
	winner := newAppend(c.secondAppend.Stream, 1, "winner")
	commit(t, c.store, winner)
	for _, err := range l.ApplyPending(t.Context()) {
		wantTaken(t, err, rowOf(winner))
	}
	wantTip(t, c.store, c.firstAppend.Stream, store.Row{})
	wantTip(t, c.store, c.secondAppend.Stream, rowOf(winner))
	wantAbsent(t, c.store, c.put.Key)
	wantDoc(t, c.store, c.docToDelete)
	wantDoc(t, c.store, c.balance)
}

func testDelayedWithoutResend(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	a, b := newAppend(name, 1, "late"), newAppend(name, 2, "early")
	l := withFirstFaults(s, Delayed, Delayed)
	for _, w := range []store.Append{b, a} {
		if err := l.Commit(t.Context(), w); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("Commit() = %v, want ErrUnavailable", err)
		}
	}
	errs := l.ApplyPending(t.Context())
	wantTaken(t, errs[0], store.Row{})
	if errs[1] != nil {
		t.Errorf("the late write at the tip = %v, want nil", errs[1])
	}
	if diff := cmp.Diff([]store.Row{rowOf(a)}, allRows(t, s, name)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
