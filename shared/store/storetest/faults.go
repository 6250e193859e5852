package storetest

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
)

var faultFacts = []fact{
	{"a single write that is resent after any fault is applied once", proveOnceSingle},
	{"a transaction that is resent after any fault is applied once", proveOnceAll},
	{"a late write after its resend changes nothing", proveLateAfter},
	{"a late transaction is refused completely if another write took a position", proveLateLoser},
	{"a late write that was not resent is applied or refused", proveLateAlone},
}

var bad = FatesOf("Commit")

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

// faultsFirst applies the faults in fates to the first commits, in order. Later commits have no fault.
func faultsFirst(s store.Store, fates ...Fault) *Lossy {
	return &Lossy{Store: s, Decide: func(op string, _ []store.Write) Fault {
		if op != "Commit" || len(fates) == 0 {
			return NoFault
		}
		f := fates[0]
		fates = fates[1:]
		return f
	}}
}

func proveOnceSingle(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	k, position := newKey(), uint64(0)
	for _, firstFate := range bad {
		for _, secondFate := range append([]Fault{NoFault}, bad...) {
			l := faultsFirst(s, firstFate, secondFate)
			position++
			a := newRow(name, position, firstFate.String()+secondFate.String())
			commitUntilAcknowledged(t, l, a)
			wantTip(t, s, name, rowOf(a))

			l = faultsFirst(s, firstFate, secondFate)
			p := newPut(k, position-1, firstFate.String()+secondFate.String())
			commitUntilAcknowledged(t, l, p)
			wantDoc(t, s, docOf(p))
			l.AwaitPending(t.Context())
			wantDoc(t, s, docOf(p))
		}
	}
	for _, fate := range bad {
		p := newPut(newKey(), 0, "")
		commit(t, s, p)
		l := faultsFirst(s, fate)
		commitUntilAcknowledged(t, l, store.Delete{Key: p.Key, If: 1})
		wantAbsent(t, s, p.Key)
		l.AwaitPending(t.Context())
		wantAbsent(t, s, p.Key)
	}
}

func proveOnceAll(t *testing.T, h Adapter) {
	for _, firstFate := range bad {
		for _, secondFate := range append([]Fault{NoFault}, bad...) {
			c := newScene(t, h)
			l := faultsFirst(c.s, firstFate, secondFate)
			commitUntilAcknowledged(t, l, c.writes()...)
			c.wantApplied(t, h)
			for i, err := range l.AwaitPending(t.Context()) {
				if err != nil {
					t.Errorf("late write %d = %v, want nil: it was applied before", i, err)
				}
			}
			c.wantApplied(t, h)
		}
	}
}

func proveLateAfter(t *testing.T, h Adapter) {
	c := newScene(t, h)
	l := faultsFirst(c.s, Delayed, Delayed)
	commitUntilAcknowledged(t, l, c.writes()...)
	commit(t, c.s, newRow(c.a.Stream, 2, "follows"))
	commit(t, c.s, newRow(c.b.Stream, 2, "follows"))
	before := [][]store.Row{all(t, c.s, c.a.Stream), all(t, c.s, c.b.Stream)}
	l.AwaitPending(t.Context())
	if diff := cmp.Diff(before, [][]store.Row{all(t, c.s, c.a.Stream), all(t, c.s, c.b.Stream)}); diff != "" {
		t.Errorf("rows (-before +after):\n%s", diff)
	}
	money := c.money
	money.Version, money.Number = 2, 6
	wantDoc(t, c.s, money)
}

func proveLateLoser(t *testing.T, h Adapter) {
	c := newScene(t, h)
	l := faultsFirst(c.s, Delayed)
	if err := l.Commit(t.Context(), c.writes()...); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("Commit() = %v, want ErrUnavailable", err)
	}
	winner := newRow(c.b.Stream, 1, "winner")
	commit(t, c.s, winner)
	for _, err := range l.AwaitPending(t.Context()) {
		wantTaken(t, err, rowOf(winner))
	}
	wantTip(t, c.s, c.a.Stream, store.Row{})
	wantTip(t, c.s, c.b.Stream, rowOf(winner))
	wantAbsent(t, c.s, c.put.Key)
	wantDoc(t, c.s, c.present)
	wantDoc(t, c.s, c.money)
}

func proveLateAlone(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	a, b := newRow(name, 1, "late"), newRow(name, 2, "early")
	l := faultsFirst(s, Delayed, Delayed)
	for _, w := range []store.Append{b, a} {
		if err := l.Commit(t.Context(), w); !errors.Is(err, store.ErrUnavailable) {
			t.Fatalf("Commit() = %v, want ErrUnavailable", err)
		}
	}
	heard := l.AwaitPending(t.Context())
	wantTaken(t, heard[0], store.Row{})
	if heard[1] != nil {
		t.Errorf("the late write at the tip = %v, want nil", heard[1])
	}
	if diff := cmp.Diff([]store.Row{rowOf(a)}, all(t, s, name)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}
