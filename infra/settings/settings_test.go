package settings_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/setting/settingtest"
)

const (
	arn     = "arn:aws:acm:us-east-1:123456789012:certificate/0a1b2c3d-0000-0000-0000-000000000000"
	version = "0a1b2c3d-0000-0000-0000-000000000000"

	function = "arn:aws:lambda:us-east-1:123456789012:function:answers"
)

func TestAnEmptyContextIsTheDocumentedDefault(t *testing.T) {
	got, err := settings.Read(nil, "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "defaults.golden", indented(t, got))
}

// cdk.json shows people the defaults, to read and to change.
func TestTheFileOfTheAppShowsTheDefaults(t *testing.T) {
	path := filepath.Join("..", "..", "cdk.json")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	for _, row := range setting.Table() {
		if row.Context == "" || row.Default == "" {
			continue
		}
		value := []byte(row.Default)
		if !json.Valid(value) { // numbers, true and false are JSON as they are
			value, _ = json.Marshal(row.Default)
		}
		fmt.Fprintf(&shown, ",\n    %q: %s", row.Context, value)
	}
	before, rest, _ := strings.Cut(string(b), "\"context\": {\n")
	_, after, ok := strings.Cut(rest, "\n  }")
	if !ok {
		t.Fatalf("%s has no context", path)
	}
	settingtest.CompareGolden(t, path, before+"\"context\": {\n"+strings.TrimPrefix(shown.String(), ",\n")+"\n  }"+after, *update)
}

func TestTheREADMEListsTheSettings(t *testing.T) {
	path := filepath.Join("..", "README.md")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table := "| Context | Means | Value | Default |\n|---|---|---|---|\n"
	for _, row := range setting.Table() {
		if row.Context != "" && !row.DeployOnly {
			value := ""
			if row.Default != "" {
				value = "`" + row.Default + "`"
			}
			table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", row.Context, row.Help, row.ExpectedValue(), value)
		}
	}
	const begin, end = "settings -update -->\n", "<!-- end -->"
	before, rest, _ := strings.Cut(string(b), begin)
	_, after, ok := strings.Cut(rest, end)
	if !ok {
		t.Fatalf("%s has no table of settings", path)
	}
	settingtest.CompareGolden(t, path, before+begin+table+end+after, *update)
}

func TestValuesOfTheCommandLineAreText(t *testing.T) {
	got, err := settings.Read(map[string]any{
		"stage": "prod", "arch": "amd64", "edge": "true", "domain": "vacants.example.org", "certificate": arn, "waf": "true",
		"worstDay": "50", "reserve": "false", "limits": "message:3,rowsReads:40000", "rate": "", "pairRate": "0.5:3", "email": "ops@example.org",
		"budget": "7", "modelBudget": "0.5", "mock": "true", "fee": "250", "bookingPrice": "1.5", "keyPrefix": "acme", "agpKeyPrefix": "agp", "bedrockModels": "eu.amazon.nova-lite-v1:0,amazon.nova-lite-v1:0,amazon.nova-lite-v1:0", "tenantFunctions": "acme=" + function + "," + function,
		"keep": "false", "hostKey": "software", "indexSeconds": "5", "dashboard": "false", "retentionDays": "7",
		"edgeSecretVersion": version, "edgeSecretBefore": version, "@aws-cdk/core:flag": true, "cli-telemetry": false,
	}, "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "chosen.golden", indented(t, got))
}

func indented(t *testing.T, s settings.Settings) string {
	t.Helper()
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b) + "\n"
}

// A text such as 0 is a value, while the number 0 is the zero value of a setting.
func TestTextThatLooksLikeZeroReachesFunctions(t *testing.T) {
	for _, text := range []string{"0", "false"} {
		s, err := settings.Read(map[string]any{"keyPrefix": text, "fee": "0", "mock": "false"}, "us-east-1")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.FunctionVariables["VACANCY_KEY_PREFIX"]; got != text {
			t.Errorf("keyPrefix=%s sets VACANCY_KEY_PREFIX=%q, want %q", text, got, text)
		}
		for _, name := range []string{"VACANCY_FEE", "VACANCY_MOCK"} {
			if got, ok := s.FunctionVariables[name]; ok {
				t.Errorf("%s is %q, want it missing", name, got)
			}
		}
	}
}

func TestEachWrongValueIsNamed(t *testing.T) {
	for _, test := range []struct {
		name    string
		context map[string]any
		want    string
	}{
		{"no stage", map[string]any{"stage": ""}, `context value stage: expected 1 to 20 characters of a-z, 0-9 and -, the first a letter, got ""`},
		{"stage in capitals", map[string]any{"stage": "Prod"}, `context value stage: `},
		{"long stage", map[string]any{"stage": strings.Repeat("a", 21)}, `context value stage: `},
		{"stage that is a list", map[string]any{"stage": []any{"dev"}}, `context value stage: expected a text, a number, true or false, got [dev]`},
		{"arch", map[string]any{"arch": "x86_64"}, `context value arch: expected arm64 or amd64, got "x86_64"`},
		{"edge", map[string]any{"edge": "no"}, `context value edge: expected true or false, got "no"`},
		{"waf", map[string]any{"waf": 1}, `context value waf: expected true or false, got "1"`},
		{"keep", map[string]any{"keep": ""}, `context value keep: expected true or false, got ""`},
		{"dashboard", map[string]any{"dashboard": "yes"}, `context value dashboard: `},
		{"domain", map[string]any{"domain": "https://example.org", "certificate": arn}, `context value domain: expected a host name`},
		{"domain without certificate", map[string]any{"domain": "example.org"}, `domain: needs context value certificate`},
		{"certificate without domain", map[string]any{"certificate": arn}, `certificate: needs context value domain`},
		{"certificate elsewhere", map[string]any{"domain": "example.org", "certificate": strings.Replace(arn, "us-east-1", "eu-west-1", 1)}, `context value certificate: expected the ARN of an ACM certificate in us-east-1`},
		{"domain without edge", map[string]any{"domain": "example.org", "certificate": arn, "edge": false}, `domain: needs edge=true`},
		{"web ACL without edge", map[string]any{"waf": true, "edge": false}, `waf: needs edge=true`},
		{"too little", map[string]any{"worstDay": 4}, `context value worstDay: expected at least 12, because even with the lowest limits a day of such a stage in us-east-1 may cost $11.27, got 4`},
		{"too little without an edge", map[string]any{"worstDay": 5, "edge": false}, `context value worstDay: expected at least 17, because`},
		{"part of a number", map[string]any{"worstDay": 10.5}, `context value worstDay: expected a whole number from 1 to 1000000, got "10.5"`},
		{"nothing", map[string]any{"worstDay": "0"}, `context value worstDay: expected a whole number`},
		{"reserve", map[string]any{"reserve": "0"}, `context value reserve: expected true or false, got "0"`},
		{"a limit of no function", map[string]any{"limits": "messages:5"}, `context value limits: expected NAME:NUMBER with one of admin, agent, checkpointer, docsReads, `},
		{"a limit of nothing", map[string]any{"limits": "message:5,rowsReads:0"}, `context value limits: expected rowsReads:NUMBER with 1 to 40000, got "rowsReads:0"`},
		{"a limit above Lambda's", map[string]any{"limits": "message:1001"}, `context value limits: expected message:NUMBER with 1 to 1000, got "message:1001"`},
		{"more of think than message leaves", map[string]any{"limits": "message:4,think:3"}, `context value limits: expected think:2 at most, two less than message`},
		{"a budget of models", map[string]any{"modelBudget": "-1"}, `context value modelBudget: expected USD such as 5 or 0.5, at most 1000000, got "-1"`},
		{"no model", map[string]any{"bedrockModels": "amazon.nova-lite-v1:0,claude"}, `context value bedrockModels: expected ids of models or inference profiles at Bedrock, separated by commas, got "claude"`},
		{"no function", map[string]any{"tenantFunctions": "acme=answers"}, `context value tenantFunctions: expected TENANT=ARN,...`},
		{"no tenant", map[string]any{"tenantFunctions": "=" + function}, `context value tenantFunctions: expected TENANT=ARN,...`},
		{"a mock", map[string]any{"mock": "yes"}, `context value mock: expected true or false, got "yes"`},
		{"budget", map[string]any{"budget": "ten"}, `context value budget: expected a whole number from 1 to 1000000, got "ten"`},
		{"fee", map[string]any{"fee": 10001}, `context value fee: expected a whole number from 0 to 10000, got "10001"`},
		{"a price of bookings", map[string]any{"bookingPrice": "0.255"}, `context value bookingPrice: expected USD in whole cents such as 0.25, 0.01 to 1000, got "0.255"`},
		{"a prefix of keys", map[string]any{"keyPrefix": "Acme"}, `context value keyPrefix: expected 1 to 12 characters of a-z and 0-9, got "Acme"`},
		{"email", map[string]any{"email": "ops"}, `context value email: expected a mail address, got "ops"`},
		{"hostKey", map[string]any{"hostKey": "hsm"}, `context value hostKey: expected kms or software, got "hsm"`},
		{"indexSeconds", map[string]any{"indexSeconds": 301}, `context value indexSeconds: expected a whole number from 0 to 300, got "301"`},
		{"retention of logs", map[string]any{"retentionDays": 2}, `context value retentionDays: expected a number of days that CloudWatch Logs offers`},
		{"rate", map[string]any{"rate": "20"}, `context value rate: expected tokens-per-second:burst such as 20:40`},
		{"rate of no burst", map[string]any{"pairRate": "1:0"}, `context value pairRate: `},
		{"rate of nothing", map[string]any{"rate": "0:5"}, `context value rate: `},
		{"rate of next to nothing", map[string]any{"rate": "0.000:5"}, `context value rate: `},
		{"secret version", map[string]any{"edgeSecretVersion": "AWSCURRENT"}, `context value edgeSecretVersion: expected a version id`},
		{"secret version without edge", map[string]any{"edgeSecretVersion": version, "edge": false}, `edgeSecretVersion: needs edge=true`},
		{"only the secret before", map[string]any{"edgeSecretBefore": version}, `edgeSecretBefore: needs context value edgeSecretVersion`},
		{"a slip", map[string]any{"edeg": false}, "context value edeg: expected one of " + strings.Join(settings.ContextNames(), ", ")},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := settings.Read(test.context, "us-east-1")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Read(%v) = %v, want %s", test.context, err, test.want)
			}
		})
	}
}

func TestAllWrongValuesAreNamedAtOnce(t *testing.T) {
	_, err := settings.Read(map[string]any{"stage": "", "arch": "", "budget": ""}, "us-east-1")
	for _, name := range []string{"stage", "arch", "budget"} {
		if err == nil || !strings.Contains(err.Error(), "context value "+name+": ") {
			t.Errorf("Read() = %v, want a word on %s", err, name)
		}
	}
}

func TestAWebACLLivesInOneRegion(t *testing.T) {
	s := settings.Settings{Values: setting.Values{WAF: true}}
	if err := s.CheckRegion("eu-west-1"); err == nil || !strings.Contains(err.Error(), "waf: expected a stage in us-east-1") {
		t.Errorf("CheckRegion(eu-west-1) = %v, want a refusal that names waf", err)
	}
	if err := s.CheckRegion("us-east-1"); err != nil {
		t.Errorf("CheckRegion(us-east-1) = %v", err)
	}
	if err := (settings.Settings{}).CheckRegion("eu-west-1"); err != nil {
		t.Errorf("CheckRegion(eu-west-1) without a web ACL = %v", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range settings.ContextNames() {
		f.Add(name, "1")
	}
	f.Add("edeg", "\xff")
	f.Fuzz(func(t *testing.T, name, value string) {
		s, err := settings.Read(map[string]any{name: value}, "us-east-1")
		if err == nil && (len(s.Stage) == 0 || len(s.Stage) > 20 || s.Limits[cost.RowsWrites] < 1) {
			t.Errorf("Read({%q: %q}) = %+v, want no settings that cannot be deployed", name, value, s)
		}
	})
}
