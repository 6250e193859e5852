package stacks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

// The limits in the templates let a day cost what the operator set, and not
// much less, whatever else was chosen.
func TestTheWorstDayIsWhatTheTemplatesSumUpTo(t *testing.T) {
	for _, context := range []map[string]any{
		{"worstDay": 12}, standard, {"worstDay": 200},
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
			s, err := cost.ParseTemplates(templates...)
			if err != nil {
				t.Fatal(err)
			}
			want := float64(setting.DefaultWorstDay)
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

// Limits are derived from a shape. The templates have the same shape, of which package cost reads
// only a part.
func TestTheShapeOfAStageIsThatOfItsTemplates(t *testing.T) {
	for _, context := range []map[string]any{standard, full, bare, {"arch": "amd64"}} {
		t.Run(fmt.Sprint(context), func(t *testing.T) {
			a := synth(t, context)
			var read [][]byte
			all, functions := template{Resources: map[string]resource{}}, a.template(t, "functions")
			for _, stack := range a.stacks() {
				read = append(read, a[stack+".template.json"])
				for id, r := range a.template(t, strings.TrimPrefix(stack, "vacancy-dev-")).Resources {
					all.Resources[stack+"."+id] = r // two stacks may use one id
				}
			}
			got, err := cost.ParseTemplates(read...)
			if err != nil {
				t.Fatal(err)
			}
			want := cost.Shape{
				Functions: functionsOf(functions), Tables: got.Tables, Transitions: transitions(t, functions),
				Keys: len(all.of("AWS::KMS::Key")), Secrets: len(all.of("AWS::SecretsManager::Secret")), Dashboards: len(all.of("AWS::CloudWatch::Dashboard")),
				Edge: len(all.of("AWS::CloudFront::Distribution")) > 0, ACLs: len(all.of("AWS::WAFv2::WebACL")), LogDays: 30, ModelUSD: 5,
			}
			for _, r := range all.of("AWS::CloudWatch::Alarm") {
				metrics, _ := r.Properties["Metrics"].([]any)
				n := 0
				for _, m := range metrics {
					if at(m, "MetricStat") != nil { // an expression has none
						n++
					}
				}
				want.Alarms += max(n, 1)
			}
			for _, r := range all.of("AWS::WAFv2::WebACL") {
				want.Rules += len(r.Properties["Rules"].([]any))
			}
			for _, r := range functions.of("AWS::Lambda::EventSourceMapping") {
				if functions.receives(r) {
					want.Queues++
				}
			}
			for _, r := range all.of("AWS::Budgets::Budget") {
				want.BudgetUSD = at(r.Properties, "Budget", "BudgetLimit", "Amount").(float64)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("shape (-in the templates +read):\n%s", diff)
			}
		})
	}
}

// perSecond returns the rate of a RATE:BURST in a function's environment, or 0.
func perSecond(function map[string]any, name string) (rate float64) {
	text, _ := at(function, "Environment", "Variables", name).(string)
	text, _, _ = strings.Cut(text, ":")
	rate, _ = strconv.ParseFloat(text, 64)
	return rate
}

// receives reports whether an event source mapping is of a queue.
func (t template) receives(mapping resource) bool {
	queue, ok := at(mapping.Properties, "EventSourceArn", "Fn::GetAtt", 0).(string)
	return ok && t.Resources[queue].Type == "AWS::SQS::Queue"
}

// functionsOf are the functions of a template, by name.
func functionsOf(all template) (found []cost.Function) {
	for _, id := range slices.Sorted(maps.Keys(all.of("AWS::Lambda::Function"))) {
		p := all.Resources[id].Properties
		f := cost.Function{
			Name: strings.TrimPrefix(p["FunctionName"].(string), "vacancy-dev-"), MemoryMB: int(p["MemorySize"].(float64)), TimeoutSeconds: int(p["Timeout"].(float64)),
			Arm: at(p, "Architectures", 0) == "arm64", OpensSeeds: at(p, "Environment", "Variables", "VACANCY_SEAL_KEY") != nil,
		}
		if n, ok := p["ReservedConcurrentExecutions"].(float64); ok {
			reserved := int(n)
			f.Reserved = &reserved
		}
		f.ObjectWrites, f.ObjectReads = perSecond(p, "VACANCY_PUTS"), perSecond(p, "VACANCY_GETS")
		starts := func(arn any) bool { return at(arn, "Fn::GetAtt", 0) == id || at(arn, "Ref") == id }
		retries, streams := 2, false // Lambda's default
		for _, r := range all.Resources {
			switch r.Type {
			case "AWS::Lambda::Url":
				f.URL = f.URL || starts(r.Properties["TargetFunctionArn"])
			case "AWS::StepFunctions::StateMachine":
				for _, arn := range r.Properties["DefinitionSubstitutions"].(map[string]any) {
					f.IsGateStep = f.IsGateStep || starts(arn)
				}
			case "AWS::Lambda::EventInvokeConfig":
				if starts(r.Properties["FunctionName"]) {
					retries = int(r.Properties["MaximumRetryAttempts"].(float64))
				}
			case "AWS::Lambda::EventSourceMapping":
				if !starts(r.Properties["FunctionName"]) {
					continue
				}
				if all.receives(r) {
					f.Queued = true
					continue
				}
				streams = true
				f.OnRowChange = strings.Contains(fmt.Sprint(at(r.Properties, "FilterCriteria")), "MODIFY")
			case "AWS::Events::Rule":
				if starts(at(r.Properties, "Targets", 0, "Arn")) {
					var n int
					var unit string
					fmt.Sscanf(strings.NewReplacer("(", " ", ")", " ").Replace(r.Properties["ScheduleExpression"].(string)), "rate %d %s", &n, &unit)
					f.RunsPerDay = 24 * 60 / (n * map[string]int{"minute": 1, "hour": 60}[strings.TrimSuffix(unit, "s")])
				}
			}
		}
		f.RunsPerDay *= 1 + retries
		f.Invoked = !f.URL && !f.IsGateStep && !f.Queued && !streams && f.RunsPerDay == 0
		found = append(found, f)
	}
	return found
}

// transitions follows the gate's machine to its success.
func transitions(t *testing.T, all template) int {
	var machine struct {
		StartAt string
		States  map[string]struct{ Next string }
	}
	if err := json.Unmarshal([]byte(all.Resources["Gate"].Properties["DefinitionString"].(string)), &machine); err != nil {
		t.Fatal(err)
	}
	n := 1
	for state := machine.StartAt; state != ""; state = machine.States[state].Next {
		n++
	}
	return n
}
