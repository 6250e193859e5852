package cloudindex

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/host/registry"
	"github.com/vacancy-host/vacancy/shared/host/registry/search"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/bleve"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/searchtest"
	"github.com/vacancy-host/vacancy/shared/host/registry/search/snapshot"
	"github.com/vacancy-host/vacancy/shared/store/blob/files"
)

var cards = flag.Int("cards", 100_000, "cards in the published index")

// asSearch names, for a process of this test binary, the bucket that it loads
// the index from. So the measured memory is the memory of an instance of
// search, without the builder of the index.
const asSearch = "VACANCY_BENCH_BUCKET"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asSearch); dir != "" {
		if err := loadOnce(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// nothing is a feed without changes.
type nothing struct{}

func (nothing) Changes(context.Context, string, int, string) ([]registry.Registration, string, error) {
	return nil, "", nil
}

// loadOnce loads the index as a new instance of search does before its first
// answer, and prints the time and the peak memory.
func loadOnce(dir string) error {
	blobs, err := files.Open(dir, time.Now())
	if err != nil {
		return err
	}
	own, err := os.MkdirTemp("", "vacancy-search-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(own)
	began := time.Now()
	x := newIndex(snapshot.New(snapshot.Config{Blobs: blobs, Now: time.Now, Rand: rand.Reader, Dir: own}), nothing{}, own, time.Now)
	if err := x.Refresh(context.Background()); err != nil {
		return err
	}
	loaded := time.Since(began)
	hits, err := x.Query(context.Background(), search.Query{Limit: 20})
	if err != nil || len(hits) != 20 {
		return fmt.Errorf("%d hits, %w", len(hits), err)
	}
	fmt.Printf("%d %d %s\n", loaded.Microseconds(), time.Since(began).Microseconds(), peak())
	return x.Close()
}

// peak is the largest resident memory of this process, in kB.
func peak() string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "0"
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	return number
}

// BenchmarkAFreshSearchLoads measures how long the first caller of a new
// instance of search waits at 100,000 cards, without the transfer from S3.
func BenchmarkAFreshSearchLoads(b *testing.B) {
	bucket := b.TempDir()
	blobs, err := files.Open(bucket, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	made, err := bleve.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer made.Close()
	corpus := searchtest.NewCorpus(1)
	for left := *cards; left > 0; left -= 1000 {
		if err := made.Apply(b.Context(), search.Batch{Put: corpus.NextEntries(min(left, 1000)), Mark: "m"}); err != nil {
			b.Fatal(err)
		}
	}
	s := snapshot.New(snapshot.Config{Blobs: blobs, Now: time.Now, Rand: rand.Reader, Dir: b.TempDir()})
	v, err := s.Publish(b.Context(), made, snapshot.Version{})
	if err != nil {
		b.Fatal(err)
	}
	var loaded, answered, memory float64
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), asSearch+"="+bucket)
		out, err := cmd.Output()
		if err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		var l, a, m float64
		if _, err := fmt.Sscan(string(out), &l, &a, &m); err != nil {
			b.Fatal(err)
		}
		loaded, answered, memory = max(loaded, l/1000), max(answered, a/1000), max(memory, m/1024)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(loaded, "ms/load")
	b.ReportMetric(answered, "ms/answer")
	b.ReportMetric(memory, "MB")
	b.ReportMetric(float64(v.Manifest.Size)/(1<<20), "MB/archive")
}
