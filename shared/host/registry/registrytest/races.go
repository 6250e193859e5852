package registrytest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/lifecycle"
)

// Run plays every fact over stores that open makes.
func Run(t *testing.T, open func(testing.TB) store.Store) {
	t.Run("of many publishers for one count one wins", func(t *testing.T) { oneWins(t, open(t)) })
	t.Run("all who publish at once have their place in the end", func(t *testing.T) { allEnd(t, open(t)) })
	t.Run("whatever happens at once leaves one chain", func(t *testing.T) { mixture(t, open(t)) })
	t.Run("whatever is broken off anywhere is whole and can be sent again", func(t *testing.T) { brokenOff(t, open(t)) })
}

const (
	crowd     = 200
	processes = 4
	enough    = 2 * time.Minute // for a crowd, however slow the home is
)

// wantWhole reports what is wrong in s.
func wantWhole(t *testing.T, s store.Store) {
	t.Helper()
	for _, err := range Check(context.Background(), s) {
		t.Error(err)
	}
}

// atOnce has a crowd publish at the same moment, spread over several registries
// on one store as over several processes.
func atOnce(t *testing.T, s store.Store, of func(i int) registry.Publication) ([]registry.Receipt, []error) {
	t.Helper()
	var registries [processes]*registry.Registry
	for i := range registries {
		registries[i] = Open(s, NewClock())
	}
	receipts, errs := make([]registry.Receipt, crowd), make([]error, crowd)
	ctx, cancel := context.WithTimeout(context.Background(), enough)
	defer cancel()
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range crowd {
		p := of(i)
		wg.Go(func() {
			<-begin
			receipts[i], errs[i] = registries[i%processes].Publish(ctx, p)
		})
	}
	close(begin)
	wg.Wait()
	return receipts, errs
}

func oneWins(t *testing.T, s store.Store) {
	k := Key(1)
	if _, err := Open(s, NewClock()).Publish(t.Context(), Publication(t, k, Draft{})); err != nil {
		t.Fatal(err)
	}
	_, errs := atOnce(t, s, func(i int) registry.Publication {
		return Publication(t, k, Draft{Seq: 2, Key: "racer " + string(rune('a'+i)), Visibility: lifecycle.Restricted})
	})
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !problem.Is(err, problem.Sequence) || problem.Of(err).Text() != "actor_seq must equal last_seq + 1 = 3, got 2":
			t.Errorf("Publish() = %v, want the next count", err)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d publishers won, want 1", won, crowd)
	}
	wantWhole(t, s)
}

func allEnd(t *testing.T, s store.Store) {
	receipts, errs := atOnce(t, s, func(i int) registry.Publication { return Publication(t, Key(1000+i), Draft{}) })
	seqs := map[uint64]bool{}
	for i, r := range receipts {
		if errs[i] != nil {
			t.Errorf("Publish() = %v", errs[i])
		}
		seqs[r.Seq] = true
	}
	if len(seqs) != crowd {
		t.Errorf("%d publishers have %d places, want one each", crowd, len(seqs))
	}
	tip, err := s.Tip(t.Context(), registry.EventStream())
	if err != nil || tip.Position != crowd {
		t.Errorf("the last event is %d, %v, want %d", tip.Position, err, crowd)
	}
	wantWhole(t, s)
}
