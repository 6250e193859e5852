package awscloud

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/iam"
	"github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/vacancy-host/vacancy/cmd/vacancy/doctor"
	"github.com/vacancy-host/vacancy/infra/policies"
)

func (c *Cloud) SimulatePolicies(ctx context.Context) *doctor.Simulation {
	caller, err := c.CallerIdentity(ctx)
	if err != nil {
		return &doctor.Simulation{Err: err}
	}
	partition := strings.Split(caller.ARN, ":")[1]
	location := policies.Location{Partition: partition, Region: c.Region(), Account: caller.Account}
	s := &doctor.Simulation{}
	client := iam.NewFromConfig(c.cfg)
	for _, function := range policies.Functions() {
		document, err := policies.Document(function)
		if err != nil {
			return &doctor.Simulation{Err: err}
		}
		calls, err := policies.TestCalls(function)
		if err != nil {
			return &doctor.Simulation{Err: err}
		}
		for _, call := range calls {
			decisions, err := simulateCall(ctx, client, location, location.ReplaceNames(string(document)), call)
			if err != nil {
				return &doctor.Simulation{Err: ToProblem(err)}
			}
			s.Calls += len(call.Actions)
			for _, action := range call.Actions {
				decision, hasDecision := decisions[action]
				if !hasDecision || (decision == types.PolicyEvaluationDecisionTypeAllowed) == call.Denied {
					mismatch := call
					mismatch.Actions = []string{action}
					s.Mismatches = append(s.Mismatches, strings.Join(strings.Fields(mismatch.String()), " ")+": "+string(decision))
				}
			}
		}
	}
	return s
}

func simulateCall(ctx context.Context, client *iam.Client, location policies.Location, document string, call policies.Call) (map[string]types.PolicyEvaluationDecisionType, error) {
	in := &iam.SimulateCustomPolicyInput{ActionNames: call.Actions, PolicyInputList: []string{document}, ResourceArns: []string{location.ReplaceNames(call.Resource)}}
	for _, key := range slices.Sorted(maps.Keys(call.Keys)) {
		kind := types.ContextKeyTypeEnumString
		if key == "dynamodb:LeadingKeys" || key == "kms:EncryptionContextKeys" {
			kind = types.ContextKeyTypeEnumStringList
		}
		in.ContextEntries = append(in.ContextEntries, types.ContextEntry{ContextKeyName: aws.String(key), ContextKeyType: kind, ContextKeyValues: call.Keys[key]})
	}
	decisions := map[string]types.PolicyEvaluationDecisionType{}
	pages := iam.NewSimulateCustomPolicyPaginator(client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.EvaluationResults {
			decisions[aws.ToString(r.EvalActionName)] = r.EvalDecision
		}
	}
	return decisions, nil
}
