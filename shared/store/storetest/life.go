package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/store"
)

var lifecycleTests = []contractTest{
	{"a call with an ended context neither reads nor writes", testEndedContext},
	{"a commit whose context ends is applied completely or not at all, as its error says", testContextEndsDuringCommit},
	{"a closed store refuses every call and may be closed again", testClosed},
	{"Close ends running commits and loses no acknowledged write", testCloseDuringCommits},
	{"the store and its callers do not share byte slices", testAliasing},
}

// durabilityTests apply to adapters whose data outlives the process.
var durabilityTests = []contractTest{
	{"acknowledged writes are unchanged after reopening", testReopen},
}

// storeCalls returns a call of each method that takes a context, with arguments for which an open
// store succeeds.
func storeCalls(s store.Store, name store.Stream, k store.Key) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Tip":  func(ctx context.Context) error { _, err := s.Tip(ctx, name); return err },
		"Rows": func(ctx context.Context) error { _, err := s.Rows(ctx, name, 1, 5, store.Ascending); return err },
		"Doc":  func(ctx context.Context) error { _, err := s.Doc(ctx, k); return err },
		"Docs": func(ctx context.Context) error {
			_, _, err := s.Docs(ctx, store.Range{Partition: "p"}, 5, "")
			return err
		},
		"Append": func(ctx context.Context) error { return s.Commit(ctx, newAppend(name, 1, "")) },
		"Put":    func(ctx context.Context) error { return s.Commit(ctx, newPut(k, 0, "")) },
		"both":   func(ctx context.Context) error { return s.Commit(ctx, newAppend(name, 1, ""), newPut(k, 0, "")) },
	}
}

func testEndedContext(t *testing.T, h Adapter) {
	s, name, k := h.Open(t), newStream(), newKey()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for wantErr, ctx := range map[error]context.Context{context.Canceled: cancelled, context.DeadlineExceeded: expired} {
		for op, call := range storeCalls(s, name, k) {
			if err := call(ctx); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, wantErr) {
				t.Errorf("%s = %v, want ErrUnavailable with %v", op, err, wantErr)
			}
		}
		if err := s.Commit(ctx, newAppend(name, 1, "")); !errors.Is(err, store.ErrNotApplied) {
			t.Errorf("Commit() = %v, want ErrNotApplied in it", err)
		}
	}
	wantTip(t, s, name, store.Row{})
	wantAbsent(t, s, k)
}

func testContextEndsDuringCommit(t *testing.T, h Adapter) {
	s := h.Open(t)
	type attempt struct {
		row store.Append
		put store.Put
		err error
	}
	attempts := make([]attempt, 200)
	runConcurrently(8, func(worker int) error {
		for i := worker; i < len(attempts); i += 8 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(3000))*time.Microsecond)
			a := attempt{row: newAppend(newStream(), 1, "row"), put: newPut(newKey(), 0, "put")}
			// An adapter must not read these bytes after it has returned an error.
			rowData, putData := slices.Clone(a.row.Data), slices.Clone(a.put.Data)
			a.err = s.Commit(ctx, a.row, a.put)
			copy(a.row.Data, "XXX")
			copy(a.put.Data, "XXX")
			a.row.Data, a.put.Data = rowData, putData
			attempts[i] = a
			cancel()
		}
		return nil
	})
	for i, a := range attempts {
		if a.err != nil && !errors.Is(a.err, store.ErrUnavailable) {
			t.Fatalf("try %d: Commit() = %v, want nil or ErrUnavailable", i, a.err)
		}
		// The store has the state that the error claims, and a resend completes the commit.
		isAcknowledged := a.err == nil
		if tip, err := s.Tip(t.Context(), a.row.Stream); err != nil {
			t.Fatalf("Tip() = %v, want nil", err)
		} else if tip.Position == 0 && isAcknowledged {
			t.Fatalf("try %d: acknowledged but missing", i)
		} else if tip.Position == 1 && errors.Is(a.err, store.ErrNotApplied) {
			t.Fatalf("try %d: reported as not applied, but it exists", i)
		}
		commit(t, s, a.row, a.put)
		wantTip(t, s, a.row.Stream, rowOf(a.row))
		wantDoc(t, s, docOf(a.put))
	}
}

func testClosed(t *testing.T, h Adapter) {
	s, name, k := h.Open(t), newStream(), newKey()
	commit(t, s, newAppend(name, 1, ""))
	if err := s.Close(); err != nil {
		t.Fatalf("Close() = %v, want nil", err)
	}
	for op, call := range storeCalls(s, name, k) {
		if err := call(t.Context()); !errors.Is(err, store.ErrUnavailable) || !errors.Is(err, store.ErrClosed) {
			t.Errorf("%s = %v, want ErrUnavailable with ErrClosed", op, err)
		}
	}
	if w, ok := s.(store.Walker); ok {
		err := w.Walk(t.Context(), func(store.View) error { return nil })
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Walk() = %v, want ErrUnavailable", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close() again = %v, want nil", err)
	}
}

func testCloseDuringCommits(t *testing.T, h Adapter) {
	s := h.Open(t)
	var mu sync.Mutex
	acknowledged := map[store.Stream]uint64{}
	errs := runConcurrently(17, func(i int) error {
		if i == 0 {
			time.Sleep(20 * time.Millisecond)
			return s.Close()
		}
		name := newStream()
		for p := uint64(1); ; p++ {
			if err := s.Commit(t.Context(), newAppend(name, p, "row")); err != nil {
				return err
			}
			mu.Lock()
			acknowledged[name] = p
			mu.Unlock()
		}
	})
	if errs[0] != nil {
		t.Errorf("Close() = %v, want nil", errs[0])
	}
	for _, err := range errs[1:] {
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("Commit() = %v, want ErrUnavailable", err)
		}
	}
	if h.Reopen == nil {
		return
	}
	s = h.Reopen(t, s)
	for name, n := range acknowledged {
		if rows := allRows(t, s, name); uint64(len(rows)) < n {
			t.Errorf("%d rows after reopening, %d were acknowledged", len(rows), n)
		}
	}
}

func testAliasing(t *testing.T, h Adapter) {
	s, name := h.Open(t), newStream()
	p := newPut(newKey(), 0, "document")
	p.Index = newKey()
	a := newAppend(name, 1, "row")
	wantedRow, wantedDoc := store.CloneRow(rowOf(a)), docOf(p)
	wantedDoc.Data = bytes.Clone(p.Data)
	commit(t, s, a)
	commit(t, s, p)
	overwrite := func(b []byte) {
		for i := range b {
			b[i] = 'X'
		}
	}
	overwrite(a.Data)
	overwrite(p.Data)
	for range 2 {
		wantTip(t, s, name, wantedRow)
		wantDoc(t, s, wantedDoc)
		h.wantListed(t, s, store.Range{Partition: p.Index.Partition}, 1, wantedDoc)
		tip, err := s.Tip(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		overwrite(tip.Data)
		for _, r := range allRows(t, s, name) {
			overwrite(r.Data)
			_ = append(r.Data, "beyond"...)
		}
		doc, err := s.Doc(t.Context(), p.Key)
		if err != nil {
			t.Fatal(err)
		}
		overwrite(doc.Data)
		for _, d := range listDocs(t, s, store.Range{Partition: p.Key.Partition}, 1) {
			overwrite(d.Data)
		}
		for _, d := range listDocs(t, s, store.Range{Partition: p.Index.Partition, Index: true}, 1) {
			overwrite(d.Data)
		}
		again := newAppend(name, 1, "")
		var taken *store.TakenError
		if err := s.Commit(t.Context(), again); !errors.As(err, &taken) {
			t.Fatalf("Commit() = %v, want a TakenError", err)
		}
		overwrite(taken.Occupant.Data)
	}
}

func testReopen(t *testing.T, h Adapter) {
	s, partition := h.Open(t), newPartition()
	rows := map[store.Stream][]store.Row{}
	var docs []store.Doc
	for i := range 5 {
		name := newStream()
		rows[name] = appendRows(t, s, name, 1+i*7)
		p := newPut(newKey(), 0, fmt.Sprint(i))
		p.Index = store.Key{Partition: partition, Sort: fmt.Sprint(i)}
		p.Number = int64(i) - 2
		commit(t, s, p)
		docs = append(docs, docOf(p))
	}
	commit(t, s, store.Delete{Key: docs[4].Key, IfVersion: 1})
	last := newAppend(newStream(), 1, "with an add")
	add := store.Add{Key: docs[3].Key, Delta: 5, Max: 9}
	commit(t, s, last, add)
	docs[3].Version, docs[3].Number = 2, docs[3].Number+5
	for range 2 {
		s = h.Reopen(t, s)
		for name, want := range rows {
			if diff := cmp.Diff(want, allRows(t, s, name)); diff != "" {
				t.Errorf("rows (-left +found):\n%s", diff)
			}
			wantTip(t, s, name, want[len(want)-1])
		}
		for _, d := range docs[:4] {
			wantDoc(t, s, d)
		}
		wantAbsent(t, s, docs[4].Key)
		h.wantListed(t, s, store.Range{Partition: partition}, 2, docs[:4]...)
		commit(t, s, last, add) // a resend from before the restart is recognised
		wantDoc(t, s, docs[3])
		for name, want := range rows {
			wantTaken(t, s.Commit(t.Context(), newAppend(name, uint64(len(want)), "late")), want[len(want)-1])
			wantTaken(t, s.Commit(t.Context(), newAppend(name, uint64(len(want))+2, "early")), store.Row{})
			next := newAppend(name, uint64(len(want))+1, "follows")
			commit(t, s, next)
			rows[name] = append(want, rowOf(next))
		}
	}
}
