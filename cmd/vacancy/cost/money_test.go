package cost_test

import (
	"math"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
)

// The golden templates at three sizes: what they let a day cost, and how many calls a second
// that buys.
func TestWhatWorstDaysBuy(t *testing.T) {
	for _, tt := range []struct{ day, calls, priced float64 }{{12, 4, 1.6}, {20, 18, 3.6}, {200, 189, 37.8}} {
		c := cost.LimitOptions{WorstDay: tt.day, Edge: true, Dashboard: true}
		l, err := cost.DeriveLimits(c)
		must(t, err)
		s := deployed(t)
		for i := range s.Tables {
			names := map[string][2]string{"Rows": {cost.RowsReads, cost.RowsWrites}, "Docs": {cost.DocsReads, cost.DocsWrites}, "Docs/listed": {cost.IndexReads, cost.IndexWrites}}[s.Tables[i].Name]
			s.Tables[i].ReadLimit, s.Tables[i].WriteLimit = formatNumber(l[names[0]]), formatNumber(l[names[1]])
		}
		for i, f := range s.Functions {
			if n, ok := l[f.Name]; ok {
				s.Functions[i].Reserved = formatNumber(n)
			}
			if f.ObjectWrites > 0 {
				s.Functions[i].ObjectWrites, s.Functions[i].ObjectReads = l.ObjectShare(cost.ObjectWrites), l.ObjectShare(cost.ObjectReads)
			}
		}
		day := cost.WorstDay(s, cost.ListPrices(), cost.DefaultBounds())
		if day.USD > tt.day || day.USD < tt.day*0.95 {
			t.Errorf("$%v: a day costs $%.2f", tt.day, day.USD)
		}
		of := func(name string) float64 { return float64(l[name]) }
		// A call writes and reads two units of rows, and reads two of docs, which public reads may halve. A
		// call with a price writes three of rows and five of docs.
		calls := min(of(cost.RowsWrites)/2, of(cost.RowsReads)/2, of(cost.DocsReads)/2/2, 10*of("message"))
		priced := min(calls, of(cost.RowsWrites)/3, of(cost.DocsWrites)/5)
		if math.Abs(calls-tt.calls) > 0.5 || math.Abs(priced-tt.priced) > 0.5 {
			t.Errorf("$%v buys %.4g calls a second, %.4g with a price; want %v and %v", tt.day, calls, priced, tt.calls, tt.priced)
		}
	}
}
