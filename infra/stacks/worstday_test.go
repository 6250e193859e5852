package stacks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
)

// The limits in the templates let a day cost what the operator set, and not
// much less, whatever else was chosen.
func TestTheWorstDayIsWhatTheTemplatesSumUpTo(t *testing.T) {
	for _, context := range []map[string]any{
		{"worstDay": 11}, standard, {"worstDay": 200},
		{"worstDay": 17, "edge": false}, {"worstDay": 50, "waf": true, "hostKey": "software", "arch": "amd64", "dashboard": false},
		{"worstDay": 40, "domain": "vacants.example.org", "certificate": certificate, "email": "ops@example.org"},
	} {
		t.Run(fmt.Sprint(context), func(t *testing.T) {
			var templates [][]byte
			for name, b := range synth(t, context) {
				if strings.HasSuffix(name, ".template.json") {
					templates = append(templates, b)
				}
			}
			s, err := cost.ReadTemplates(templates...)
			if err != nil {
				t.Fatal(err)
			}
			want := float64(cost.DefaultWorstDay)
			if v, ok := context["worstDay"].(int); ok {
				want = float64(v)
			}
			d := cost.WorstDay(s, cost.ListPrices(), cost.DefaultBounds())
			if d.USD > want || d.USD < want*0.97 {
				t.Errorf("the templates let a day cost $%.2f, want at most $%.0f and nearly as much", d.USD, want)
			}
			for _, u := range d.Unbounded {
				if strings.Contains(u, "no ceiling for") || strings.Contains(u, "no reserved concurrency") {
					t.Errorf("the templates leave open: %s", u)
				}
			}
		})
	}
}
