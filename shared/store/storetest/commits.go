package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vacancy-host/vacancy/shared/store"
)

var commitFacts = []fact{
	{"all writes of a commit are applied together", proveTogether},
	{"a refused write at any place prevents its whole commit", proveNothing},
	{"TakenError precedes BoundsError and ConflictError, and the first of its kind is returned", proveOrder},
	{"a commit may have MaxWrites writes", proveMaxWrites},
	{"the accept of a priced call and its refund are atomic", proveLedger},
}

// scene is a store together with writes of each kind, all of which would succeed.
type scene struct {
	s              store.Store
	a, b           store.Append
	put            store.Put
	del            store.Delete
	add            store.Add
	present, money store.Doc // documents before del and add
}

func newScene(t *testing.T, h Adapter) scene {
	t.Helper()
	c := scene{s: h.Open(t)}
	c.a, c.b = newRow(newStream(), 1, "a"), newRow(newStream(), 1, "b")
	c.put = newPut(newKey(), 0, "put")
	c.put.Index = newKey()
	here, money := newPut(newKey(), 0, "to be deleted"), newPut(newKey(), 0, "money")
	money.Number = 10
	commit(t, c.s, here)
	commit(t, c.s, money)
	c.present, c.money = docOf(here), docOf(money)
	c.del = store.Delete{Key: here.Key, If: 1}
	c.add = store.Add{Key: money.Key, Delta: -4, Max: 100}
	return c
}

func (c *scene) wantNothing(t *testing.T, h Adapter) {
	t.Helper()
	wantTip(t, c.s, c.a.Stream, store.Row{})
	wantTip(t, c.s, c.b.Stream, store.Row{})
	wantAbsent(t, c.s, c.put.Key)
	h.wantListed(t, c.s, store.Range{Partition: c.put.Index.Partition}, 10)
	wantDoc(t, c.s, c.present)
	wantDoc(t, c.s, c.money)
}

func (c *scene) wantApplied(t *testing.T, h Adapter) {
	t.Helper()
	wantTip(t, c.s, c.a.Stream, rowOf(c.a))
	wantTip(t, c.s, c.b.Stream, rowOf(c.b))
	wantDoc(t, c.s, docOf(c.put))
	h.wantListed(t, c.s, store.Range{Partition: c.put.Index.Partition}, 10, docOf(c.put))
	wantAbsent(t, c.s, c.del.Key)
	money := c.money
	money.Version, money.Number = money.Version+1, money.Number-4
	wantDoc(t, c.s, money)
}

func (c *scene) writes() []store.Write { return []store.Write{c.a, c.put, c.del, c.add, c.b} }

func proveTogether(t *testing.T, h Adapter) {
	c := newScene(t, h)
	commit(t, c.s, c.writes()...)
	c.wantApplied(t, h)
}

// proveNothing inserts a refused write at each position of a commit whose other writes would
// succeed, and checks that no write is applied.
func proveNothing(t *testing.T, h Adapter) {
	c := newScene(t, h)
	taken := newRow(newStream(), 1, "")
	commit(t, c.s, taken)
	for _, bad := range []struct {
		name  string
		write store.Write
		check func(error)
	}{
		{"taken", newRow(taken.Stream, 1, "late"), func(err error) { wantTaken(t, err, rowOf(taken)) }},
		{"beyond", newRow(taken.Stream, 3, "early"), func(err error) { wantTaken(t, err, store.Row{}) }},
		{"low", store.Add{Key: newKey(), Delta: -1, Max: 9}, func(err error) { wantBounds(t, err, 0) }},
		{"high", store.Add{Key: newKey(), Delta: 10, Max: 9}, func(err error) { wantBounds(t, err, 0) }},
		{"put over nothing", newPut(newKey(), 1, ""), func(err error) { wantConflict(t, err, 0) }},
	} {
		for index := range 6 {
			err := c.s.Commit(t.Context(), slices.Insert(c.writes(), index, bad.write)...)
			if err == nil {
				t.Fatalf("Commit(with %s at %d) = nil, want a refusal", bad.name, index)
			}
			bad.check(err)
			c.wantNothing(t, h)
		}
	}
	stale := newPut(newKey(), 0, "")
	commit(t, c.s, stale)
	for index := range 6 {
		wantConflict(t, c.s.Commit(t.Context(), slices.Insert(c.writes(), index, store.Write(newPut(stale.Key, 0, "")))...), 1)
		wantConflict(t, c.s.Commit(t.Context(), slices.Insert(c.writes(), index, store.Write(store.Delete{Key: stale.Key, If: 2}))...), 1)
		c.wantNothing(t, h)
	}
	// The refused commits had no effect, so the same writes still succeed.
	commit(t, c.s, c.writes()...)
	c.wantApplied(t, h)
}

func proveOrder(t *testing.T, h Adapter) {
	s := h.Open(t)
	first, second := newRow(newStream(), 1, "first"), newRow(newStream(), 1, "second")
	stale, gone := newPut(newKey(), 0, ""), newPut(newKey(), 0, "")
	poor, rich := newPut(newKey(), 0, ""), newPut(newKey(), 0, "")
	poor.Number, rich.Number = 1, 9
	for _, w := range []store.Write{first, second, stale, newPut(stale.Key, 1, ""), gone, poor, rich} {
		commit(t, s, w)
	}
	takenA, takenB := newRow(first.Stream, 1, ""), newRow(second.Stream, 1, "")
	boundsA, boundsB := store.Add{Key: poor.Key, Delta: -2, Max: 9}, store.Add{Key: rich.Key, Delta: 1, Max: 9}
	conflictA, conflictB := newPut(stale.Key, 0, ""), store.Delete{Key: gone.Key, If: 5}
	fine := newRow(newStream(), 1, "fine")
	for i, c := range []struct {
		writes []store.Write
		check  func(error)
	}{
		{[]store.Write{conflictA, boundsA, takenA, fine}, func(err error) { wantTaken(t, err, rowOf(first)) }},
		{[]store.Write{boundsA, fine, conflictA, takenB, takenA}, func(err error) { wantTaken(t, err, rowOf(second)) }},
		{[]store.Write{takenA, takenB}, func(err error) { wantTaken(t, err, rowOf(first)) }},
		{[]store.Write{fine, conflictA, boundsB, boundsA}, func(err error) { wantBounds(t, err, 9) }},
		{[]store.Write{conflictB, boundsA, boundsB, fine}, func(err error) { wantBounds(t, err, 1) }},
		{[]store.Write{conflictB, fine, conflictA}, func(err error) { wantConflict(t, err, 1) }},
		{[]store.Write{fine, conflictA, conflictB}, func(err error) { wantConflict(t, err, 2) }},
	} {
		err := s.Commit(t.Context(), c.writes...)
		if err == nil {
			t.Fatalf("case %d: Commit() = nil, want a refusal", i)
		}
		c.check(err)
		wantTip(t, s, fine.Stream, store.Row{})
	}
}

func proveMaxWrites(t *testing.T, h Adapter) {
	s, partition := h.Open(t), newPartition()
	writes := []store.Write{newRow(newStream(), 1, "row")}
	for i := 1; i < store.MaxWrites; i++ {
		writes = append(writes, newPut(store.Key{Partition: partition, Sort: fmt.Sprintf("%02d", i)}, 0, "doc"))
	}
	commit(t, s, writes...)
	if got := len(list(t, s, store.Range{Partition: partition}, 100)); got != store.MaxWrites-1 {
		t.Errorf("Docs() = %d documents, want %d", got, store.MaxWrites-1)
	}
	writes[0] = newRow(newStream(), 1, "row")
	for i := 1; i < store.MaxWrites; i++ {
		p := writes[i].(store.Put)
		writes[i] = newPut(p.Key, p.IfVersion+1, "again")
	}
	last := writes[store.MaxWrites-1].(store.Put)
	last.IfVersion = 7
	writes[store.MaxWrites-1] = last
	wantConflict(t, s.Commit(t.Context(), writes...), 1)
	wantTip(t, s, writes[0].(store.Append).Stream, store.Row{})
}

// proveLedger makes the commits of the ledger in shared/README §7. One commit appends the request
// row, debits the account and writes the reminder. Another one appends the void row, refunds the
// debit and deletes the reminder.
func proveLedger(t *testing.T, h Adapter) {
	s, balance, reminder := h.Open(t), newKey(), newKey()
	requests, responses := newStream(), newStream()
	commit(t, s, store.Put{Key: balance, WriteID: newWriteID(), Number: 10})
	debit := store.Add{Key: balance, Delta: -7, Max: 1 << 40}
	accept := newRow(requests, 1, "request")
	commit(t, s, accept, debit, newPut(reminder, 0, "due"))
	second := newKey()
	wantBounds(t, s.Commit(t.Context(), newRow(requests, 2, "no money"), debit, newPut(second, 0, "due")), 3)
	wantTip(t, s, requests, rowOf(accept))
	wantAbsent(t, s, second)
	// TakenError takes precedence over BoundsError.
	wantTaken(t, s.Commit(t.Context(), newRow(requests, 1, "replay"), debit), rowOf(accept))

	void := []store.Write{newRow(responses, 1, "void"), store.Add{Key: balance, Delta: 7, Max: 1 << 40}, store.Delete{Key: reminder, If: 1}}
	commit(t, s, void...)
	commit(t, s, void...)
	wantTaken(t, s.Commit(t.Context(), newRow(responses, 1, "late answer"), store.Delete{Key: reminder, If: 1}), rowOf(void[0].(store.Append)))
	doc, err := s.Doc(t.Context(), balance)
	if err != nil || doc.Number != 10 {
		t.Errorf("balance = %d, %v, want 10: refunded once", doc.Number, err)
	}
	wantAbsent(t, s, reminder)
}
