package storetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
)

var resendTests = []contractTest{
	{"the same append sent again succeeds and changes nothing", func(t *testing.T, h Adapter) {
		s, name := h.Open(t), newStream()
		a := newAppend(name, 1, "once")
		for range 3 {
			commit(t, s, a)
		}
		next := newAppend(name, 2, "next")
		commit(t, s, next)
		commit(t, s, a) // resent after later commits
		if diff := cmp.Diff([]store.Row{rowOf(a), rowOf(next)}, allRows(t, s, name)); diff != "" {
			t.Errorf("rows (-want +got):\n%s", diff)
		}
	}},
	{"the write id identifies a write, not its bytes", func(t *testing.T, h Adapter) {
		s, name := h.Open(t), newStream()
		a := newAppend(name, 1, "first bytes")
		commit(t, s, a)
		again := a
		again.Data = []byte("other bytes")
		commit(t, s, again)
		wantTip(t, s, name, rowOf(a))
		// The same write id at another position is a different write.
		again.Position = 2
		commit(t, s, again)
		wantTip(t, s, name, rowOf(again))
	}},
	{"the same put sent again succeeds and changes nothing", func(t *testing.T, h Adapter) {
		s := h.Open(t)
		p := newPut(newKey(), 0, "once")
		for range 3 {
			commit(t, s, p)
		}
		wantDoc(t, s, docOf(p))
		second := newPut(p.Key, 1, "twice")
		commit(t, s, second)
		commit(t, s, second)
		wantDoc(t, s, docOf(second))
		wantConflict(t, s.Commit(t.Context(), p), 2)
	}},
	{"a resent put is recognised after an add", func(t *testing.T, h Adapter) {
		s := h.Open(t)
		p := newPut(newKey(), 0, "once")
		commit(t, s, p)
		commit(t, s, newAppend(newStream(), 1, ""), store.Add{Key: p.Key, Delta: 2, Max: 9})
		commit(t, s, p)
		want := docOf(p)
		want.Version, want.Number = 2, 2
		wantDoc(t, s, want)
	}},
	{"a transaction sent again adds nothing twice", func(t *testing.T, h Adapter) {
		c := newCommitFixture(t, h)
		for range 3 {
			commit(t, c.store, c.writes()...)
			c.wantApplied(t, h)
		}
	}},
	{"a transaction is recognised by its row although its documents have changed since", func(t *testing.T, h Adapter) {
		c := newCommitFixture(t, h)
		commit(t, c.store, c.writes()...)
		put := newPut(c.put.Key, 1, "moved on")
		empty := newAppend(newStream(), 1, "takes all the money")
		commit(t, c.store, put)
		commit(t, c.store, empty, store.Add{Key: c.add.Key, Delta: -6, Max: 100})
		commit(t, c.store, newAppend(c.firstAppend.Stream, 2, "follows"))
		commit(t, c.store, newPut(c.deletion.Key, 0, "made again"))
		commit(t, c.store, c.writes()...)
		wantDoc(t, c.store, docOf(put))
		want := c.balance
		want.Version, want.Number = 3, 0
		wantDoc(t, c.store, want)
		if doc, err := c.store.Doc(t.Context(), c.deletion.Key); err != nil || string(doc.Data) != "made again" {
			t.Errorf("Doc() = %q, %v, want the recreated document", doc.Data, err)
		}
	}},
	{"a transaction without a row is recognised by its put", func(t *testing.T, h Adapter) {
		s, money := h.Open(t), newKey()
		p := newPut(newKey(), 0, "receipt")
		for range 3 {
			commit(t, s, p, store.Add{Key: money, Delta: 5, Max: 5})
		}
		wantDoc(t, s, store.Doc{Key: money, Version: 1, Number: 5})
		wantDoc(t, s, docOf(p))
	}},
}
