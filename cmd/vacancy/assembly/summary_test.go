package assembly_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/cmd/vacancy/assembly"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func project(t *testing.T, name string) assembly.Template {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "infra", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	tpl, err := assembly.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	return tpl
}

func TestTheProjectOpensFunctionURLsAndNothingElseWithoutACondition(t *testing.T) {
	var want []assembly.Opening
	for _, f := range []string{"vacancy-dev-admin", "vacancy-dev-agent", "vacancy-dev-export", "vacancy-dev-gateway", "vacancy-dev-graduate", "vacancy-dev-message", "vacancy-dev-registry", "vacancy-dev-search", "vacancy-dev-web"} {
		want = append(want, assembly.Opening{Resource: f, Actions: []string{"lambda:InvokeFunction"}, ByURL: true}, assembly.Opening{Resource: f, Actions: []string{"lambda:InvokeFunctionUrl"}, ByURL: true})
	}
	stack := project(t, "functions")
	if diff := cmp.Diff(want, stack.Openings()); diff != "" {
		t.Errorf("Openings() of functions (-want +got):\n%s", diff)
	}
	var roles []string
	for _, f := range slices.Sorted(slices.Values(append(functions.Names(), "gate"))) {
		roles = append(roles, "vacancy-dev-"+f+"-us-east-1")
	}
	if diff := cmp.Diff(roles, stack.Roles()); diff != "" {
		t.Errorf("Roles() of functions (-want +got):\n%s", diff)
	}
	key := []assembly.Opening{{Resource: "AtRestKey", Actions: []string{"kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:CreateGrant", "kms:DescribeKey"},
		Where: []string{"kms:CallerAccount", "kms:ViaService"}}}
	if diff := cmp.Diff(key, project(t, "data").Openings()); diff != "" {
		t.Errorf("Openings() of data (-want +got):\n%s", diff)
	}
	for _, name := range []string{"watch", "edge", "edge-domain-waf"} {
		if got := project(t, name).Openings(); got != nil {
			t.Errorf("Openings() of %s = %v, want none", name, got)
		}
	}
}

func TestEveryWayOfOpeningIsFound(t *testing.T) {
	statement := func(s string) string {
		return `"X":{"Type":"AWS::SNS::TopicPolicy","Properties":{"PolicyDocument":{"Statement":[` + s + `]}}}`
	}
	for name, tc := range map[string]struct {
		resources string
		want      []assembly.Opening
	}{
		"a star":              {statement(`{"Effect":"Allow","Principal":"*","Action":"a:B"}`), []assembly.Opening{{"X", []string{"a:B"}, false, nil}}},
		"a star as AWS":       {statement(`{"Effect":"Allow","Principal":{"AWS":"*"},"Action":["a:B","a:C"]}`), []assembly.Opening{{"X", []string{"a:B", "a:C"}, false, nil}}},
		"a star among others": {statement(`{"Effect":"Allow","Principal":{"AWS":["1",{"Ref":"Y"},"*"]},"Action":"a:B"}`), []assembly.Opening{{"X", []string{"a:B"}, false, nil}}},
		"all but somebody":    {statement(`{"Effect":"Allow","NotPrincipal":{"AWS":"1"},"Action":"a:B"}`), []assembly.Opening{{"X", []string{"a:B"}, false, nil}}},
		"all but an action":   {statement(`{"Effect":"Allow","Principal":"*","NotAction":"a:B"}`), []assembly.Opening{{"X", []string{"all but", "a:B"}, false, nil}}},
		"a condition":         {statement(`{"Effect":"Allow","Principal":"*","Action":"a:B","Condition":{"StringEquals":{"c:D":1,"c:B":2},"Bool":{"c:C":true},"x":1}}`), []assembly.Opening{{"X", []string{"a:B"}, false, []string{"c:B", "c:C", "c:D"}}}},
		"a refusal":           {statement(`{"Effect":"Deny","Principal":"*","Action":"a:B"}`), nil},
		"a service":           {statement(`{"Effect":"Allow","Principal":{"Service":"x.amazonaws.com"},"Action":"a:B"}`), nil},
		"no principal":        {statement(`{"Effect":"Allow","Action":"*","Resource":"*"}`), nil},
		"one statement alone": {`"X":{"Type":"T","Properties":{"KeyPolicy":{"Statement":{"Effect":"Allow","Principal":"*","Action":"a:B"}}}}`, []assembly.Opening{{"X", []string{"a:B"}, false, nil}}},
		"another's function":  {`"P":{"Type":"AWS::Lambda::Permission","Properties":{"Action":"a:B","Principal":"*","FunctionName":"arn:x"}}`, []assembly.Opening{{"arn:x", []string{"a:B"}, false, nil}}},
		"a rule's function":   {`"P":{"Type":"AWS::Lambda::Permission","Properties":{"Action":"a:B","Principal":"events.amazonaws.com","FunctionName":"f"}}`, nil},
	} {
		if diff := cmp.Diff(tc.want, parse(t, tc.resources).Openings()); diff != "" {
			t.Errorf("%s: Openings() (-want +got):\n%s", name, diff)
		}
	}
}

func TestResourcesAreCountedByType(t *testing.T) {
	want := []assembly.Count{{"AWS::DynamoDB::GlobalTable", 1}, {"AWS::KMS::Key", 2}}
	if diff := cmp.Diff(want, parse(t, `"A":`+key+`,"B":`+table+`,"C":`+key).Counts()); diff != "" {
		t.Errorf("Counts() (-want +got):\n%s", diff)
	}
}
