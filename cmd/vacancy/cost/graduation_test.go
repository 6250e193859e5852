package cost_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/host/family/graduation"
)

// gated is shape with a gate of two steps and the function that records its
// outcome.
func gated() cost.Shape {
	s := shape()
	for _, name := range []string{"consent", "commit", "record"} {
		s.Functions = append(s.Functions, cost.Function{Name: "" + name, MemoryMB: 128, Arm: true, Seconds: 10, Step: true})
	}
	s.Functions = append(s.Functions, cost.Function{Name: "graduate", MemoryMB: 256, Arm: true, Reserved: number(1), URL: true})
	s.Transitions = 4
	return s
}

func TestTheWorstDayHasAllAttemptsThatTheGateTakes(t *testing.T) {
	// Ten instances of message, with a parent each.
	d := cost.WorstDay(gated(), cost.ListPrices(), cost.Bounds{LineBytes: 998, Vacants: 30, Parents: 1, Attempts: 96})
	got := usd(d.Lines)
	for what, want := range map[string]float64{
		"transitions of the gate": 10 * 96 * 4 * 25 / 1e6,
		"consent: compute":        10 * 96 * 10 * 0.125 * 0.0000133334,
		"consent: requests":       10 * 96 * 0.2 / 1e6,
	} {
		if got[what] != fmt.Sprintf("%.4f", want) {
			t.Errorf("WorstDay(): %s = %q, want %.4f", what, got[what], want)
		}
	}
	if more := "more than 10 parents: each parent beyond them adds up to 96 a day"; !slices.ContainsFunc(d.Unbounded, func(u string) bool { return strings.Contains(u, more) }) {
		t.Errorf("WorstDay() does not say what comes of %s", more)
	}
	if got := cost.DefaultBounds().Attempts; got != graduation.MaxOfParent {
		t.Errorf("DefaultBounds() = %v attempts of a parent's children, want the gate's %d", got, graduation.MaxOfParent)
	}
	for _, u := range d.Unbounded {
		if strings.Contains(u, "no reserved concurrency") {
			t.Errorf("WorstDay() takes a step for one that anybody starts: %s", u)
		}
	}
	if math.Abs(d.USD-cost.Sum(d.Lines)) > 1e-9 {
		t.Errorf("WorstDay().USD = %v, its lines come to %v", d.USD, cost.Sum(d.Lines))
	}
}
