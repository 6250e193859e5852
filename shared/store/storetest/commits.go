package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vacancy-host/vacancy/shared/store"
)

var commitTests = []contractTest{
	{"all writes of a commit are applied together", testAtomicCommit},
	{"a refused write at any place prevents its whole commit", testRefusedCommit},
	{"TakenError precedes BoundsError and ConflictError, and the first of its kind is returned", testErrorPrecedence},
	{"a commit may have MaxWrites writes", testMaxWrites},
	{"the accept of a priced call and its refund are atomic", testLedgerCommits},
}

type commitFixture struct {
	store                     store.Store
	firstAppend, secondAppend store.Append
	put                       store.Put
	deletion                  store.Delete
	add                       store.Add
	docToDelete, balance      store.Doc // documents before deletion and add
}

func newCommitFixture(t *testing.T, h Adapter) commitFixture {
	t.Helper()
	c := commitFixture{store: h.Open(t)}
	c.firstAppend, c.secondAppend = newAppend(newStream(), 1, "a"), newAppend(newStream(), 1, "b")
	c.put = newPut(newKey(), 0, "put")
	c.put.Index = newKey()
	toDelete, balance := newPut(newKey(), 0, "to be deleted"), newPut(newKey(), 0, "money")
	balance.Number = 10
	commit(t, c.store, toDelete)
	commit(t, c.store, balance)
	c.docToDelete, c.balance = docOf(toDelete), docOf(balance)
	c.deletion = store.Delete{Key: toDelete.Key, IfVersion: 1}
	c.add = store.Add{Key: balance.Key, Delta: -4, Max: 100}
	return c
}

func (c *commitFixture) wantUnapplied(t *testing.T, h Adapter) {
	t.Helper()
	wantTip(t, c.store, c.firstAppend.Stream, store.Row{})
	wantTip(t, c.store, c.secondAppend.Stream, store.Row{})
	wantAbsent(t, c.store, c.put.Key)
	h.wantListed(t, c.store, store.Range{Partition: c.put.Index.Partition}, 10)
	wantDoc(t, c.store, c.docToDelete)
	wantDoc(t, c.store, c.balance)
}

func (c *commitFixture) wantApplied(t *testing.T, h Adapter) {
	t.Helper()
	wantTip(t, c.store, c.firstAppend.Stream, rowOf(c.firstAppend))
	wantTip(t, c.store, c.secondAppend.Stream, rowOf(c.secondAppend))
	wantDoc(t, c.store, docOf(c.put))
	h.wantListed(t, c.store, store.Range{Partition: c.put.Index.Partition}, 10, docOf(c.put))
	wantAbsent(t, c.store, c.deletion.Key)
	balance := c.balance
	balance.Version, balance.Number = balance.Version+1, balance.Number-4
	wantDoc(t, c.store, balance)
}

func (c *commitFixture) writes() []store.Write {
	return []store.Write{c.firstAppend, c.put, c.deletion, c.add, c.secondAppend}
}

func testAtomicCommit(t *testing.T, h Adapter) {
	c := newCommitFixture(t, h)
	commit(t, c.store, c.writes()...)
	c.wantApplied(t, h)
}

// testRefusedCommit inserts a refused write at each position of a commit whose other writes would
// succeed, and checks that no write is applied.
func testRefusedCommit(t *testing.T, h Adapter) {
	c := newCommitFixture(t, h)
	occupant := newAppend(newStream(), 1, "")
	commit(t, c.store, occupant)
	for _, refused := range []struct {
		name  string
		write store.Write
		check func(error)
	}{
		{"taken", newAppend(occupant.Stream, 1, "late"), func(err error) { wantTaken(t, err, rowOf(occupant)) }},
		{"beyond", newAppend(occupant.Stream, 3, "early"), func(err error) { wantTaken(t, err, store.Row{}) }},
		{"low", store.Add{Key: newKey(), Delta: -1, Max: 9}, func(err error) { wantBounds(t, err, 0) }},
		{"high", store.Add{Key: newKey(), Delta: 10, Max: 9}, func(err error) { wantBounds(t, err, 0) }},
		{"put over nothing", newPut(newKey(), 1, ""), func(err error) { wantConflict(t, err, 0) }},
	} {
		for index := range 6 {
			err := c.store.Commit(t.Context(), slices.Insert(c.writes(), index, refused.write)...)
			if err == nil {
				t.Fatalf("Commit(with %s at %d) = nil, want a refusal", refused.name, index)
			}
			refused.check(err)
			c.wantUnapplied(t, h)
		}
	}
	stale := newPut(newKey(), 0, "")
	commit(t, c.store, stale)
	for index := range 6 {
		wantConflict(t, c.store.Commit(t.Context(), slices.Insert(c.writes(), index, store.Write(newPut(stale.Key, 0, "")))...), 1)
		wantConflict(t, c.store.Commit(t.Context(), slices.Insert(c.writes(), index, store.Write(store.Delete{Key: stale.Key, IfVersion: 2}))...), 1)
		c.wantUnapplied(t, h)
	}
	// The refused commits had no effect, so the same writes still succeed.
	commit(t, c.store, c.writes()...)
	c.wantApplied(t, h)
}

func testErrorPrecedence(t *testing.T, h Adapter) {
	s := h.Open(t)
	first, second := newAppend(newStream(), 1, "first"), newAppend(newStream(), 1, "second")
	updated, present := newPut(newKey(), 0, ""), newPut(newKey(), 0, "")
	lowBalance, highBalance := newPut(newKey(), 0, ""), newPut(newKey(), 0, "")
	lowBalance.Number, highBalance.Number = 1, 9
	for _, w := range []store.Write{first, second, updated, newPut(updated.Key, 1, ""), present, lowBalance, highBalance} {
		commit(t, s, w)
	}
	takenA, takenB := newAppend(first.Stream, 1, ""), newAppend(second.Stream, 1, "")
	boundsA, boundsB := store.Add{Key: lowBalance.Key, Delta: -2, Max: 9}, store.Add{Key: highBalance.Key, Delta: 1, Max: 9}
	conflictA, conflictB := newPut(updated.Key, 0, ""), store.Delete{Key: present.Key, IfVersion: 5}
	newStreamRow := newAppend(newStream(), 1, "fine")
	for i, c := range []struct {
		writes []store.Write
		check  func(error)
	}{
		{[]store.Write{conflictA, boundsA, takenA, newStreamRow}, func(err error) { wantTaken(t, err, rowOf(first)) }},
		{[]store.Write{boundsA, newStreamRow, conflictA, takenB, takenA}, func(err error) { wantTaken(t, err, rowOf(second)) }},
		{[]store.Write{takenA, takenB}, func(err error) { wantTaken(t, err, rowOf(first)) }},
		{[]store.Write{newStreamRow, conflictA, boundsB, boundsA}, func(err error) { wantBounds(t, err, 9) }},
		{[]store.Write{conflictB, boundsA, boundsB, newStreamRow}, func(err error) { wantBounds(t, err, 1) }},
		{[]store.Write{conflictB, newStreamRow, conflictA}, func(err error) { wantConflict(t, err, 1) }},
		{[]store.Write{newStreamRow, conflictA, conflictB}, func(err error) { wantConflict(t, err, 2) }},
	} {
		err := s.Commit(t.Context(), c.writes...)
		if err == nil {
			t.Fatalf("case %d: Commit() = nil, want a refusal", i)
		}
		c.check(err)
		wantTip(t, s, newStreamRow.Stream, store.Row{})
	}
}

func testMaxWrites(t *testing.T, h Adapter) {
	s, partition := h.Open(t), newPartition()
	writes := []store.Write{newAppend(newStream(), 1, "row")}
	for i := 1; i < store.MaxWrites; i++ {
		writes = append(writes, newPut(store.Key{Partition: partition, Sort: fmt.Sprintf("%02d", i)}, 0, "doc"))
	}
	commit(t, s, writes...)
	if got := len(listDocs(t, s, store.Range{Partition: partition}, 100)); got != store.MaxWrites-1 {
		t.Errorf("Docs() = %d documents, want %d", got, store.MaxWrites-1)
	}
	writes[0] = newAppend(newStream(), 1, "row")
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

// testLedgerCommits makes the commits of the ledger in shared/README §7. One commit appends the
// request row, debits the account and writes the reminder. Another one appends the void row,
// refunds the debit and deletes the reminder.
func testLedgerCommits(t *testing.T, h Adapter) {
	s, balance, reminder := h.Open(t), newKey(), newKey()
	requests, responses := newStream(), newStream()
	commit(t, s, store.Put{Key: balance, WriteID: newWriteID(), Number: 10})
	debit := store.Add{Key: balance, Delta: -7, Max: 1 << 40}
	accept := newAppend(requests, 1, "request")
	commit(t, s, accept, debit, newPut(reminder, 0, "due"))
	second := newKey()
	wantBounds(t, s.Commit(t.Context(), newAppend(requests, 2, "no money"), debit, newPut(second, 0, "due")), 3)
	wantTip(t, s, requests, rowOf(accept))
	wantAbsent(t, s, second)
	// TakenError takes precedence over BoundsError.
	wantTaken(t, s.Commit(t.Context(), newAppend(requests, 1, "replay"), debit), rowOf(accept))

	void := []store.Write{newAppend(responses, 1, "void"), store.Add{Key: balance, Delta: 7, Max: 1 << 40}, store.Delete{Key: reminder, IfVersion: 1}}
	commit(t, s, void...)
	commit(t, s, void...)
	wantTaken(t, s.Commit(t.Context(), newAppend(responses, 1, "late answer"), store.Delete{Key: reminder, IfVersion: 1}), rowOf(void[0].(store.Append)))
	doc, err := s.Doc(t.Context(), balance)
	if err != nil || doc.Number != 10 {
		t.Errorf("balance = %d, %v, want 10: refunded once", doc.Number, err)
	}
	wantAbsent(t, s, reminder)
}
