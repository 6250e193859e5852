package bolt_test

import (
	"path/filepath"
	"testing"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/storetest"
)

// adapter opens stores that keep up to recentRows rows out of the index.
func adapter(recentRows int) storetest.Adapter {
	options := bolt.Options{}.WithRecentRows(recentRows)
	paths := map[store.Store]string{}
	open := func(tb testing.TB, path string) store.Store {
		tb.Helper()
		s, err := bolt.Open(path, options)
		if err != nil {
			tb.Fatalf("Open() = %v, want nil", err)
		}
		tb.Cleanup(func() {
			if err := s.Close(); err != nil {
				tb.Errorf("Close() = %v, want nil", err)
			}
		})
		paths[s] = path
		return s
	}
	return storetest.Adapter{
		HasFeed: true,
		Open:    func(tb testing.TB) store.Store { return open(tb, filepath.Join(tb.TempDir(), "vacancy.db")) },
		Reopen: func(tb testing.TB, s store.Store) store.Store {
			tb.Helper()
			if err := s.Close(); err != nil {
				tb.Fatalf("Close() = %v, want nil", err)
			}
			return open(tb, paths[s])
		},
		Load: func(tb testing.TB, s store.Store, name store.Stream, n int) {
			bolt.Load(tb, s.(*bolt.Store), name, n, make([]byte, 100))
		},
	}
}

func TestStore(t *testing.T) { storetest.Run(t, adapter(0)) }

// The index in the file is updated with every group or every few groups. A host gets there only
// after thousands of rows.
func TestStoreWithEveryRowIndexed(t *testing.T) { storetest.Run(t, few(adapter(1))) }

func TestStoreWithFewRowsRecent(t *testing.T) { storetest.Run(t, few(adapter(7))) }

// few shortens the races, because other tests run them in full.
func few(h storetest.Adapter) storetest.Adapter {
	h.Rounds = 100
	return h
}

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, adapter(0), 1, 10_000, 1_000_000) }
