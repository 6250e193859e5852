package fsck_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/host/vacants/hosttest"
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
			want := fsck.Result{Streams: 6, Rows: 37, Sealed: 12, Vacants: 2}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
		})
	}
}
