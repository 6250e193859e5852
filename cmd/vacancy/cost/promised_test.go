package cost_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
	"github.com/vacancy-host/vacancy/tests/estimates"
)

// The promised costs of a stage with the defaults, in dollars.
const (
	promisedDirect = 2.30  // a million calls by Function URL, before transfer out
	promisedEdge   = 3.40  // a million calls through CloudFront, everything included
	promisedMonth  = 12.50 // a month without calls
	promisedDay    = setting.DefaultWorstDay
)

// deployed is a stage with the defaults, from infra's golden templates.
func deployed(t *testing.T) cost.Shape {
	t.Helper()
	return estimates.StandardStage(t, filepath.Join("..", "..", ".."))
}

func TestCallsAndAnIdleMonthCostNoMoreThanPromised(t *testing.T) {
	r := cost.Estimate(deployed(t), cost.ListPrices(), 1e6)
	t.Logf("by Function URL $%.3f, $%.3f before transfer out; through CloudFront $%.3f; rows kept $%.2f a month",
		r.Direct.USD, r.BeforeTransfer, r.Edge.USD, r.RowStorage.USD)
	if r.BeforeTransfer > promisedDirect {
		t.Errorf("a million calls by Function URL cost $%.3f before transfer out, want at most $%.2f", r.BeforeTransfer, promisedDirect)
	}
	t.Logf("a month without calls $%.2f", r.Month.USD)
	if r.Month.USD > promisedMonth {
		t.Errorf("a month without calls costs $%.2f, want at most $%.2f", r.Month.USD, promisedMonth)
	}
	if r.Edge.USD > promisedEdge {
		t.Errorf("a million calls through CloudFront cost $%.3f, want at most $%.2f", r.Edge.USD, promisedEdge)
	}
}

func TestTheWorstDayOfTheDefaultsIsBounded(t *testing.T) {
	if got := cost.DefaultBounds().Attempts; got != graduation.MaxAttemptsOfParent {
		t.Errorf("DefaultBounds() = %v attempts of a parent's children, want the gate's %d", got, graduation.MaxAttemptsOfParent)
	}
	s := deployed(t)
	d := cost.WorstDay(s, cost.ListPrices(), cost.DefaultBounds())
	t.Logf("worst day $%.2f", d.USD)
	if d.USD > promisedDay {
		t.Errorf("the worst day costs $%.2f, want at most $%d: lower its shares", d.USD, promisedDay)
	}
	for _, u := range d.Unbounded {
		if strings.Contains(u, "no ceiling for") || strings.Contains(u, "no reserved concurrency") {
			t.Errorf("the defaults leave open: %s", u)
		}
	}
}
