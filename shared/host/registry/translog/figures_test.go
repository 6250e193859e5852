package translog_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry/translog"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// endless is a store that generates its stream on demand and drops the tiles, so that all memory
// belongs to the checkpointer.
type endless struct {
	store.Store
	events uint64
	read   func()
}

func event(n uint64) (h identity.Hash) {
	if n > 0 {
		h = identity.Sum(binary.BigEndian.AppendUint64(nil, n))
	}
	return h
}

func (e endless) Rows(_ context.Context, _ store.Stream, from uint64, n int, _ store.Direction) ([]store.Row, error) {
	if e.read != nil {
		e.read()
	}
	rows := make([]store.Row, 0, n)
	for position := from; position <= e.events && len(rows) < n; position++ {
		this, before := event(position), event(position-1)
		rows = append(rows, store.Row{Position: position, Data: append(append(make([]byte, 0, 64), this[:]...), before[:]...)})
	}
	return rows, nil
}

func (e endless) Commit(ctx context.Context, writes ...store.Write) error {
	if put, ok := writes[0].(store.Put); ok && len(writes) == 1 && len(put.Data) == 256*32 {
		return nil
	}
	return e.Store.Commit(ctx, writes...)
}

// keeping is an endless store that stores the tiles.
type keeping struct{ endless }

func (k keeping) Commit(ctx context.Context, writes ...store.Write) error {
	return k.Store.Commit(ctx, writes...)
}

// This reader compares the live heap at each page that Seal reads.
func TestSealingTenTimesTheEventsNeedsNoMoreMemory(t *testing.T) {
	most := func(events uint64) (most uint64) {
		w := newWorld(t)
		pages := 0
		s := endless{Store: memory.New(), events: events, read: func() {
			if pages++; pages%10 != 0 {
				return
			}
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}}
		sealed, err := w.log(s, 0).Seal(t.Context())
		if err != nil || sealed.Size != events {
			t.Fatalf("Seal() = %d, %v, want %d", sealed.Size, err, events)
		}
		return most
	}
	small := most(10_000)
	large := most(100_000)
	t.Logf("alive at most: %d KB at 10,000 events, %d KB at 100,000", small>>10, large>>10)
	if large > small+512<<10 {
		t.Errorf("sealing 100,000 events keeps %d bytes alive, 10,000 keeps %d: want no more", large, small)
	}
}

func BenchmarkSeal100000(b *testing.B) {
	key, err := identity.KeyFromSeed(make([]byte, 32))
	must(b, err)
	for b.Loop() {
		l, err := translog.New(translog.Config{
			Store: endless{Store: memory.New(), events: 100_000}, Stream: stream, DecodeLeaf: leaf,
			Identity: func(context.Context) (identity.Signer, error) { return key, nil },
			Now:      time.Now, Rand: rand.Reader,
		})
		must(b, err)
		if s, err := l.Seal(b.Context()); err != nil || s.Size != 100_000 {
			b.Fatal(s, err)
		}
	}
}

func BenchmarkInclusionAt100000(b *testing.B) {
	key, err := identity.KeyFromSeed(make([]byte, 32))
	must(b, err)
	l, err := translog.New(translog.Config{
		Store: keeping{endless{Store: memory.New(), events: 100_000}}, Stream: stream, DecodeLeaf: leaf,
		Identity: func(context.Context) (identity.Signer, error) { return key, nil },
		Now:      time.Now, Rand: rand.Reader,
	})
	must(b, err)
	must(b, errorOf(l.Seal(b.Context())))
	for n := uint64(1); b.Loop(); n += 7919 {
		must(b, errorOf(l.Inclusion(b.Context(), n%100_000+1, 0)))
	}
}
