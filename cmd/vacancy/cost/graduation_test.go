package cost_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

func TestEachLineOfAGraduationIsUnitsTimesPrice(t *testing.T) {
	m := cost.GraduationModel{WriteUnits: 10, ReadUnits: 20, Lines: 2, HandlerMS: 100, StepMS: 200, Looks: 1, KMS: 1}
	want := map[string]float64{
		"transitions": 4e6 / 1e6 * 25,
		"invocations": 4 * 0.2, // the handler twice, and two steps
		"compute":     1e6 * (2*0.25*0.1 + 2*0.125*0.2) * 0.0000133334,
		"written":     10 * 0.625, "read": 20 * 0.125,
		"log lines":    1e6 * 2 * 500 / float64(1<<30) * 0.5,
		"opening keys": 100 * 0.03,
	}
	rounded := map[string]string{}
	for what, usd := range want {
		rounded[what] = fmt.Sprintf("%.4f", usd)
	}
	if diff := cmp.Diff(rounded, usd(m.Graduations(gated(), cost.ListPrices(), 1e6))); diff != "" {
		t.Errorf("Graduations() (-want +got):\n%s", diff)
	}
	if lines := m.Graduations(shape(), cost.ListPrices(), 1e6); lines != nil {
		t.Errorf("Graduations() of a stage without a gate = %v, want nothing", lines)
	}
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

// The cost of one graduation on a deployed stage.
func TestAGraduationCostsNoMoreThanPromised(t *testing.T) {
	const promised = 0.0005
	lines := cost.DefaultGraduation().Graduations(deployed(t), cost.ListPrices(), 1)
	t.Logf("a graduation costs $%.6f", cost.Sum(lines))
	if usd := cost.Sum(lines); usd > promised {
		t.Errorf("a graduation costs $%.6f, want at most $%.4f", usd, promised)
	}
}
