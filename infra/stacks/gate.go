package stacks

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"

	"github.com/vacancy-host/vacancy/infra/asl"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

const gateName = "gate"

// gateARN builds the ARN from the name, because the functions that use the machine are created
// first.
func gateARN(s awscdk.Stack, in Input) *string {
	return s.FormatArn(&awscdk.ArnComponents{
		Service: str("states"), Resource: str("stateMachine"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME, ResourceName: str(in.Settings.ResourceName(gateName))})
}

// gateLogGroup uses the prefix /aws/vendedlogs/. Step Functions adds log groups with other names to
// a resource policy of the account, which has room for only a few stages.
func gateLogGroup(in Input) string {
	return "/aws/vendedlogs/states/" + in.Settings.ResourceName(gateName)
}

func executionsARN(s awscdk.Stack, in Input) *string {
	return s.FormatArn(&awscdk.ArnComponents{
		Service: str("states"), Resource: str("execution"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME, ResourceName: str(in.Settings.ResourceName(gateName) + ":*")})
}

func gateStatements(s awscdk.Stack, in Input, g grants) (out []awsiam.PolicyStatement) {
	for _, operation := range g.gateOperations {
		resourceARN := executionsARN
		if operation == "StartExecution" {
			resourceARN = gateARN
		}
		out = append(out, newStatement("Gate"+operation, awsiam.Effect_ALLOW, "states", []string{operation}, resourceARN(s, in), nil))
	}
	return out
}

// newGate creates a machine of the type Standard, which runs each step at least once. Steps must
// therefore be idempotent.
func newGate(s awscdk.Stack, in Input, lambdas map[functions.Function]awslambda.Function) {
	machine := asl.GateMachine(gate.Steps())
	text, err := machine.JSON()
	if err != nil {
		panic(err)
	}
	substitutions, arns := map[string]*string{}, []*string{}
	for _, f := range functions.All() {
		if f.IsGateStep {
			substitutions[asl.SubstitutionName(f.Name)] = lambdas[f].FunctionArn()
			arns = append(arns, lambdas[f].FunctionArn())
		}
	}
	m := awsstepfunctions.NewCfnStateMachine(s, str("Gate"), &awsstepfunctions.CfnStateMachineProps{
		StateMachineName: str(in.Settings.ResourceName(gateName)), StateMachineType: str("STANDARD"),
		DefinitionString: &text, DefinitionSubstitutions: &substitutions,
		RoleArn: newGateRole(s, in, &arns).RoleArn(),
		LoggingConfiguration: &awsstepfunctions.CfnStateMachine_LoggingConfigurationProperty{
			Level: str("ALL"), IncludeExecutionData: flag(false), // the log must not contain data
			Destinations: []any{&awsstepfunctions.CfnStateMachine_LogDestinationProperty{
				CloudWatchLogsLogGroup: &awsstepfunctions.CfnStateMachine_CloudWatchLogsLogGroupProperty{
					LogGroupArn: s.FormatArn(&awscdk.ArnComponents{
						Service: str("logs"), Resource: str("log-group"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
						ResourceName: str(gateLogGroup(in) + ":*")})}}},
		},
	})
	m.OverrideLogicalId(str("Gate"))
	suppressRule(m, "AwsSolutions-SF2", "Its functions pass traces on and sample none. The history of an execution shows its steps and their times.")
	addOutput(s, "Gate", m.AttrArn(), "state machine of the gate")
}

func newGateRole(s awscdk.Stack, in Input, steps *[]*string) awsiam.Role {
	sourceConditions := map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": s.Account()}, "ArnLike": map[string]any{"aws:SourceArn": gateARN(s, in)}}
	statements := []awsiam.PolicyStatement{
		awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Sid: str("Steps"), Actions: strs("lambda:InvokeFunction"), Resources: steps}),
		// IAM has no resource for log delivery.
		awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Sid: str("LogDelivery"), Resources: strs("*"),
			Actions: strs("logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery", "logs:DeleteLogDelivery", "logs:ListLogDeliveries",
				"logs:PutResourcePolicy", "logs:DescribeResourcePolicies", "logs:DescribeLogGroups")}),
	}
	r := awsiam.NewRole(s, str("Role-"+gateName), &awsiam.RoleProps{
		RoleName:    str(roleName(s, in, gateName)),
		Description: str("Vacancy " + in.Settings.Stage + ": the gate's state machine"),
		AssumedBy:   awsiam.NewServicePrincipal(str("states.amazonaws.com"), &awsiam.ServicePrincipalOpts{Conditions: &sourceConditions}),
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"machine": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &statements})},
	})
	setLogicalID(r, "GateRole")
	suppressRule(r, "AwsSolutions-IAM5", "CloudWatch offers no resource for the delivery of a log, which Step Functions sets up in this role's name.")
	return r
}
