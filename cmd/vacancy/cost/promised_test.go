package cost_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

// The promised costs of a stage with the defaults, in dollars.
const (
	promisedDirect = 2.30 // a million calls by Function URL, before transfer out
	promisedEdge   = 3.40 // a million calls through CloudFront, everything included
	promisedDay    = 20   // the worst day
	promisedRaw    = 52   // the worst day without an edge
)

// deployed is a stage with the defaults, from infra's golden templates.
func deployed(t *testing.T) cost.Shape {
	t.Helper()
	var templates [][]byte
	for _, stack := range stage.Stacks() {
		b, err := os.ReadFile(filepath.Join("..", "..", "..", "infra", "testdata", stack+".json"))
		if err != nil {
			t.Fatal(err)
		}
		templates = append(templates, b)
	}
	s, err := cost.ReadTemplates(templates...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAMillionCallsCostNoMoreThanPromised(t *testing.T) {
	r := cost.Estimate(deployed(t), cost.ListPrices(), 1e6, nil)
	t.Logf("by Function URL $%.3f, $%.3f before transfer out; through CloudFront $%.3f; rows kept $%.2f a month",
		r.Direct.USD, r.Before, r.Edge.USD, r.Kept.USD)
	if r.Before > promisedDirect {
		t.Errorf("a million calls by Function URL cost $%.3f before transfer out, want at most $%.2f", r.Before, promisedDirect)
	}
	if r.Edge.USD > promisedEdge {
		t.Errorf("a million calls through CloudFront cost $%.3f, want at most $%.2f", r.Edge.USD, promisedEdge)
	}
}

func TestTheWorstDayOfTheDefaultsIsBounded(t *testing.T) {
	s := deployed(t)
	d := cost.WorstDay(s, cost.ListPrices(), cost.DefaultBounds())
	t.Logf("worst day $%.2f; a month without calls $%.2f", d.USD, cost.Sum(cost.Month(s, cost.ListPrices())))
	if d.USD > promisedDay {
		t.Errorf("the worst day costs $%.2f, want at most $%d: lower reservations or ceilings in infra", d.USD, promisedDay)
	}
	s.Edge = false
	if raw := cost.WorstDay(s, cost.ListPrices(), cost.DefaultBounds()); raw.USD > promisedRaw {
		t.Errorf("the worst day without an edge costs $%.2f, want at most $%d", raw.USD, promisedRaw)
	} else {
		t.Logf("without an edge $%.2f", raw.USD)
	}
	for _, u := range d.Unbounded {
		if strings.Contains(u, "no ceiling for") || strings.Contains(u, "no reserved concurrency") {
			t.Errorf("the defaults leave open: %s", u)
		}
	}
}

// doctor's quota check assumes the defaults where no stage is deployed yet.
func TestTheDoctorKnowsWhatTheDefaultsReserve(t *testing.T) {
	reserved := 0
	for _, f := range deployed(t).Functions {
		if f.Reserved != nil {
			reserved += *f.Reserved
		}
	}
	if want := doctor.MessageReserved + doctor.OtherReserved; reserved != want {
		t.Errorf("the defaults reserve %d concurrent executions, the doctor says %d", reserved, want)
	}
}
