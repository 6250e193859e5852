package billing_test

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/money"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/store/memory"
	"github.com/vacancy-host/vacancy/shared/vacant/envelope"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// BenchmarkCall compares calls with and without a price. One caller over memory
// measures CPU time; 64 callers over bbolt measure the file's time.
func BenchmarkCall(b *testing.B) {
	for _, priced := range []bool{false, true} {
		name := map[bool]string{false: "free", true: "priced"}[priced]
		b.Run("memory/"+name, func(b *testing.B) { benchmarkCalls(b, memory.New(), 1, 4, priced) })
		b.Run("bbolt/"+name, func(b *testing.B) {
			s, err := bolt.Open(filepath.Join(b.TempDir(), "data"), bolt.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			benchmarkCalls(b, s, 64, 4, priced)
		})
	}
}

func benchmarkCalls(b *testing.B, s store.Store, callers, shards int, priced bool) {
	w := newWorldOver(b, s)
	if !priced {
		w.price = nil
	}
	a := w.account("acme", shards, 1_000_000*money.Dollar)
	h := w.host()
	all := make([]*caller, callers)
	for i := range all {
		all[i] = w.linked(a, 0)
		if out := all[i].say(h, "first"); out.Problem != nil {
			b.Fatal(out.Problem)
		}
	}
	// Signing is the caller's.
	per := b.N/callers + 1
	signed := make([][]*envelope.Envelope, callers)
	for i, c := range all {
		for range per {
			e := c.next("hi")
			signed[i], c.last = append(signed[i], e), e
		}
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var done sync.WaitGroup
	for i := range all {
		done.Go(func() {
			for _, e := range signed[i] {
				if left.Add(-1) < 0 {
					return
				}
				if out := h.SendWith(context.Background(), identity.ID{}, e, call.Options{}); out.Problem != nil {
					b.Error(out.Problem)
					return
				}
			}
		})
	}
	done.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// oneAtATime lets one commit at a time into each balance, for as long as a transaction of
// DynamoDB takes.
type oneAtATime struct {
	store.Store
	items sync.Map // of *sync.Mutex, by key
}

const transaction = 5 * time.Millisecond

func (s *oneAtATime) Commit(ctx context.Context, writes ...store.Write) error {
	var keys []string
	for _, w := range writes {
		if add, ok := w.(store.Add); ok && strings.HasPrefix(add.Key.Partition, "bal#") {
			keys = append(keys, add.Key.Partition)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		m, _ := s.items.LoadOrStore(k, new(sync.Mutex))
		m.(*sync.Mutex).Lock()
		defer m.(*sync.Mutex).Unlock()
	}
	if len(keys) > 0 {
		time.Sleep(transaction)
	}
	return s.Store.Commit(ctx, writes...)
}

// The calls of one account, where each shard of its balance takes one transaction at a
// time.
func BenchmarkShards(b *testing.B) {
	for _, shards := range []int{1, 4, 16} {
		b.Run(strconv.Itoa(shards), func(b *testing.B) {
			benchmarkCalls(b, &oneAtATime{Store: memory.New()}, 64, shards, true)
		})
	}
}
