package fsck_test

import (
	"testing"

	"github.com/vacancy-host/vacancy/shared/host/answer/hosttest"
	"github.com/vacancy-host/vacancy/shared/host/fsck"
	"github.com/vacancy-host/vacancy/shared/store/memory"
)

// BenchmarkRun checks one pair with 2,000 calls and answers whose texts are readable, which is two
// signatures and four hashes per call.
func BenchmarkRun(b *testing.B) {
	a := &caller{hosttest.New(b, memory.New()).Caller()}
	for range 2000 {
		a.Call("a message of some length, as people write them to one another")
	}
	bench(b, a)
}

// BenchmarkRunSealed checks the same pair after the text key was destroyed, so only the links are
// checked.
func BenchmarkRunSealed(b *testing.B) {
	a := &caller{hosttest.New(b, memory.New()).Caller()}
	for range 2000 {
		a.Call("a message of some length, as people write them to one another")
	}
	a.Time = a.Time.AddDate(0, 0, 3)
	_, err := a.Texts.Sweep(a.Ctx)
	a.Must(err)
	bench(b, a)
}

func bench(b *testing.B, a *caller) {
	b.ReportAllocs()
	rows := uint64(0)
	for b.Loop() {
		res, found := a.checkWith(a.Store, fsck.Run)
		if len(found) > 0 {
			b.Fatal(found)
		}
		rows += res.Rows
	}
	b.ReportMetric(float64(rows)/b.Elapsed().Seconds(), "rows/s")
}
