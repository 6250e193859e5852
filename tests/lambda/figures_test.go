//go:build unix

package lambda

import (
	"slices"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/tests/awshome"
)

func TestZipIsAtMostFiveMegabytes(t *testing.T) {
	const most = 5 << 20
	b, err := Zip(bootstrap(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("functions/message as a zip: %d bytes", len(b))
	if len(b) > most {
		t.Errorf("the zip has %d bytes, want at most %d", len(b), most)
	}
}

// BenchmarkColdStart measures from process start to the first poll for work:
// what a caller waits for beside the call itself. An iteration is 25 starts;
// reported is their median.
func BenchmarkColdStart(b *testing.B) {
	home := awshome.New(b)
	program := bootstrap(b)
	var times []time.Duration
	for b.Loop() {
		for range 25 {
			f := Start(b, program, Options{Env: home.Env(home.Endpoint)})
			d, err := f.Ready(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			times = append(times, d)
			f.Kill()
		}
	}
	slices.Sort(times)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "ms/start")
	b.ReportMetric(float64(times[len(times)-1].Microseconds())/1000, "ms/slowest")
}
