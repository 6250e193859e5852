package awscloud_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud/cloudtest"
	"github.com/vacancy-host/vacancy/infra/policies"
	"github.com/vacancy-host/vacancy/shared/problem"
	"github.com/vacancy-host/vacancy/tests/integration/policy"
)

// members are the values of a list in a request.
func members(r cloudtest.Request, list string) (values []string) {
	for i := 1; r.Form.Has(fmt.Sprintf("%s.member.%d", list, i)); i++ {
		values = append(values, r.Form.Get(fmt.Sprintf("%s.member.%d", list, i)))
	}
	return values
}

// simulator answers as AWS's documentation describes, except for the actions of wrong: AWS decides those otherwise.
func simulator(t *testing.T, wrong string) func(cloudtest.Request) cloudtest.Reply {
	return func(r cloudtest.Request) cloudtest.Reply {
		documents, resources := members(r, "PolicyInputList"), members(r, "ResourceArns")
		if len(documents) != 1 || len(resources) != 1 || !strings.HasPrefix(resources[0], "arn:aws:") && resources[0] != "*" {
			t.Errorf("SimulateCustomPolicy was asked about %d policies and the resources %q", len(documents), resources)
			return cloudtest.Reply{Code: "InvalidInput"}
		}
		role, err := policy.Parse([]byte(documents[0]))
		if err != nil {
			t.Error(err)
			return cloudtest.Reply{Code: "PolicyEvaluation"}
		}
		keys := map[string][]string{}
		for i := 1; r.Form.Has(fmt.Sprintf("ContextEntries.member.%d.ContextKeyName", i)); i++ {
			entry := fmt.Sprintf("ContextEntries.member.%d.", i)
			values := members(r, entry+"ContextKeyValues")
			if len(values) > 1 && r.Form.Get(entry+"ContextKeyType") != "stringList" {
				t.Errorf("%s has %d values and the type %s", r.Form.Get(entry+"ContextKeyName"), len(values), r.Form.Get(entry+"ContextKeyType"))
			}
			keys[strings.ToLower(r.Form.Get(entry+"ContextKeyName"))] = values
		}
		results := ""
		for _, action := range members(r, "ActionNames") {
			allowed, _ := role.Decide(policy.Request{Action: action, Resource: resources[0], Context: keys})
			if action == wrong {
				allowed = !allowed
			}
			decision := map[bool]string{true: "allowed", false: "implicitDeny"}[allowed]
			results += "<member><EvalActionName>" + action + "</EvalActionName><EvalResourceName>" + resources[0] + "</EvalResourceName><EvalDecision>" + decision + "</EvalDecision></member>"
		}
		return cloudtest.Reply{Body: "<SimulateCustomPolicyResponse><SimulateCustomPolicyResult><IsTruncated>false</IsTruncated><EvaluationResults>" + results + "</EvaluationResults></SimulateCustomPolicyResult></SimulateCustomPolicyResponse>"}
	}
}

func TestAWSIsAskedAboutEveryCall(t *testing.T) {
	server, c := recorded(t)
	server.SetAccount("123456789012")
	server.SetResponder("SimulateCustomPolicy", simulator(t, ""))
	want := 0
	for _, function := range policies.Functions() {
		calls, err := policies.TestCalls(function)
		must(t, err)
		for _, call := range calls {
			want += len(call.Actions)
		}
	}
	s := c.SimulatePolicies(t.Context())
	if s.Err != nil || len(s.Mismatches) > 0 || s.Calls != want || want < 500 {
		t.Errorf("SimulatePolicies() = %d calls, %q, %v; want %d, all as intended", s.Calls, s.Mismatches, s.Err, want)
	}
	t.Logf("%d calls in %d requests", s.Calls, len(server.Requests("SimulateCustomPolicy")))

	server.SetResponder("SimulateCustomPolicy", simulator(t, "dynamodb:DescribeStream"))
	s = c.SimulatePolicies(t.Context())
	if got := strings.Join(s.Mismatches, "\n"); s.Err != nil || !slices.Contains(s.Mismatches, "meter dynamodb:DescribeStream on data.Rows.StreamArn: implicitDeny") || len(s.Mismatches) != 3 {
		t.Errorf("SimulatePolicies() where AWS denies a call = %s, %v", got, s.Err)
	}
	server.SetError("SimulateCustomPolicy", "AccessDenied", "User is not authorized to perform: iam:SimulateCustomPolicy")
	if s = c.SimulatePolicies(t.Context()); !problem.Is(s.Err, problem.Forbidden) {
		t.Errorf("SimulatePolicies() without the right = %v, want Forbidden", s.Err)
	}
}
