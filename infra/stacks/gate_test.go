package stacks_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/infra/asl"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

// The deployed definition is the golden file's, and each of its placeholders is
// a function of the stage.
func TestTheGateIsDeployedAsItIsRendered(t *testing.T) {
	machine := synth(t, standard).template(t, "functions").Resources["Gate"].Properties
	text, err := asl.GateMachine(gate.Steps()).JSON()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, machine["DefinitionString"]); diff != "" {
		t.Errorf("definition (-rendered +deployed):\n%s", diff)
	}
	got := map[string]any{}
	for name, arn := range machine["DefinitionSubstitutions"].(map[string]any) {
		got[name] = readable(arn)
	}
	want := map[string]any{"recordArn": "functions.Record.Arn"}
	for _, s := range gate.Steps() {
		f := asl.FunctionName(s.Name)
		want[f+"Arn"] = "functions." + strings.ToUpper(f[:1]) + f[1:] + ".Arn"
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	if machine["StateMachineType"] != "STANDARD" || machine["StateMachineName"] != "vacancy-dev-gate" {
		t.Errorf("machine = %v %v, want a Standard one of the stage", machine["StateMachineType"], machine["StateMachineName"])
	}
}

// Its log contains the order of events and no input.
func TestTheGatesLogHasNoData(t *testing.T) {
	log := synth(t, standard).template(t, "functions").Resources["Gate"].Properties["LoggingConfiguration"]
	if at(log, "Level") != "ALL" || at(log, "IncludeExecutionData") != false ||
		!strings.HasSuffix(fmt.Sprint(readable(at(log, "Destinations", 0, "CloudWatchLogsLogGroup", "LogGroupArn"))), ":log-group:/aws/vendedlogs/states/vacancy-dev-gate:*") {
		t.Errorf("logging = %v, want every event in the stage's own group, without data", log)
	}
}

// The machine may invoke the functions of its steps and no other, and only the
// gate's handler may start the machine.
func TestTheGateStartsItsStepsAndOnlyItsHandlerStartsTheGate(t *testing.T) {
	functions := synth(t, standard).template(t, "functions")
	var may []string
	for _, s := range at(policy(t, functions, "gate"), "Statement").([]any) {
		if at(s, "Action") == "lambda:InvokeFunction" {
			for _, r := range list(readable(at(s, "Resource"))) {
				may = append(may, r.(string))
			}
		} else if !strings.HasPrefix(fmt.Sprint(at(s, "Action", 0)), "logs:") {
			t.Errorf("the machine may %v too", at(s, "Action"))
		}
	}
	want := []string{"functions.Consent.Arn", "functions.Ratelimit.Arn", "functions.Collusion.Arn", "functions.Commit.Arn", "functions.Record.Arn"}
	if diff := cmp.Diff(want, may); diff != "" {
		t.Errorf("functions that the machine starts (-want +got):\n%s", diff)
	}
	starters := map[string]bool{}
	for id, r := range functions.of("AWS::IAM::Role") {
		b, err := json.Marshal(r.Properties)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), `"states:StartExecution"`) {
			starters[id] = true
		}
	}
	if got := slices.Collect(maps.Keys(starters)); !slices.Equal(got, []string{"GraduateRole"}) {
		t.Errorf("%v may do something with state machines, want graduate alone", got)
	}
}

// Each step may decrypt only what it needs: collusion reads texts and no seed,
// commit seeds and no text.
func TestAStepOpensTextsOrSeedsAndNeverBoth(t *testing.T) {
	functions := synth(t, standard).template(t, "functions")
	got := map[string]string{}
	for _, name := range []string{"graduate", "consent", "ratelimit", "collusion", "commit", "record"} {
		for _, s := range at(readable(policy(t, functions, name)), "Statement").([]any) {
			for _, a := range list(at(s, "Action")) {
				if strings.HasPrefix(a.(string), "kms:") {
					for _, operator := range []string{"StringLike", "StringNotLike"} {
						if bound := at(s, "Condition", operator, "kms:EncryptionContext:vacancy"); bound != nil {
							got[name] += fmt.Sprint(a, " ", operator, " ", bound)
						}
					}
				}
			}
		}
	}
	want := map[string]string{"collusion": "kms:Decrypt StringLike textkey:*", "commit": "kms:Decrypt StringLike vacant:*"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what the steps open (-want +got):\n%s", diff)
	}
}
