package stacks_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	table "github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func TestTemplatesAreAsTheGoldenFilesShow(t *testing.T) {
	for _, g := range []struct {
		stack, file string
		context     map[string]any
	}{
		{"data", "data.json", standard}, {"functions", "functions.json", standard}, {"edge", "edge.json", standard},
		{"watch", "watch.json", mailed}, {"edge", "edge-domain-waf.json", full},
	} {
		golden(t, filepath.Join("..", "testdata", g.file), synth(t, g.context).masked(t, g.stack))
	}
}

func TestPoliciesAreAsTheGoldenFilesShow(t *testing.T) {
	functions := synth(t, standard).template(t, "functions")
	for _, name := range table.Names() {
		golden(t, filepath.Join("..", "policies", name+".json"), pretty(t, readable(policy(t, functions, name))))
	}
}

// policy lists everything that a function's role may do.
func policy(t *testing.T, functions template, name string) map[string]any {
	t.Helper()
	id := strings.ToUpper(name[:1]) + name[1:] + "Role"
	policies, _ := functions.Resources[id].Properties["Policies"].([]any)
	if len(policies) != 1 || functions.Resources[id].Properties["ManagedPolicyArns"] != nil || len(functions.of("AWS::IAM::Policy")) > 0 {
		t.Fatalf("role %s has %d inline policies and others beside, want one", id, len(policies))
	}
	return at(policies[0], "PolicyDocument").(map[string]any)
}

var (
	attribute = regexp.MustCompile(`^vacancy-dev-([a-z]+):ExportsOutputFnGetAtt(\w+?)(StreamArn|Arn)[0-9A-F]{8}$`)
	reference = regexp.MustCompile(`^vacancy-dev-([a-z]+):ExportsOutputRef(\w+)[0-9A-F]{8}$`)
)

// readable replaces CloudFormation's functions by names: data.Rows.Arn is the
// ARN of the resource Rows of the stack data.
func readable(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = readable(v[i])
		}
		return out
	case map[string]any:
		if text, ok := call(v); ok {
			return text
		}
		out := map[string]any{}
		for k := range v {
			out[k] = readable(v[k])
		}
		return out
	}
	return v
}

// call renders one of CloudFormation's functions.
func call(v map[string]any) (string, bool) {
	if len(v) != 1 {
		return "", false
	}
	if name, ok := v["Ref"].(string); ok {
		return "${" + name + "}", true
	}
	if name, ok := v["Fn::ImportValue"].(string); ok {
		name = attribute.ReplaceAllString(name, "$1.$2.$3")
		return reference.ReplaceAllString(name, "$1.$2"), true
	}
	if pair, ok := v["Fn::GetAtt"].([]any); ok {
		return "functions." + pair[0].(string) + "." + pair[1].(string), true
	}
	if parts, ok := at(v["Fn::Join"], 1).([]any); ok {
		text := ""
		for _, p := range parts {
			text += readable(p).(string)
		}
		return text, true
	}
	return "", false
}
