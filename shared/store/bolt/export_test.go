package bolt

import (
	"testing"

	"go.etcd.io/bbolt"

	"github.com/vacancy-host/vacancy/shared/store"
)

// WithRecentRows keeps few rows out of the index, so that a test reaches what a
// host reaches after thousands.
func (o Options) WithRecentRows(n int) Options {
	o.recentLimit = n
	return o
}

// Load writes rows 1 to n of an empty stream, thousands in a transaction.
func Load(tb testing.TB, s *Store, name store.Stream, n int, data []byte) {
	tb.Helper()
	s.db.NoSync = true
	defer func() { s.db.NoSync = false }()
	for p := 1; p <= n; {
		group := []*request{}
		for ; len(group) < 20_000 && p <= n; p++ {
			a := store.Append{Stream: name, Position: uint64(p), WriteID: store.WriteID{1}, Data: data}
			group = append(group, newRequest([]store.Write{a}))
		}
		outcomes, err := s.commitGroup(group)
		if err != nil {
			tb.Fatal(err)
		}
		for _, err := range outcomes {
			if err != nil {
				tb.Fatal(err)
			}
		}
	}
	if err := s.db.Sync(); err != nil {
		tb.Fatal(err)
	}
}

// DB is the open file.
func (s *Store) DB() *bbolt.DB { return s.db }
