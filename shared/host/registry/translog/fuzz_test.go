package translog_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// For any contents of the log's documents, the code does not panic and does not sign a statement
// that contradicts them.
func FuzzStored(f *testing.F) {
	key, err := identity.NewKey(rand.Reader)
	must(f, err)
	open := func(t testing.TB, s store.Store) *translog.Log {
		l, err := translog.New(translog.Config{
			Store: s, Stream: stream, DecodeLeaf: leaf, Now: time.Now, Rand: rand.Reader,
			Identity: func(context.Context) (identity.Signer, error) { return key, nil },
		})
		must(t, err)
		return l
	}
	seed := memory.New()
	must(f, errorOf(open(f, seed).Seal(context.Background())))
	sorts := []string{"head", "lease", "cp#0000000000000000", "epoch#00000001", "tile#00#00000000000000"}
	for i, sort := range sorts {
		d, err := seed.Doc(context.Background(), store.Key{Partition: translog.HeadDocs.Partition, Sort: sort})
		must(f, err)
		f.Add(uint8(i), d.Data)
	}
	f.Add(uint8(0), []byte(`{"format":1,"host":"`+key.ID().String()+`","size":9223372036854775808,"root":"","tails":[[]]}`))
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		s := memory.New()
		l := open(t, s)
		must(t, errorOf(l.Seal(t.Context())))
		k := store.Key{Partition: translog.HeadDocs.Partition, Sort: sorts[int(which)%len(sorts)]}
		d, err := s.Doc(t.Context(), k)
		must(t, err)
		must(t, s.Commit(t.Context(), store.Put{Key: k, IfVersion: d.Version, WriteID: store.WriteID{9}, Data: data}))
		if sealed, err := l.Seal(t.Context()); err == nil && sealed.Size > 0 {
			t.Errorf("Seal() = %d events, and there are none", sealed.Size)
		}
		_, _ = l.LoadLatestCheckpoint(t.Context())
		_, _ = l.Inclusion(t.Context(), 1, 0)
		_, _ = l.Epoch(t.Context(), 1)
		if _, err := translog.Check(t.Context(), s, stream, leaf, func(translog.Mismatch) {}); err != nil {
			t.Errorf("Check() = %v, want faults alone", err)
		}
	})
}

func FuzzWitnessKey(f *testing.F) {
	key, err := identity.NewKey(rand.Reader)
	must(f, err)
	f.Add(translog.WitnessKey(key.ID()))
	f.Add(translog.VerifierKey(key.ID()))
	f.Fuzz(func(t *testing.T, key string) {
		if _, err := translog.New(translog.Config{WitnessKeys: []string{key}}); err != nil && !problem.Is(err, problem.Usage) {
			t.Errorf("New(%q) = %v, want nil or usage", key, err)
		}
	})
}
