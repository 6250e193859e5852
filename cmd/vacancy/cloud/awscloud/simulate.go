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

func (c *Cloud) Simulate(ctx context.Context) *doctor.Simulation {
	caller, err := c.Caller(ctx)
	if err != nil {
		return &doctor.Simulation{Err: err}
	}
	partition := strings.Split(caller.ARN, ":")[1]
	place := policies.Place{Partition: partition, Region: c.Region(), Account: caller.Account}
	s := &doctor.Simulation{}
	client := iam.NewFromConfig(c.cfg)
	for _, function := range policies.Functions() {
		document, err := policies.Document(function)
		if err != nil {
			return &doctor.Simulation{Err: err}
		}
		calls, err := policies.Calls(function)
		if err != nil {
			return &doctor.Simulation{Err: err}
		}
		for _, call := range calls {
			decided, err := decide(ctx, client, place, place.ReplaceNames(string(document)), call)
			if err != nil {
				return &doctor.Simulation{Err: Problem(err)}
			}
			s.Calls += len(call.Actions)
			for _, action := range call.Actions {
				decision, answered := decided[action]
				if !answered || (decision == types.PolicyEvaluationDecisionTypeAllowed) == call.Denied {
					mismatch := call
					mismatch.Actions = []string{action}
					s.Wrong = append(s.Wrong, strings.Join(strings.Fields(mismatch.String()), " ")+": "+string(decision))
				}
			}
		}
	}
	return s
}

func decide(ctx context.Context, client *iam.Client, place policies.Place, document string, call policies.Call) (map[string]types.PolicyEvaluationDecisionType, error) {
	in := &iam.SimulateCustomPolicyInput{ActionNames: call.Actions, PolicyInputList: []string{document}, ResourceArns: []string{place.ReplaceNames(call.Resource)}}
	for _, key := range slices.Sorted(maps.Keys(call.Keys)) {
		kind := types.ContextKeyTypeEnumString
		if key == "dynamodb:LeadingKeys" || key == "kms:EncryptionContextKeys" {
			kind = types.ContextKeyTypeEnumStringList
		}
		in.ContextEntries = append(in.ContextEntries, types.ContextEntry{ContextKeyName: aws.String(key), ContextKeyType: kind, ContextKeyValues: call.Keys[key]})
	}
	decided := map[string]types.PolicyEvaluationDecisionType{}
	pages := iam.NewSimulateCustomPolicyPaginator(client, in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, r := range page.EvaluationResults {
			decided[aws.ToString(r.EvalActionName)] = r.EvalDecision
		}
	}
	return decided, nil
}
