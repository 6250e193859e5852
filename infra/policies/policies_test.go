package policies_test

import (
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vacancy-host/vacancy/infra/policies"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/tests/integration/policy"
)

var update = flag.Bool("update", false, "write calls.txt")

func calls(t *testing.T, function string) []policies.Call {
	t.Helper()
	all, err := policies.TestCalls(function)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTheCallsAreAsTheListShows(t *testing.T) {
	want := slices.Sorted(slices.Values(functions.Names()))
	if diff := cmp.Diff(want, policies.Functions()); diff != "" {
		t.Errorf("Functions() (-want +got):\n%s", diff)
	}
	var b strings.Builder
	b.WriteString("# What each function's role allows: go test ./infra/policies -update\n")
	for _, function := range policies.Functions() {
		for _, c := range calls(t, function) {
			if !c.Denied {
				b.WriteString(c.String() + "\n")
			}
		}
	}
	if *update {
		if err := os.WriteFile("calls.txt", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := os.ReadFile("calls.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(listed), b.String()); diff != "" {
		t.Errorf("calls.txt (-want +got):\n%s", diff)
	}
}

func TestThePoliciesDecideEachCallAsListed(t *testing.T) {
	at := policies.Location{Partition: "aws", Region: "eu-west-1", Account: "123456789012"}
	for _, function := range policies.Functions() {
		doc, err := policies.Document(function)
		if err != nil {
			t.Fatal(err)
		}
		filled := at.ReplaceNames(string(doc))
		role, err := policy.Parse([]byte(filled))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(filled, ".Arn") || strings.Contains(filled, "${") {
			t.Errorf("the policy of %s has a name without an ARN:\n%s", function, filled)
		}
		allowed, denied := 0, 0
		var used []policy.Use
		for _, c := range calls(t, function) {
			for _, action := range c.Actions {
				r := policy.Request{Action: action, Resource: at.ReplaceNames(c.Resource), Context: map[string][]string{}}
				for key, values := range c.Keys {
					r.Context[strings.ToLower(key)] = values
				}
				got, by := role.Decide(r)
				if got == c.Denied {
					t.Errorf("%s of %v is allowed: %t", action, c, got)
				}
				if got {
					allowed, used = allowed+1, append(used, by...)
				} else {
					denied++
				}
			}
		}
		if unused := role.Unused(used); len(unused) > 0 || allowed == 0 || denied == 0 {
			t.Errorf("%s: %d calls allowed, %d denied, no call for %v", function, allowed, denied, unused)
		}
	}
}
