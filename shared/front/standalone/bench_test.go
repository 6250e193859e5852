package standalone_test

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/front/standalone"
	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
	"github.com/vacancy-host/vacancy/shared/vacant/identity"
)

var rows = flag.Int("rows", 100_000, "how many folded rows BenchmarkStart has")

// BenchmarkStart starts a host over a new data directory, and over one with many rows that
// are folded into usage: what was counted once is not counted again.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{0, *rows} {
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			dir := filepath.Join(b.TempDir(), "host")
			start(b, dir)
			appendRows(b, filepath.Join(dir, standalone.DataFile), n)
			fold(b, dir, n)
			for b.Loop() {
				start(b, dir)
			}
		})
	}
}

// open opens the host of a directory.
func open(b *testing.B, dir string) *standalone.Host {
	b.Helper()
	host, err := standalone.Open(standalone.Config{Dir: dir, URL: "http://127.0.0.1:1", Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: rand.Reader})
	if err != nil {
		b.Fatal(err)
	}
	return host
}

// fold folds all rows, n at least.
func fold(b *testing.B, dir string, n int) {
	b.Helper()
	host := open(b, dir)
	folded, err := host.Meter().Fold(b.Context())
	if err = join(err, host.Close()); err != nil || folded.Rows < n {
		b.Fatalf("%d rows folded, %v; want %d", folded.Rows, err, n)
	}
}

// errReady ends a host once it answers.
var errReady = errors.New("ready")

// start runs a host until it answers.
func start(b *testing.B, dir string) {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	host := open(b, dir)
	if err := host.Run(b.Context(), standalone.RunConfig{Public: l}, func(context.Context) error { return errReady }); !errors.Is(err, errReady) {
		b.Fatal(err)
	}
	if err := host.Close(); err != nil {
		b.Fatal(err)
	}
}

// appendRows appends rows that are of no call.
func appendRows(b *testing.B, file string, n int) {
	b.Helper()
	const writers, perPosition = 64, 64 * store.MaxWrites // each writer has streams of its own
	data, err := bolt.Open(file, bolt.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer data.Close()
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for p := 1; (p-1)*perPosition < n; p++ {
				var writes []store.Write
				for i := range store.MaxWrites {
					id := identity.ID{byte(w + 1), byte(i)}
					writes = append(writes, store.Append{Stream: store.StreamOf("bench", id), Position: uint64(p), WriteID: store.WriteID{byte(p), byte(p >> 8), 1}, Data: make([]byte, 300)})
				}
				if err := data.Commit(b.Context(), writes...); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}
