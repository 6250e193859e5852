package delegation_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vacancy-host/vacancy/shared/store"
	"github.com/vacancy-host/vacancy/shared/store/bolt"
)

// BenchmarkTenChildrenAtOnce measures a composite with ten children that think
// for 20 to 200 ms, as a ratio to a call of only the slowest child; and, with
// children that do not think, the cost of the signed calls and their entries.
func BenchmarkTenChildrenAtOnce(b *testing.B) {
	for _, fixture := range []string{"memory", "bolt"} {
		for _, slowest := range []time.Duration{200 * time.Millisecond, 0} {
			b.Run(fmt.Sprintf("%s, slowest %s", fixture, slowest), func(b *testing.B) {
				var s store.Store = newStore()
				if fixture == "bolt" {
					file, err := bolt.Open(filepath.Join(b.TempDir(), "vacancy.db"), bolt.Options{})
					if err != nil {
						b.Fatal(err)
					}
					defer file.Close()
					s = file
				}
				tenAtOnce(b, s, slowest)
			})
		}
	}
}

func tenAtOnce(b *testing.B, s store.Store, slowest time.Duration) {
	h := open(b, s)
	parent := h.create("parent")
	var names, delegate []string
	for i := range 10 {
		name := fmt.Sprintf("child%d", i)
		names = append(names, name)
		delegate = append(delegate, `{"child":"`+name+`"}`)
		if slowest > 0 {
			h.minds.set(name, slow(int(slowest.Milliseconds())*(i+1)/10, name))
		}
	}
	h.spawn(parent.ID, names...)
	h.set(parent.ID, `{"version":1,"parallel":true,"delegate":[`+strings.Join(delegate, ",")+`]}`)
	alone := h.create(names[9] + "-alone")
	if slowest > 0 {
		h.minds.set(alone.Name, slow(int(slowest.Milliseconds()), "alone"))
	}
	outside, single := newCaller(b, parent.ID), newCaller(b, alone.ID)
	timed := func(c *caller) time.Duration {
		began := time.Now()
		if _, failed := c.call(b.Context(), b, h, "x"); failed != nil {
			b.Fatal(failed)
		}
		return time.Since(began)
	}
	timed(outside) // the day's key, the pairs' first tips
	var whole, one time.Duration
	for b.Loop() {
		whole += timed(outside)
		one += timed(single)
	}
	b.ReportMetric(float64(whole)/float64(b.N)/1e6, "ms/composite")
	b.ReportMetric(float64(one)/float64(b.N)/1e6, "ms/slowest")
	b.ReportMetric(float64(whole)/float64(one), "x-slowest")
}
