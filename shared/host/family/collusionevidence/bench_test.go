package collusionevidence_test

import (
	"fmt"
	"testing"
)

// A graduation waits for this collection. The parent has a thousand children. The last eight of
// them and the child have answered fifty times each.
func BenchmarkCollect(b *testing.B) {
	h := newFixture(b)
	parent := h.create("parent", "echo", "")
	child := h.spawn(parent.ID, "D2", "child", "http:https://florid.example/a")
	for i := range 1000 {
		id := h.spawn(parent.ID, "D2", fmt.Sprint("s", i), "http:https://florid.example/a")
		if i >= 992 {
			h.delegate(parent.ID, id, 50)
		}
	}
	h.delegate(parent.ID, child, 50)
	h.visit("a", parent.ID, 50)
	h.reads.Store(0)
	for b.Loop() {
		h.collect(child, parent.ID)
	}
	if h.reads.Load() == 0 {
		b.Fatal("nothing was read: nothing was measured")
	}
	b.ReportMetric(float64(h.reads.Load())/float64(b.N), "pages/op")
}
