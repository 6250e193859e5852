package estimates_test

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/tests/estimates"
)

var update = flag.Bool("update", false, "write the table of costs into infra/README.md")

func TestTheREADMEHasTheEstimates(t *testing.T) {
	s, prices := estimates.StandardStage(t, filepath.Join("..", "..")), cost.ListPrices()
	path := filepath.Join("..", "..", "infra", "README.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	table.WriteString("| What | Write units of each | Read units of each | Cost |\n|---|---|---|---|\n")
	units := func(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }
	r, m := cost.Estimate(s, prices, 1e6), cost.DefaultModel()
	fmt.Fprintf(&table, "| a million calls by Function URL | %s | %s | $%.2f, and $%.2f for their transfer |\n", units(m.WriteUnits), units(m.ReadUnits), r.BeforeTransfer, r.Direct.USD-r.BeforeTransfer)
	fmt.Fprintf(&table, "| a million calls through CloudFront | %s | %s | $%.2f with their transfer |\n", units(m.WriteUnits), units(m.ReadUnits), r.Edge.USD)
	for _, e := range estimates.All() {
		usd, err := e.USD(s, prices)
		if err != nil {
			t.Fatal(err)
		}
		uses := map[float64]string{1000: "a thousand", 1e6: "a million"}[e.Uses]
		fmt.Fprintf(&table, "| %s %s | %s | %s | $%.2f |\n", uses, e.Feature, units(e.WriteUnits), units(e.ReadUnits), usd)
	}
	s.Dashboards = 0
	fmt.Fprintf(&table, "| rows of a million calls, each month | | | $%.2f |\n", r.RowStorage.USD)
	fmt.Fprintf(&table, "| a month without calls | | | $%.2f, or $%.2f without the dashboard |\n", r.Month.USD, cost.Estimate(s, prices, 1e6).Month.USD)
	fmt.Fprintf(&table, "| the metrics of a month in which every handler is used in every hour | | | $%.2f more |\n", r.MonthlyMetrics.USD)

	const begin, end = "<!-- costs: go test ./tests/estimates -update -->\n", "<!-- end of costs -->"
	before, rest, _ := strings.Cut(string(b), begin)
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no table of costs", path)
	}
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Errorf("infra/README.md (-want +got); go test ./tests/estimates -update writes it:\n%s", diff)
	}
}

func TestFeaturesCostNoMoreThanPromised(t *testing.T) {
	for _, tt := range []struct {
		estimate estimates.Estimate
		most     float64
	}{{estimates.Page, 3.50}, {estimates.Graduation, 1000 * 0.0005}} {
		usd, err := tt.estimate.USD(estimates.StandardStage(t, filepath.Join("..", "..")), cost.ListPrices())
		if err != nil || usd > tt.most {
			t.Errorf("%s: $%.3f, %v; want at most $%.2f", tt.estimate.Feature, usd, err, tt.most)
		}
	}
}

// Round numbers, so that the sum can be computed in the head.
func TestAnEstimateIsUnitsTimesPrice(t *testing.T) {
	s := cost.Shape{Functions: []cost.Function{{Name: "message", MemoryMB: 512, Arm: true}, {Name: "think", MemoryMB: 1024}}}
	e := estimates.Estimate{
		Uses: 1e6, WriteUnits: 2, ReadUnits: 4, Requests: 3, LogBytes: 1 << 10, Milliseconds: map[string]float64{"message": 20, "think": 30},
		Others: map[cost.Item]float64{cost.QueueRequests: 3, cost.KMSRequests: 1},
	}
	want := 2*0.625 + 4*0.125 + 3*0.2 + 1e6/float64(1<<20)*0.5 + 10_000*0.0000133334 + 30_000*0.0000166667 + 3*0.4 + 3
	if got, err := e.USD(s, cost.ListPrices()); err != nil || math.Abs(got-want) > 1e-9 {
		t.Errorf("USD() = %v, %v; want %v", got, err, want)
	}
	if _, err := e.USD(cost.Shape{}, cost.ListPrices()); err == nil {
		t.Error("USD() on a stage without message = nil, want an error")
	}
}
