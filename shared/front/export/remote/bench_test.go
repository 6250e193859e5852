package remote_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// BenchmarkListingKeepsNoNames lists the streams of hosts of three sizes. The
// live heap after the list, heap-MB, must not grow with them.
func BenchmarkListingKeepsNoNames(b *testing.B) {
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := hosttest.New(b, memory.New()).Caller()
			a.Store = manyStreams{Store: a.Store, n: n}
			h, err := serve(b, a, nil)
			a.Must(err)
			var peak uint64
			for b.Loop() {
				got, err := listAll(a.Ctx, h)
				if err != nil || got != n {
					b.Fatalf("Streams() = %d, %v", got, err)
				}
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak = max(peak, m.HeapInuse)
			}
			b.ReportMetric(float64(peak)/(1<<20), "heap-MB")
			b.ReportMetric(float64(n*b.N)/b.Elapsed().Seconds(), "names/s")
		})
	}
}
