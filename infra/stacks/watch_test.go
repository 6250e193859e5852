package stacks_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	table "github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func TestEveryFunctionHasALogGroupThatForgets(t *testing.T) {
	a := synth(t, map[string]any{"retentionDays": 7})
	var groups []string
	for _, g := range a.template(t, "watch").of("AWS::Logs::LogGroup") {
		groups = append(groups, g.Properties["LogGroupName"].(string))
		if g.Properties["RetentionInDays"] != 7.0 || g.Properties["KmsKeyId"] == nil {
			t.Errorf("log group %v keeps lines %v days under key %v, want 7 and our own", g.Properties["LogGroupName"], g.Properties["RetentionInDays"], g.Properties["KmsKeyId"])
		}
	}
	slices.Sort(groups)
	var want []string
	for _, f := range a.template(t, "functions").of("AWS::Lambda::Function") {
		want = append(want, at(f.Properties, "LoggingConfig", "LogGroup").(string))
		if at(f.Properties, "LoggingConfig", "SystemLogLevel") != "WARN" || at(f.Properties, "LoggingConfig", "LogFormat") != "JSON" {
			t.Errorf("%v logs as %v, want JSON and no line of Lambda's own", f.Properties["FunctionName"], f.Properties["LoggingConfig"])
		}
	}
	want = append(want, "/aws/vendedlogs/states/vacancy-dev-gate") // log group of the state machine
	slices.Sort(want)
	if diff := cmp.Diff(want, groups); diff != "" || len(groups) != len(table.Names())+1 {
		t.Errorf("log groups (-named by functions +made):\n%s", diff)
	}
}

func TestEveryAlarmReachesTheTopic(t *testing.T) {
	watch := synth(t, mailed).template(t, "watch")
	var names []string
	for id, a := range watch.of("AWS::CloudWatch::Alarm") {
		names = append(names, strings.TrimPrefix(id, "Alarm"))
		if fmt.Sprint(readable(a.Properties["AlarmActions"])) != "[${Alarms}]" || a.Properties["AlarmDescription"] == nil {
			t.Errorf("alarm %s tells %v: %v, want the topic and a word on what to do", id, readable(a.Properties["AlarmActions"]), a.Properties["AlarmDescription"])
		}
	}
	slices.Sort(names)
	want := []string{"DocsThrottled", "FunctionsThrottled", "GateFails", "MessageSlow", "RecursionStopped", "RowsThrottled", "TamperBehind", "TamperBlind", "TamperLost", "Tampered", "TasksLate", "TasksLost", "ThinkThrottled", "UsageLost"}
	for _, f := range table.All() {
		if first, last, ok := strings.Cut(f.Alarm.Name, "-"); ok {
			want = append(want, strings.ToUpper(first[:1])+first[1:]+strings.ToUpper(last[:1])+last[1:])
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("alarms (-want +got):\n%s", diff)
	}
}

func TestAMailAddressMakesABudgetAndASubscription(t *testing.T) {
	with, without := synth(t, mailed).template(t, "watch"), synth(t, standard).template(t, "watch")
	for _, kind := range []string{"AWS::Budgets::Budget", "AWS::SNS::Subscription"} {
		if n, m := len(with.of(kind)), len(without.of(kind)); n != 1 || m != 0 {
			t.Errorf("%s: %d with an address and %d without, want 1 and 0", kind, n, m)
		}
	}
	elsewhere := maps.Clone(mailed)
	elsewhere["lacksBudgets"] = true
	if other := synth(t, elsewhere).template(t, "watch"); len(other.of("AWS::Budgets::Budget")) != 0 || len(other.of("AWS::SNS::Subscription")) != 1 {
		t.Error("a Region without budgets gets one, or no subscription")
	}
	budget := with.Resources["Budget"].Properties
	if diff := cmp.Diff(map[string]any{"Amount": 20.0, "Unit": "USD"}, at(budget, "Budget", "BudgetLimit")); diff != "" || at(budget, "Budget", "TimeUnit") != "DAILY" {
		t.Errorf("budget of %v (-want +got):\n%s", at(budget, "Budget", "TimeUnit"), diff)
	}
}
