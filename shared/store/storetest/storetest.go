// Package storetest tests the contract of store.Store. Every adapter must pass the suite. If a
// caller relies on a behavior of adapters, the suite must test this behavior.
//
// Each subtest's name states the guarantee that it tests. Names of streams and documents are
// random, so that several runs may use the same store.
package storetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// Adapter opens stores for the suite and describes the adapter's properties.
type Adapter struct {
	// Open returns a store for one test, which may close it. Open must also arrange that the store is
	// closed after the test.
	Open func(tb testing.TB) store.Store
	// Reopen closes a store and opens its data again. It is nil for an adapter without persistence.
	Reopen func(tb testing.TB, s store.Store) store.Store
	// IndexLag is the maximum delay of the sparse index.
	IndexLag time.Duration
	// HasFeed is set if the stores implement store.Feed.
	HasFeed bool
	// HasMovingView is set if Walk's view is not a snapshot.
	HasMovingView bool
	// Rounds is the number of rounds of each race. Zero means 1,000, or 50 with -short.
	Rounds int
	// Histories is the number of histories checked for linearizability. Zero means 30, or 5 with
	// -short.
	Histories int
	// Load writes rows 1 to n of an empty stream quickly, for benchmarks. If it is nil, the suite
	// writes them one by one.
	Load func(tb testing.TB, s store.Store, name store.Stream, n int)
}

// Run tests the contract for an adapter.
func Run(t *testing.T, h Adapter) {
	type group struct {
		name  string
		tests []contractTest
	}
	groups := []group{
		{"rows", rowTests},
		{"documents", docTests},
		{"index", indexTests},
		{"transactions", commitTests},
		{"resending", resendTests},
		{"faults", faultTests},
		{"updates", updateTests},
		{"life", lifecycleTests},
		{"walk", walkTests},
		{"races", raceTests},
	}
	if h.Reopen != nil {
		groups = append(groups, group{"durable", durabilityTests})
	}
	if h.HasFeed {
		groups = append(groups, group{"feed", feedTests})
	}
	if !h.HasMovingView {
		groups = append(groups, group{"snapshot", snapshotTests})
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, f := range group.tests {
				t.Run(f.name, func(t *testing.T) { f.run(t, h) })
			}
		})
	}
}

// RunFeed tests only the contract of store.Feed. It is for an adapter whose other methods have
// separate tests.
func RunFeed(t *testing.T, h Adapter) {
	for _, f := range feedTests {
		t.Run(f.name, func(t *testing.T) { f.run(t, h) })
	}
}

// contractTest is a test of one guarantee that callers rely on.
type contractTest struct {
	name string
	run  func(t *testing.T, h Adapter)
}

func (h Adapter) rounds() int {
	switch {
	case h.Rounds > 0:
		return h.Rounds
	case testing.Short():
		return 50
	}
	return 1000
}

func (h Adapter) histories() int {
	switch {
	case h.Histories > 0:
		return h.Histories
	case testing.Short():
		return 5
	}
	return 30
}

// retryWithinLag calls check until it returns "". If that takes longer than the lag of the
// adapter's index, the test fails with the string that check returned.
func (h Adapter) retryWithinLag(t *testing.T, check func() string) {
	t.Helper()
	for deadline := time.Now().Add(h.IndexLag); ; time.Sleep(20 * time.Millisecond) {
		violation := check()
		if violation == "" {
			return
		}
		if !time.Now().Before(deadline) {
			t.Fatal(violation)
		}
	}
}

var equateEmpty = cmpopts.EquateEmpty()

func newStream() store.Stream {
	var from, to identity.ID
	fillRandom(from[:])
	fillRandom(to[:])
	return store.StreamOf(store.KindRequest, from, to)
}

func newPartition() string {
	var b [8]byte
	fillRandom(b[:])
	return "test#" + hex.EncodeToString(b[:])
}

func newKey() store.Key { return store.Key{Partition: newPartition(), Sort: "document"} }

func newWriteID() (id store.WriteID) {
	fillRandom(id[:])
	return id
}

func fillRandom(b []byte) {
	// crypto/rand.Read never fails; it ends the process instead.
	_, _ = rand.Read(b)
}

func newAppend(name store.Stream, position uint64, data string) store.Append {
	return store.Append{Stream: name, Position: position, WriteID: newWriteID(), Data: []byte(data)}
}

func newPut(k store.Key, version uint64, data string) store.Put {
	return store.Put{Key: k, IfVersion: version, WriteID: newWriteID(), Data: []byte(data)}
}

func rowOf(a store.Append) store.Row {
	return store.Row{Position: a.Position, WriteID: a.WriteID, Data: a.Data}
}

func docOf(p store.Put) store.Doc {
	return store.Doc{Key: p.Key, Version: p.IfVersion + 1, WriteID: p.WriteID, Data: p.Data, Number: p.Number, Index: p.Index, Expires: p.Expires}
}

func commit(t testing.TB, s store.Store, writes ...store.Write) {
	t.Helper()
	if err := s.Commit(t.Context(), writes...); err != nil {
		t.Fatalf("Commit(%d writes) = %v, want nil", len(writes), err)
	}
}

// appendRows writes rows 1 to n.
func appendRows(t testing.TB, s store.Store, name store.Stream, n int) []store.Row {
	t.Helper()
	var rows []store.Row
	for p := 1; p <= n; p++ {
		a := newAppend(name, uint64(p), "row")
		commit(t, s, a)
		rows = append(rows, rowOf(a))
	}
	return rows
}

func wantTip(t testing.TB, s store.Store, name store.Stream, want store.Row) {
	t.Helper()
	got, err := s.Tip(t.Context(), name)
	if err != nil {
		t.Fatalf("Tip() = %v, want nil", err)
	}
	if bytes.Equal(want.Data, got.Data) {
		want.Data, got.Data = nil, nil // cmp is slow on large data
	}
	if diff := cmp.Diff(want, got, equateEmpty); diff != "" {
		t.Fatalf("Tip() (-want +got):\n%s", diff)
	}
}

func wantDoc(t testing.TB, s store.Store, want store.Doc) {
	t.Helper()
	got, err := s.Doc(t.Context(), want.Key)
	if err != nil {
		t.Fatalf("Doc() = %v, want nil", err)
	}
	if bytes.Equal(want.Data, got.Data) {
		want.Data, got.Data = nil, nil // cmp is slow on large data
	}
	if diff := cmp.Diff(want, got, equateEmpty); diff != "" {
		t.Fatalf("Doc() (-want +got):\n%s", diff)
	}
}

func wantAbsent(t testing.TB, s store.Store, k store.Key) {
	t.Helper()
	wantDoc(t, s, store.Doc{Key: k})
}

// allRows reads a stream from its first row to its last.
func allRows(t testing.TB, s store.Store, name store.Stream) []store.Row {
	t.Helper()
	rows, err := readAll(t.Context(), s, name, 100)
	if err != nil {
		t.Fatalf("Rows() = %v, want nil", err)
	}
	return rows
}

func readAll(ctx context.Context, s interface {
	Rows(context.Context, store.Stream, uint64, int, store.Direction) ([]store.Row, error)
}, name store.Stream, pageSize int) ([]store.Row, error) {
	var rows []store.Row
	for {
		page, err := s.Rows(ctx, name, uint64(len(rows))+1, pageSize, store.Ascending)
		if err != nil || len(page) == 0 {
			return rows, err
		}
		rows = append(rows, page...)
	}
}

func wantTaken(t testing.TB, err error, occupant store.Row) {
	t.Helper()
	var taken *store.TakenError
	if !errors.As(err, &taken) {
		t.Fatalf("Commit() = %v, want a TakenError", err)
	}
	if diff := cmp.Diff(occupant, taken.Occupant, equateEmpty); diff != "" {
		t.Fatalf("occupant (-want +got):\n%s", diff)
	}
}

func wantConflict(t testing.TB, err error, version uint64) {
	t.Helper()
	var conflict *store.ConflictError
	if !errors.As(err, &conflict) || conflict.Version != version {
		t.Fatalf("Commit() = %v, want a ConflictError at version %d", err, version)
	}
}

func wantBounds(t testing.TB, err error, number int64) {
	t.Helper()
	var bounds *store.BoundsError
	if !errors.As(err, &bounds) || bounds.Number != number {
		t.Fatalf("Commit() = %v, want a BoundsError at %d", err, number)
	}
}
