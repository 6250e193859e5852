package fsck_test

import (
	"crypto/rand"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/fsck/canary"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func TestHostDataPassesTheCheck(t *testing.T) {
	for name, open := range map[string]func() hosttest.Store{
		"memory": func() hosttest.Store { return memory.New() },
		"bolt": func() hosttest.Store {
			s, err := bolt.Open(filepath.Join(t.TempDir(), "vacancy.db"), bolt.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := story(t, open())
			defer a.Store.Close()
			if _, found := a.checkWith(a.Store, narrow); len(found) > 0 {
				t.Errorf("Run() in small pages finds %v in a whole host", found)
			}
			got, found := a.check(a.Store)
			if len(found) > 0 {
				t.Errorf("Run() finds %v in a whole host", found)
			}
			// 16 requests and 12 responses of one pair, 2 and 1 of the other, and
			// 4 and 2 entries; 12 texts were written before the sweep.
			want := fsck.Result{Streams: 6, Rows: 37, SealedRows: 12, Vacants: 2}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCanariesAreCheckedAsRows(t *testing.T) {
	a := actorHistory(t, memory.New())
	for range 3 {
		a.Must(canary.Write(a.Ctx, a.Store, a.Time, rand.Reader))
	}
	if _, found := a.check(a.Store); len(found) > 0 {
		t.Errorf("found %v among canaries, want nothing", found)
	}
	for what, edit := range map[string]func([]store.Row) []store.Row{
		"position": drop(2),
		"stream":   edit(2, func([]byte) []byte { return []byte("no canary") }),
	} {
		_, found := a.check(&altered{Store: a.Store, rows: map[store.Stream]func([]store.Row) []store.Row{canary.Stream(): edit}})
		if len(found) != 1 || string(found[0].Check) != what || found[0].Position != 2 {
			t.Errorf("found %v, want %s of row 2", found, what)
		}
	}
}
