package datadir

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
	"github.com/vacancy-host/vacancy/shared/vacant/logbook"
)

func TestEntriesAreAppendedOnceAndLinked(t *testing.T) {
	id := mustMake(t, newDir(t), "alice", Bundle{Key: keyA(t)})
	now := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	// The file of a writer that died is not in the way.
	must(t, os.WriteFile(filepath.Join(id.Dir, logbookFile+".next"), []byte("half"), 0o600))
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for range 2 {
				if err := id.AppendLog(t.Context(), "NOTE", []byte{'{', '"', 'n', '"', ':', '0' + byte(n), '}'}, now); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	b, err := id.Bundle(t.Context())
	must(t, err)
	if err := logbook.VerifyChain(id.ID(), b.Logbook); err != nil || len(b.Logbook) != 9 {
		t.Errorf("VerifyChain() of %d entries = %v, want 9 linked ones", len(b.Logbook), err)
	}
	must(t, os.WriteFile(filepath.Join(id.Dir, logbookFile), []byte("{\n"), 0o600))
	if err := id.AppendLog(t.Context(), "NOTE", []byte("{}"), now); !problem.Is(err, problem.Damaged) {
		t.Errorf("AppendLog() to a damaged logbook = %v, want damaged", err)
	}
}

func TestTheFirstReviewOfACallIsKept(t *testing.T) {
	id := mustMake(t, newDir(t), "alice", Bundle{Key: keyA(t)})
	call := identity.Hash{7}
	for _, c := range []struct{ signed, want string }{{"one", "one"}, {"two", "one"}} {
		if got, err := id.StoreReview(call, []byte(c.signed)); err != nil || !bytes.Equal(got, []byte(c.want)) {
			t.Errorf("StoreReview(%s) = %q, %v, want %q", c.signed, got, err, c.want)
		}
	}
}
