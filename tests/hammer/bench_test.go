package hammer

import (
	"testing"
	"time"
)

// BenchmarkRun measures calls over HTTP to a host in this process with a store
// in memory; host and load generator share the CPU.
func BenchmarkRun(b *testing.B) {
	h, url := target(b, nil)
	for b.Loop() {
		s, err := hammer(b, h, url, func(c *Config) { c.Pairs, c.Calls, c.For = 16, 4000, time.Minute })
		if err != nil || s.Calls != 4000 {
			b.Fatalf("Run() = %+v, %v", s, err)
		}
		b.ReportMetric(s.PerSecond, "calls/s")
	}
}
