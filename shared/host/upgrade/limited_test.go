package upgrade

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// Several time-limited runs together visit each document of all ranges once.
func TestRunsOfLimitedTimeContinueEachOther(t *testing.T) {
	s := memory.New()
	u := store.Updater{Store: s, Rand: rand.Reader}
	ranges := []store.Range{{Partition: "a"}, {Partition: "b"}}
	var want []string
	for _, within := range ranges {
		for i := range 2*limitedPageSize + 5 {
			k := store.Key{Partition: within.Partition, Sort: fmt.Sprintf("%04d", i)}
			want = append(want, k.Partition+k.Sort)
			err := u.Update(t.Context(), func(ctx context.Context, tx *store.Tx) error {
				_, err := tx.Doc(ctx, k)
				tx.Put(store.Doc{Key: k, Data: []byte("x")})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	now := time.Date(2026, 5, 6, 0, 0, 0, 0, time.UTC)
	data := Data{Store: s, Now: func() time.Time { return now }, StopAt: now, Rand: rand.Reader}
	var mu sync.Mutex
	var visited []string
	for runs := 1; ; runs++ {
		from, err := ReadVersion(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		r := runState{Data: data, storedVersion: from, pageSize: limitedPageSize, countVisited: func() {}}
		for _, within := range ranges {
			err = r.forEachDocument(t.Context(), within, func(_ context.Context, d store.Doc) error {
				mu.Lock()
				defer mu.Unlock()
				visited = append(visited, d.Key.Partition+d.Key.Sort)
				return nil
			})
			if err != nil {
				break
			}
		}
		if err == nil {
			if runs != 5 {
				t.Errorf("%d runs, expected 5: two pauses in each range", runs)
			}
			break
		}
		if !errors.Is(err, errPaused) || runs > 9 {
			t.Fatalf("run %d: %v", runs, err)
		}
	}
	if slices.Sort(visited); !slices.Equal(visited, want) {
		t.Errorf("%d documents were visited, expected %d, each once", len(visited), len(want))
	}
}
