package bolt_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

func TestExpireDeletesWhatHasExpired(t *testing.T) {
	s, err := bolt.Open(filepath.Join(t.TempDir(), "data"), bolt.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	now := time.Unix(1_700_000_000, 0).UTC()
	key := func(name string) store.Key { return store.Key{Partition: "p", Sort: name} }
	put := func(name string, version uint64, at time.Time) {
		t.Helper()
		p := store.Put{Key: key(name), IfVersion: version, WriteID: store.WriteID{1, byte(version)}, Index: store.Key{Partition: "i", Sort: name}, Expires: at}
		if err := s.Commit(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.DeleteExpired(t.Context(), now, 10); n != 0 || err != nil {
		t.Fatalf("DeleteExpired() of a file without such documents = %d, %v", n, err)
	}
	put("past", 0, now.Add(-time.Hour))
	put("now", 0, now)
	put("later", 0, now.Add(time.Second))
	put("never", 0, time.Time{})
	put("extended", 0, now.Add(-time.Hour))
	put("extended", 1, now.Add(time.Hour))
	put("kept", 0, now.Add(-time.Hour))
	put("kept", 1, time.Time{})
	add := store.Add{Key: key("added"), Delta: 1, Max: 9, Expires: now.Add(-time.Minute)}
	if err := s.Commit(t.Context(), store.Put{Key: key("beside"), WriteID: store.WriteID{1}}, add); err != nil {
		t.Fatal(err)
	}
	if n, err := s.DeleteExpired(t.Context(), now, 1); n != 1 || err != nil {
		t.Fatalf("DeleteExpired(1) = %d, %v", n, err)
	}
	if n, err := s.DeleteExpired(t.Context(), now, 10); n != 2 || err != nil {
		t.Fatalf("DeleteExpired(10) = %d, %v, want the other two", n, err)
	}
	for r, want := range map[store.Range]int{{Partition: "p"}: 5, {Partition: "i", Index: true}: 4} {
		left, _, err := s.Docs(t.Context(), r, 10, "")
		if err != nil || len(left) != want {
			t.Fatalf("%d documents are left in %v, %v, want %d", len(left), r, err, want)
		}
	}
}
