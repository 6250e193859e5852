//go:build unix

package bolt_test

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

// BenchmarkCall makes the store's requests of calls: 64 pairs, each call a
// request row and then a response row of 900 bytes. cpu-µs/call is user and
// system time of the whole process.
func BenchmarkCall(b *testing.B) {
	s, err := bolt.Open(filepath.Join(b.TempDir(), "vacancy.db"), bolt.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for p, name := uint64(1), newPair(); left.Add(-1) >= 0; p++ {
				for _, kind := range []string{store.KindRequest, store.KindResponse} {
					if err := s.Commit(b.Context(), newRow(name(kind), p)); err != nil {
						b.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/call")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// BenchmarkAccept reads the tip and appends the next row of one pair, by its
// length; waiting for the disk is not in cpu-µs/call.
func BenchmarkAccept(b *testing.B) {
	for _, length := range []int{1, 10_000, 1_000_000} {
		b.Run(fmt.Sprintf("length=%d", length), func(b *testing.B) {
			s, err := bolt.Open(filepath.Join(b.TempDir(), "vacancy.db"), bolt.Options{})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			name := newPair()(store.KindRequest)
			bolt.Load(b, s, name, length, make([]byte, 100))
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				tip, err := s.Tip(b.Context(), name)
				if err != nil {
					b.Fatal(err)
				}
				if err := s.Commit(b.Context(), newRow(name, tip.Position+1)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/1000/float64(b.N), "cpu-µs/call")
		})
	}
}

// BenchmarkSync measures one sync; a group of commits takes two.
func BenchmarkSync(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), "file"))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	page := make([]byte, 4096)
	for i := 0; b.Loop(); i++ {
		page[0]++
		if _, err := f.WriteAt(page, int64(i%16)*4096); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

func newPair() func(kind string) store.Stream {
	var from, to identity.ID
	_, _ = rand.Read(from[:])
	_, _ = rand.Read(to[:])
	return func(kind string) store.Stream { return store.StreamOf(kind, from, to) }
}

var rowData = make([]byte, 900)

func newRow(name store.Stream, position uint64) store.Append {
	return store.Append{Stream: name, Position: position, WriteID: store.WriteID{1}, Data: rowData}
}

func processorTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
