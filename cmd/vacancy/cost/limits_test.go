package cost_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/host/a2a/push"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// For every worst day, the limits are as high as its money allows, and no lower
// than the limits of a smaller one. A test in infra sums the templates.
func TestMoreMoneyBuysMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := cost.LimitOptions{
			Edge: rapid.Bool().Draw(t, "edge"), WAF: rapid.Bool().Draw(t, "waf"), Dashboard: rapid.Bool().Draw(t, "dashboard"),
			X86: rapid.Bool().Draw(t, "amd64"), SoftwareKey: rapid.Bool().Draw(t, "software"),
		}
		c.WorstDay = rapid.Float64Range(19, 5000).Draw(t, "day")
		l, err := cost.DeriveLimits(c)
		if err != nil {
			t.Fatalf("DeriveLimits() = %v", err)
		}
		c.WorstDay *= 1.5
		more, err := cost.DeriveLimits(c)
		if err != nil {
			t.Fatalf("DeriveLimits() = %v", err)
		}
		for name, n := range l {
			if n < 1 || more[name] < n {
				t.Errorf("%s is %d, and %d for half as much again", name, n, more[name])
			}
		}
		if more["message"] <= l["message"] && more[cost.RowsWrites] <= l[cost.RowsWrites] {
			t.Error("half as much again buys no more calls")
		}
	})
}

func TestTooLittleMoneyIsToldTheLeast(t *testing.T) {
	_, err := cost.DeriveLimits(cost.LimitOptions{WorstDay: 1, Edge: true, Dashboard: true})
	var least int
	if p := problem.AsError(err); p.Kind != problem.Malformed {
		t.Fatalf("DeriveLimits(1 USD) = %v (%v), want Malformed", err, p.Kind)
	}
	if _, scan := fmt.Sscanf(err.Error(), "worstDay: expected at least %d,", &least); scan != nil {
		t.Fatalf("DeriveLimits(1 USD) = %v, want the least in it", err)
	}
	l, err := cost.DeriveLimits(cost.LimitOptions{WorstDay: float64(least), Edge: true, Dashboard: true})
	if err != nil || l["message"] != 1 || l[cost.RowsWrites] < 2 {
		t.Errorf("DeriveLimits(%d USD) = %v, %v; want one instance and a call a second", least, l, err)
	}
}

func TestALimitThatIsSetAloneChangesNoOther(t *testing.T) {
	c := cost.LimitOptions{WorstDay: 20, Edge: true, Dashboard: true}
	before, err := cost.DeriveLimits(c)
	must(t, err)
	if c.ExplicitLimits, err = cost.ParseLimits("message:50"); err != nil {
		t.Fatal(err)
	}
	after, err := cost.DeriveLimits(c)
	if err != nil || after["message"] != 50 {
		t.Fatalf("DeriveLimits() = %v, %v; want 50 instances of message", after, err)
	}
	for name, n := range before {
		if name != "message" && after[name] != n {
			t.Errorf("%s is %d, was %d", name, after[name], n)
		}
	}
	if got, want := after.ReservedConcurrency(), before.ReservedConcurrency()+50-before["message"]; got != want {
		t.Errorf("Reserved() = %d, want %d", got, want)
	}
}

// Models never take the last instances of message.
func TestThinkHasTwoInstancesLessThanMessage(t *testing.T) {
	for _, tt := range []struct {
		day  float64
		set  string
		most int // of think; zero if refused
	}{
		{12, "", 1}, {20, "", 1000}, {500, "", 1000}, {20, "message:3", 1}, {20, "message:4,think:2", 2}, {20, "message:4,think:3", 0}, {20, "think:1", 1}, {20, "message:1,think:2", 0},
	} {
		set, err := cost.ParseLimits(tt.set)
		must(t, err)
		l, err := cost.DeriveLimits(cost.LimitOptions{WorstDay: tt.day, Edge: true, Dashboard: true, ExplicitLimits: set})
		if tt.most == 0 {
			if p := problem.AsError(err); p == nil || p.Field != "limits" {
				t.Errorf("$%v with %q = %v, want a refusal of limits", tt.day, tt.set, err)
			}
			continue
		}
		if err != nil || l["think"] < 1 || l["think"] > min(tt.most, max(1, l["message"]-2)) {
			t.Errorf("$%v with %q: %d of think, %d of message, %v", tt.day, tt.set, l["think"], l["message"], err)
		}
	}
}

func TestTheChoiceIsReadFromTheContext(t *testing.T) {
	c, err := cost.ParseLimitOptions(map[string]string{"worstDay": "50", "edge": "false", "hostKey": "software", "arch": "amd64", "waf": "true", "dashboard": "false", "limits": "search:4"}, "eu-west-1")
	if err != nil || c.WorstDay != 50 || c.Edge || !c.SoftwareKey || !c.X86 || !c.WAF || c.Dashboard || c.ExplicitLimits["search"] != 4 {
		t.Errorf("ParseLimitOptions() = %+v, %v", c, err)
	}
	if c, err = cost.ParseLimitOptions(nil, "eu-west-1"); err != nil || c.WorstDay != setting.DefaultWorstDay || !c.Edge || !c.Dashboard || c.WAF || c.X86 {
		t.Errorf("ParseLimitOptions(nil) = %+v, %v; want the defaults", c, err)
	}
	for _, bad := range []map[string]string{{"worstDay": "much"}, {"limits": "search"}, {"limits": "rowsReads:40001"}} {
		if _, err := cost.ParseLimitOptions(bad, "eu-west-1"); !problem.Is(err, problem.Malformed) {
			t.Errorf("ParseLimitOptions(%v) = %v, want Malformed", bad, err)
		}
	}
}

// Whatever the size of its texts, a task sends no more in notifications for each unit that it
// writes than the worst day says. A delivery has twice the size of what is stored, at most.
func TestNotificationsSendNoMoreThanTheWorstDaySays(t *testing.T) {
	docs := formatNumber(1)
	day := cost.WorstDay(cost.Shape{Tables: []cost.Table{{Name: "Docs", ReadLimit: formatNumber(1), WriteLimit: docs}}}, cost.ListPrices(), cost.DefaultBounds())
	at := slices.IndexFunc(day.Lines, func(l cost.CostLine) bool { return l.Label == "notifications to the Internet" })
	if at < 0 {
		t.Fatal("the worst day has no notifications")
	}
	most := day.Lines[at].Units * (1 << 30) / 86_400
	for size := 1 << 10; size < 16<<20; size += 1 << 10 {
		const unitsOfTry = 6 // three documents in a transaction
		sent := float64(push.MaxTaskBytes(size))
		if got := sent / (float64(size)/1024 + unitsOfTry*sent/float64(2*size)); got > most {
			t.Fatalf("a task of %d bytes sends %.0f bytes a unit, want at most %.0f", size, got, most)
		}
	}
}

// A dearer Region gets lower limits for the same money, and a Region without a row the lowest.
func TestTheWorstDayIsThatOfTheRegion(t *testing.T) {
	chosen := func(region string) cost.LimitOptions {
		return cost.LimitOptions{WorstDay: 100, Region: region, Edge: true, Dashboard: true}
	}
	calls := map[string]int{}
	for _, region := range []string{"us-east-1", "us-west-2", "eu-central-1", "sa-east-1", "mx-central-1"} {
		l, err := cost.DeriveLimits(chosen(region))
		must(t, err)
		calls[region] = l[cost.RowsWrites]
	}
	if calls["us-west-2"] != calls["us-east-1"] || calls["eu-central-1"] >= calls["us-east-1"] || calls["sa-east-1"] >= calls["eu-central-1"] || calls["mx-central-1"] > calls["sa-east-1"] {
		t.Errorf("write units of rows that $100 a day buy = %v", calls)
	}
	c := chosen("mx-central-1")
	c.WorstDay = 12
	if _, err := cost.DeriveLimits(c); err == nil || !strings.Contains(err.Error(), "in mx-central-1 may cost $") {
		t.Errorf("DeriveLimits($12 in mx-central-1) = %v, want a refusal that names the Region", err)
	}
}

func TestPricesOfAnotherRegionAreMarkedAsDerived(t *testing.T) {
	list := cost.ListPrices()
	for region, tt := range map[string]struct {
		basis         string
		writes, edges float64
	}{
		"":             {"", 0.625, 0.01},
		"us-east-1":    {"", 0.625, 0.01},
		"eu-central-1": {"with the surcharge of eu-central-1", 0.625 * 1.22, 0.01},
		"mx-central-1": {"the surcharge of mx-central-1 is not known", 0.625 * 1.5, 0.01},
	} {
		got := cost.RegionPrices(region)
		if (got.Basis == "") != (tt.basis == "") || !strings.Contains(got.Basis, tt.basis) || got.Prices[cost.WriteUnits].USD != tt.writes || got.Prices[cost.EdgeRequests].USD != tt.edges {
			t.Errorf("RegionPrices(%q) = %q, write units $%v, requests to CloudFront $%v", region, got.Basis, got.Prices[cost.WriteUnits].USD, got.Prices[cost.EdgeRequests].USD)
		}
		for item, p := range got.Prices {
			if p.USD < list.Prices[item].USD || p.USD > 1.8*list.Prices[item].USD {
				t.Errorf("RegionPrices(%q) of %s = $%v, in us-east-1 $%v", region, item, p.USD, list.Prices[item].USD)
			}
		}
	}
}
