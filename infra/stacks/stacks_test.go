package stacks_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/infra/settings"
	table "github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func TestASecondSynthesisIsTheSame(t *testing.T) {
	if diff := cmp.Diff(synth(t, standard), freshly(t, standard)); diff != "" {
		t.Errorf("second synthesis (-first +second):\n%s", diff)
	}
}

func TestArmAndAmdDifferInArchitecturesAndAssetsOnly(t *testing.T) {
	// Their prices differ, so the limits would.
	chosen, err := settings.Read(standard, "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	var limits []string
	for name, n := range chosen.Limits {
		limits = append(limits, fmt.Sprintf("%s:%d", name, n))
	}
	set := strings.Join(limits, ",")
	arm, amd := synth(t, map[string]any{"limits": set}), synth(t, map[string]any{"arch": "amd64", "limits": set})
	if bytes.Equal(arm["vacancy-dev-functions.template.json"], amd["vacancy-dev-functions.template.json"]) {
		t.Error("both are the same, want the code to differ")
	}
	for _, stack := range []string{"data", "watch", "functions", "edge"} {
		got := strings.ReplaceAll(string(amd.masked(t, stack)), `"x86_64"`, `"arm64"`)
		got = strings.ReplaceAll(got, `\"arch\":\"amd64\",`, "") // in the stored settings
		if diff := cmp.Diff(string(arm.masked(t, stack)), got); diff != "" {
			t.Errorf("stack %s (-arm64 +amd64):\n%s", stack, diff)
		}
	}
	for id, f := range amd.template(t, "functions").of("AWS::Lambda::Function") {
		if diff := cmp.Diff([]any{"x86_64"}, f.Properties["Architectures"]); diff != "" {
			t.Errorf("architectures of %s (-want +got):\n%s", id, diff)
		}
	}
}

func TestTwoStagesShareNoName(t *testing.T) {
	names := func(context map[string]any) map[string]string {
		found := map[string]string{}
		for file, b := range synth(t, context) {
			if !strings.HasSuffix(file, ".template.json") {
				continue
			}
			var v any
			if err := json.Unmarshal(b, &v); err != nil {
				t.Fatal(err)
			}
			walk(v, "", func(key, text string) {
				if (key == "Name" || strings.HasSuffix(key, "Name")) && strings.Contains(text, "vacancy") {
					found[text] = key
				}
			})
		}
		return found
	}
	one, two := names(full), names(merged(full, map[string]any{"stage": "two"}))
	for _, key := range []string{"FunctionName", "RoleName", "LogGroupName", "QueueName", "TopicName", "AlarmName", "DashboardName", "BudgetName"} {
		if !slices.Contains(slices.Collect(maps.Values(one)), key) {
			t.Errorf("found no %s to compare", key)
		}
	}
	for name, key := range one {
		if two[name] != "" {
			t.Errorf("both stages have the %s %s", key, name)
		}
	}
}

func merged(a, b map[string]any) map[string]any {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func TestThereIsNoFunctionOfSomebodyElse(t *testing.T) {
	for _, context := range []map[string]any{full, bare} {
		a := synth(t, context)
		var names []string
		for _, stack := range a.stacks() {
			for id, r := range a.template(t, strings.TrimPrefix(stack, "vacancy-dev-")).Resources {
				if strings.HasPrefix(r.Type, "Custom::") || r.Type == "AWS::CloudFormation::CustomResource" {
					t.Errorf("%s has the custom resource %s", stack, id)
				}
				if r.Type == "AWS::Lambda::Function" {
					names = append(names, strings.TrimPrefix(r.Properties["FunctionName"].(string), "vacancy-dev-"))
				}
			}
		}
		slices.Sort(names)
		if diff := cmp.Diff(slices.Sorted(slices.Values(table.Names())), names); diff != "" {
			t.Errorf("functions (-want +got):\n%s", diff)
		}
	}
}

func TestNagFindsNothing(t *testing.T) {
	for name, context := range map[string]map[string]any{"standard": standard, "full": full, "bare": bare} {
		for file, b := range synth(t, context) {
			if !strings.HasSuffix(file, ".json") || strings.HasSuffix(file, ".template.json") {
				continue
			}
			var v any
			if err := json.Unmarshal(b, &v); err != nil {
				t.Fatal(err)
			}
			for _, finding := range findings(v) {
				t.Errorf("%s: %s", name, finding)
			}
		}
	}
}

// findings are the messages attached to the constructs of an assembly.
func findings(v any) (out []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			out = append(out, findings(e)...)
		}
	case map[string]any:
		if kind, _ := v["type"].(string); kind == "aws:cdk:error" || kind == "aws:cdk:warning" {
			text, _ := v["data"].(string)
			out = append(out, text)
		}
		for _, e := range v {
			out = append(out, findings(e)...)
		}
	}
	return out
}

func TestEverySuppressionSaysWhy(t *testing.T) {
	for _, file := range []string{"data", "watch", "functions", "edge"} {
		var v any
		if err := json.Unmarshal(synth(t, standard).masked(t, file), &v); err != nil {
			t.Fatal(err)
		}
		walk(v, "", func(key, text string) {
			if key == "reason" && len(text) < 40 {
				t.Errorf("%s: %q, want a sentence", file, text)
			}
		})
	}
}

func TestOutputsAreWhatTheCommandLineReads(t *testing.T) {
	for _, test := range []struct {
		stack   string
		context map[string]any
		want    []string
	}{
		{"data", standard, []string{"Blobs", "Docs", "DocsStream", "HostKey", "Rows", "RowsStream", "SealKey", "Settings", "Version"}},
		{"data", bare, []string{"Blobs", "Docs", "DocsStream", "Rows", "RowsStream", "SealKey", "Settings", "Version"}},
		{"functions", standard, []string{"AdminUrl", "AgentUrl", "EdgeSecret", "ExportUrl", "Gate", "GatewayUrl", "GraduateUrl", "MessageUrl", "RegistryUrl", "SearchUrl", "Settings", "Version", "WebUrl"}},
		{"functions", bare, []string{"AdminUrl", "AgentUrl", "ExportUrl", "Gate", "GatewayUrl", "GraduateUrl", "MessageUrl", "RegistryUrl", "SearchUrl", "Settings", "Version", "WebUrl"}},
		{"edge", standard, []string{"Url", "Version"}},
		{"watch", standard, []string{"AlarmTopic", "Dashboard", "Version"}},
		{"watch", bare, []string{"AlarmTopic", "Version"}},
	} {
		var got []string
		for name := range synth(t, test.context).template(t, test.stack).Outputs {
			if !strings.HasPrefix(name, "ExportsOutput") { // exports between the stacks
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("outputs of %s (-want +got):\n%s", test.stack, diff)
		}
	}
}
