package cost_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
)

func TestEachLineOfPricedCallsIsUnitsTimesPrice(t *testing.T) {
	m := cost.PricedModel{WriteUnits: 8, ReadUnits: 4, BilledMS: 20}
	want := map[string]string{
		"invocations": "0.2000", "compute": fmt.Sprintf("%.4f", 20_000*0.125*0.0000133334), "written": "5.0000", "usage": "0.1250", "reads": "0.5000",
		"log lines": fmt.Sprintf("%.4f", 1e6*526/float64(1<<30)*0.5),
	}
	if diff := cmp.Diff(want, usd(m.Calls(shape(), cost.ListPrices(), 1e6))); diff != "" {
		t.Errorf("Calls() (-want +got):\n%s", diff)
	}
	if lines := m.Calls(cost.Shape{}, cost.ListPrices(), 1); lines != nil {
		t.Errorf("a stage without message has %v", lines)
	}
}

func TestBookingsAndWhatRunsEachMinuteHaveTheirLines(t *testing.T) {
	s := shape()
	if lines := cost.DefaultBooking().Bookings(s, cost.ListPrices(), 1000); lines != nil {
		t.Errorf("a stage without gateway has %v", lines)
	}
	s.Functions = append(s.Functions, cost.Function{Name: "gateway", MemoryMB: 256, Arm: true, URL: true}, cost.Function{Name: "meter", MemoryMB: 128, Arm: true, Runs: 1440})
	got := usd(cost.BookingModel{WriteUnits: 50, ReadUnits: 40, BilledMS: 400}.Bookings(s, cost.ListPrices(), 1e6))
	for what, want := range map[string]float64{"invocations": 0.4, "written": 50 * 0.625, "read": 40 * 0.125, "requests to the queue": 1.2, "compute": 800_000 * 0.25 * 0.0000133334} {
		if got[what] != fmt.Sprintf("%.4f", want) {
			t.Errorf("Bookings(): %s = %s, want %.4f", what, got[what], want)
		}
	}
	lines := usd(cost.Scheduled(s, cost.ListPrices()))
	if want := fmt.Sprintf("%.4f", 1440*30.4*7/1e6*0.2); lines["meter: requests to the stream"] != want || lines["sweeper: reads"] == "" {
		t.Errorf("Scheduled() = %v, want %s of the stream, and the sweeper's", lines, want)
	}
}

// The golden templates at three sizes: what they let a day cost, and how many calls a second
// that buys.
func TestWhatWorstDaysBuy(t *testing.T) {
	for _, tt := range []struct{ day, calls, priced float64 }{{11, 2, 1.33}, {20, 19, 3.8}, {200, 200, 40}} {
		c := cost.Choice{WorstDay: tt.day, Edge: true, Dashboard: true}
		l, err := cost.Derive(c)
		if err != nil {
			t.Fatal(err)
		}
		s := deployed(t)
		for i := range s.Tables {
			names := map[string][2]string{"Rows": {cost.RowsReads, cost.RowsWrites}, "Docs": {cost.DocsReads, cost.DocsWrites}, "Docs/listed": {cost.IndexReads, cost.IndexWrites}}[s.Tables[i].Name]
			s.Tables[i].Read, s.Tables[i].Write = number(l[names[0]]), number(l[names[1]])
		}
		for i, f := range s.Functions {
			if n, ok := l[f.Name]; ok {
				s.Functions[i].Reserved = number(n)
			}
		}
		day := cost.WorstDay(s, cost.ListPrices(), cost.DefaultBounds())
		if day.USD > tt.day || day.USD < tt.day*0.95 {
			t.Errorf("$%v: a day costs $%.2f", tt.day, day.USD)
		}
		got := cost.Buys(s, cost.ListPrices(), cost.DefaultBounds())
		if math.Abs(got.Calls-tt.calls) > 0.5 || math.Abs(got.PricedCalls-tt.priced) > 0.5 {
			t.Errorf("$%v buys %.4g calls a second, %.4g with a price; want %v and %v", tt.day, got.Calls, got.PricedCalls, tt.calls, tt.priced)
		}
	}
}
