package filetools

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/workspace"
	"github.com/vacancy-host/vacancy/shared/store/blob"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
)

// BenchmarkGrep searches a workspace at its limit of bytes. The goal is 3 s and 64 MiB of memory.
func BenchmarkGrep(b *testing.B) {
	dir := b.TempDir()
	s := newSession(b, func() (blob.Blobs, error) { return files.Open(dir, time.Now()) })
	line := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog ", 2) + "\n")
	text := bytes.Repeat(line, workspace.MaxFileBytes/len(line))
	for n := range workspace.MaxBytes / workspace.MaxFileBytes {
		if _, err := s.Files.Write(b.Context(), s.workspaceRef, workspace.Change{Path: fmt.Sprintf("f%03d", n), Data: text}); err != nil {
			b.Fatal(err)
		}
	}
	for _, pattern := range []string{"nowhere", `[a-f]+ox\d`, `(?i)lazy cat`} {
		b.Run(pattern, func(b *testing.B) {
			runtime.GC()
			var before, now runtime.MemStats
			runtime.ReadMemStats(&before)
			done, peak := make(chan bool), make(chan uint64)
			go func() {
				most := uint64(0)
				for {
					select {
					case <-done:
						peak <- most
						return
					case <-time.After(20 * time.Millisecond):
						runtime.ReadMemStats(&now)
						most = max(most, now.HeapInuse-min(now.HeapInuse, before.HeapInuse))
					}
				}
			}()
			for b.Loop() {
				if got, err := s.searchLines(b.Context(), grepArguments{Pattern: pattern}); err != nil || got != "no matches" {
					b.Fatal(got, err)
				}
			}
			close(done)
			b.ReportMetric(float64(<-peak)/(1<<20), "MiB")
		})
	}
}
