package storetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// rowBytes is the size of a request row with 500 bytes of text.
const rowBytes = 900

// Benchmark measures an adapter: commits of one row by 1, 16 and 64 writers, each on its own
// stream; appends to streams with the given lengths; and reads.
func Benchmark(b *testing.B, h Adapter, lengths ...int) {
	for _, writers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("Commit/writers=%d", writers), func(b *testing.B) { benchCommit(b, h, writers) })
	}
	for _, n := range lengths {
		b.Run(fmt.Sprintf("Append/length=%d", n), func(b *testing.B) { benchAppend(b, h, n) })
	}
	b.Run("Tip", func(b *testing.B) {
		s, name := h.Open(b), newStream()
		appendLargeRows(b, s, name, 100)
		b.ReportAllocs()
		for b.Loop() {
			if tip, err := s.Tip(b.Context(), name); err != nil || tip.Position != 100 {
				b.Fatal(tip.Position, err)
			}
		}
	})
	b.Run("Rows/n=10", func(b *testing.B) {
		s, name := h.Open(b), newStream()
		appendLargeRows(b, s, name, 100)
		b.ReportAllocs()
		for b.Loop() {
			if rows, err := s.Rows(b.Context(), name, 40, 10, store.Ascending); err != nil || len(rows) != 10 {
				b.Fatal(len(rows), err)
			}
		}
	})
}

// appendLargeRows writes rows 1 to n with rowBytes each.
func appendLargeRows(b *testing.B, s store.Store, name store.Stream, n int) {
	data := make([]byte, rowBytes)
	fillRandom(data)
	for p := range n {
		commit(b, s, store.Append{Stream: name, Position: uint64(p + 1), WriteID: newWriteID(), Data: data})
	}
}

func benchCommit(b *testing.B, h Adapter, writers int) {
	s := h.Open(b)
	data := make([]byte, rowBytes)
	fillRandom(data)
	var remaining atomic.Int64
	remaining.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			name, writeID := newStream(), newWriteID()
			for p := uint64(1); remaining.Add(-1) >= 0; p++ {
				if err := s.Commit(b.Context(), store.Append{Stream: name, Position: p, WriteID: writeID, Data: data}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// benchAppend reads the tip and writes the next row, like a host that accepts a call.
func benchAppend(b *testing.B, h Adapter, length int) {
	s := h.Open(b)
	var pair identity.ID
	fillRandom(pair[:])
	name := store.StreamOf(store.KindRequest, pair, pair)
	if h.Load != nil {
		h.Load(b, s, name, length)
	} else {
		appendLargeRows(b, s, name, length)
	}
	data := make([]byte, rowBytes)
	fillRandom(data)
	b.ReportAllocs()
	for b.Loop() {
		tip, err := s.Tip(b.Context(), name)
		if err != nil || tip.Position < uint64(length) {
			b.Fatalf("Tip() = %d, %v, want at least %d", tip.Position, err, length)
		}
		if err := s.Commit(b.Context(), store.Append{Stream: name, Position: tip.Position + 1, WriteID: newWriteID(), Data: data}); err != nil {
			b.Fatal(err)
		}
	}
}
