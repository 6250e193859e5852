package serve

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func TestAStoreNoticesWhatSearchHasToKnow(t *testing.T) {
	put := func(partition, index string) store.Write {
		return store.Put{Key: store.Key{Partition: partition, Sort: "x"}, WriteID: store.WriteID{1}, Data: []byte("x"), Index: store.Key{Partition: index, Sort: "1"}}
	}
	tests := map[string]struct {
		write   store.Write
		changed bool
	}{
		"a registration":  {put("reg", registry.RegistrationDocs.Index), true},
		"something else":  {store.Put{Key: store.Key{Partition: "a", Sort: "b"}, WriteID: store.WriteID{1}, Data: []byte("x")}, false},
		"an index of its": {put("other", "other"), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := NewChangeNotifier(memory.New())
			must(t, n.Commit(t.Context(), tt.write))
			if n.changed.Load() != tt.changed {
				t.Errorf("Commit() noticed a change: %t, want %t", n.changed.Load(), tt.changed)
			}
		})
	}
}

func TestAnIndexIsBroughtUpToDateAtOnceAfterAChange(t *testing.T) {
	n, fail := NewChangeNotifier(memory.New()), errors.New("away")
	var looked []string
	var failing error
	refresh := refresher(n,
		func(context.Context) error { looked = append(looked, "at once"); return failing },
		func(context.Context) error { looked = append(looked, "in time"); return nil })
	steps := []struct {
		changed bool
		fails   error
	}{{false, nil}, {true, fail}, {false, nil}, {false, nil}}
	for _, s := range steps {
		if failing = s.fails; s.changed {
			n.changed.Store(true)
		}
		if err := refresh(t.Context()); !errors.Is(err, s.fails) {
			t.Errorf("refresh() = %v, want %v", err, s.fails)
		}
	}
	// A failed poll is repeated: the change is not lost.
	if diff := cmp.Diff([]string{"in time", "at once", "at once", "in time"}, looked); diff != "" {
		t.Errorf("looks:\n%s", diff)
	}
}
