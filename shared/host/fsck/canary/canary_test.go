package canary_test

import (
	"crypto/rand"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/fsck/canary"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

func TestCanariesAreAppended(t *testing.T) {
	s := memory.New()
	var all sync.WaitGroup
	for range 8 { // also at the same time
		all.Go(func() {
			if err := canary.Write(t.Context(), s, time.Now(), rand.Reader); err != nil {
				t.Errorf("Write() = %v", err)
			}
		})
	}
	all.Wait()
	if err := canary.Write(t.Context(), s, time.UnixMilli(7), rand.Reader); err != nil {
		t.Fatal(err)
	}
	rows, err := s.Rows(t.Context(), canary.Stream(), math.MaxInt64, 9, store.Descending)
	if err != nil || len(rows) != 9 || rows[0].Data[7] != 7 {
		t.Fatalf("Rows() = %v, %v; want the last first", rows, err)
	}
	for _, row := range rows {
		if err := canary.Check(row); err != nil {
			t.Errorf("Check() = %v", err)
		}
	}
	if err := canary.Check(store.Row{Position: 1, Data: []byte("x")}); !problem.Is(err, problem.Damaged) {
		t.Errorf("Check() of another row = %v, want Damaged", err)
	}
}
