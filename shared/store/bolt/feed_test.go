package bolt

import (
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/store"
)

// A file of an earlier version has no names of its streams by their numbers.
func TestTheFeedNamesStreamsOfEarlierVersions(t *testing.T) {
	s, err := Open(filepath.Join(t.TempDir(), "data"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	row := func(name store.Stream, position uint64) {
		t.Helper()
		if err := s.Commit(t.Context(), store.Append{Stream: name, Position: position, WriteID: store.WriteID{byte(position)}, Data: []byte("row")}); err != nil {
			t.Fatal(err)
		}
	}
	row("old#1", 1)
	row("old#2", 1)
	if err := s.db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket(numbersBucket) }); err != nil {
		t.Fatal(err)
	}
	row("new#1", 1)
	row("old#2", 2)
	rows, next, _, err := s.After(t.Context(), journalPartition, "", 10)
	if err != nil || next != "4" {
		t.Fatalf("After() = %v, %q, %v", rows, next, err)
	}
	for i, want := range []store.Stream{"old#1", "old#2", "new#1", "old#2"} {
		if rows[i].Stream != want {
			t.Errorf("row %d is of %q, want %q", i, rows[i].Stream, want)
		}
	}
}
