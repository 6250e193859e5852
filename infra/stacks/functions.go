package stacks

import (
	"encoding/json"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambdaeventsources"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/front/tamper"
	"github.com/vacancy-host/vacancy/shared/host/registry"
)

type functionStack struct {
	stack        awscdk.Stack
	queues       queuesByName
	functionURLs map[functions.Function]awslambda.FunctionUrl
	edgeSecret   awssecretsmanager.Secret // nil if the stage has no edge
}

func newFunctionStack(app constructs.Construct, in Input, d dataStack) functionStack {
	f := functionStack{
		stack:        newStack(app, in, "functions", "Vacancy "+in.Settings.Stage+": the functions and their triggers"),
		functionURLs: map[functions.Function]awslambda.FunctionUrl{},
	}
	if in.Settings.HasEdge {
		f.edgeSecret = newEdgeSecret(f.stack)
		addOutput(f.stack, "EdgeSecret", f.edgeSecret.SecretArn(), "secret by which the functions recognise the edge")
	}
	f.queues = newQueues(f.stack, in)
	lostQueue, grantsByFunction, lambdas := newLostQueue(f.stack, in), allGrants(in.Settings), map[functions.Function]awslambda.Function{}
	for _, spec := range functions.All() {
		lambdas[spec] = f.addFunction(in, d, spec, grantsByFunction, lostQueue)
		for _, queue := range spec.QueueNames() {
			addQueueTrigger(f.stack, in, f.queues[queue], queue, lambdas[spec])
		}
		if spec.EveryMinutes > 0 {
			addSchedule(f.stack, in, spec, lambdas[spec])
		}
		switch spec.SourceTable {
		case functions.RowsTable:
			addRowsTrigger(f.stack, d, lambdas[spec], lostQueue)
		case functions.DocsTable:
			addDocsTrigger(f.stack, in, d, lambdas[spec])
		}
	}
	newGate(f.stack, in, lambdas)
	addOutput(f.stack, setting.StoredOutput, str(setting.FormatStored(in.Settings.StoredContext)), storedOutputDescription)
	return f
}

func (f functionStack) addFunction(in Input, d dataStack, spec functions.Function, grantsByFunction map[functions.Function]grants, lostQueue awssqs.IQueue) awslambda.Function {
	role := newRole(f.stack, in, d, spec, grantsByFunction[spec], lostQueue, f.queues)
	props := &awslambda.FunctionProps{
		FunctionName: str(in.Settings.ResourceName(spec.Name)),
		Description:  str(spec.Description),
		Runtime:      awslambda.Runtime_PROVIDED_AL2023(), Handler: str("bootstrap"),
		Architecture: architecture(in.Settings.Arch),
		Code:         awslambda.Code_FromAsset(str(in.ZipPath(spec.Name)), nil),
		MemorySize:   num(spec.MemoryMB), Timeout: awscdk.Duration_Seconds(num(spec.TimeoutSeconds)),
		Environment: f.environment(in, d, spec),
		// The CDK must not extend the role, because allGrants lists all grants.
		Role: role.WithoutPolicyUpdates(nil),
		// A log line for each start and end would double the cost of logs.
		LoggingFormat: awslambda.LoggingFormat_JSON, SystemLogLevelV2: awslambda.SystemLogLevel_WARN,
		ApplicationLogLevelV2: awslambda.ApplicationLogLevel_INFO,
		LogGroup:              awslogs.LogGroup_FromLogGroupName(f.stack, str("Log-"+spec.Name), str(in.Settings.LogGroup(spec.Name))),
		Tracing:               awslambda.Tracing_PASS_THROUGH,
	}
	if spec.DiskMB > 0 {
		props.EphemeralStorageSize = awscdk.Size_Mebibytes(num(spec.DiskMB))
	}
	if n := in.Settings.Limits[spec.Name]; n > 0 && in.Settings.ReserveConcurrency {
		props.ReservedConcurrentExecutions = num(n)
	}
	if isRecursive(spec, grantsByFunction) {
		// Lambda would stop the 17th message in a chain of messages that cause each other. Reserved
		// concurrency, task age and receive count limit these chains instead.
		props.RecursiveLoop = awslambda.RecursiveLoop_ALLOW
	}
	if spec.IsScheduled() {
		props.RetryAttempts = num(0) // the next run does the work
	}
	fn := awslambda.NewFunction(f.stack, str(spec.Name), props)
	setLogicalID(fn, logicalID(spec.Name))
	if spec.URL {
		// No AWS signature is required, because the function checks envelopes and the operator's
		// key.
		mode := awslambda.InvokeMode_BUFFERED
		if spec.StreamsAnswers {
			mode = awslambda.InvokeMode_RESPONSE_STREAM
		}
		f.functionURLs[spec] = fn.AddFunctionUrl(&awslambda.FunctionUrlOptions{AuthType: awslambda.FunctionUrlAuthType_NONE, InvokeMode: mode})
		addOutput(f.stack, spec.URLOutput(), f.functionURLs[spec].Url(), "Function URL of "+spec.Name)
	}
	return fn
}

func architecture(arch string) awslambda.Architecture {
	if arch == "amd64" {
		return awslambda.Architecture_X86_64()
	}
	return awslambda.Architecture_ARM_64()
}

func logicalID(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

func newEdgeSecret(s awscdk.Stack) awssecretsmanager.Secret {
	// Secrets Manager generates the secret and CloudFormation reads it, so no template contains it.
	secret := awssecretsmanager.NewSecret(s, str("EdgeSecret"), &awssecretsmanager.SecretProps{
		Description:          str("Header value by which the functions recognise CloudFront"),
		GenerateSecretString: &awssecretsmanager.SecretStringGenerator{PasswordLength: num(48), ExcludePunctuation: yes()},
		RemovalPolicy:        awscdk.RemovalPolicy_DESTROY,
	})
	setLogicalID(secret, "EdgeSecretValue")
	suppressRule(secret, "AwsSolutions-SMG4", "vacancy deploy rotates it with each deployment: edge and functions must change in order, which a rotation by schedule cannot do.")
	return secret
}

// secretReference returns a reference to a version of the secret, or to the current version if
// version is "". CloudFormation reads the secret again only if the reference changes.
func secretReference(secret awssecretsmanager.ISecret, version string) *string {
	options := &awscdk.SecretsManagerSecretOptions{}
	if version != "" {
		options.VersionId = str(version)
	}
	return awscdk.SecretValue_SecretsManager(secret.SecretArn(), options).UnsafeUnwrap()
}

// legacyRuleIDs contains logical ids that must not change. CloudFormation would create a second
// rule with the same physical name before it deletes the first, and the deployment would fail.
var legacyRuleIDs = map[string]string{
	"canary": "EverySixHours", "sweeper": "EveryHour", "meter": "EveryMinuteFold", "checkpointer": "EveryFiveMinutes", "prober": "EveryMinute",
}

func addSchedule(s awscdk.Stack, in Input, spec functions.Function, f awslambda.Function) {
	id := legacyRuleIDs[spec.RuleName()]
	if id == "" {
		id = logicalID(spec.RuleName()) + "Rule"
	}
	rule := awsevents.NewRule(s, str(id), &awsevents.RuleProps{
		RuleName:    str(in.Settings.ResourceName(spec.RuleName())),
		Description: str("starts the " + spec.RuleName()),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(num(spec.EveryMinutes))),
	})
	setLogicalID(rule, id)
	props := &awseventstargets.LambdaFunctionProps{}
	if spec.RuleEvent != "" {
		var event map[string]any
		if err := json.Unmarshal([]byte(spec.RuleEvent), &event); err != nil {
			panic(err)
		}
		props.Event = awsevents.RuleTargetInput_FromObject(event)
	}
	rule.AddTarget(awseventstargets.NewLambdaFunction(f, props))
}

func newLostQueue(s awscdk.Stack, in Input) awssqs.Queue {
	q := awssqs.NewQueue(s, str("Lost"), &awssqs.QueueProps{
		QueueName:  str(in.Settings.ResourceName("lost")),
		Encryption: awssqs.QueueEncryption_SQS_MANAGED, EnforceSSL: yes(),
		RetentionPeriod: awscdk.Duration_Days(num(14)),
	})
	setLogicalID(q, "Lost")
	suppressRule(q, "AwsSolutions-SQS3", "It receives the tamper detector's failures: a person reads it, no function does.")
	return q
}

func addRowsTrigger(s awscdk.Stack, d dataStack, f awslambda.Function, lostQueue awssqs.IQueue) {
	m := awslambda.NewEventSourceMapping(s, str("RowsChanged"), &awslambda.EventSourceMappingProps{
		Target: f, EventSourceArn: d.rows.TableStreamArn(),
		StartingPosition: awslambda.StartingPosition_TRIM_HORIZON,
		Filters: &[]*map[string]any{awslambda.FilterCriteria_Filter(&map[string]any{
			"eventName": awslambda.FilterRule_Or(str("MODIFY"), str("REMOVE"))}), awslambda.FilterCriteria_Filter(&map[string]any{
			"eventName": awslambda.FilterRule_IsEqual(str("INSERT")),
			"dynamodb":  map[string]any{"Keys": map[string]any{"pk": map[string]any{"B": awslambda.FilterRule_IsEqual(str(tamper.CanaryKey))}}}})},
		BatchSize: num(100), BisectBatchOnError: yes(), RetryAttempts: num(10),
		OnFailure: awslambdaeventsources.NewSqsDlq(lostQueue),
	})
	setLogicalID(m, "RowsChanged")
}

// addDocsTrigger starts the indexer when registrations change. The indexer itself reads the changes
// since its last index, so a failed invocation loses no change.
func addDocsTrigger(s awscdk.Stack, in Input, d dataStack, f awslambda.Function) {
	m := awslambda.NewEventSourceMapping(s, str("RegistrationsChanged"), &awslambda.EventSourceMappingProps{
		Target: f, EventSourceArn: d.docs.TableStreamArn(),
		StartingPosition: awslambda.StartingPosition_TRIM_HORIZON,
		Filters: &[]*map[string]any{awslambda.FilterCriteria_Filter(&map[string]any{
			"dynamodb": map[string]any{"Keys": map[string]any{"pk": map[string]any{
				"S": awslambda.FilterRule_BeginsWith(str(strings.TrimSuffix(registry.RegistrationDocs.Partition, "*")))}}}})},
		BatchSize: num(1000), MaxBatchingWindow: awscdk.Duration_Seconds(num(in.Settings.IndexSeconds)),
		RetryAttempts: num(3),
	})
	setLogicalID(m, "RegistrationsChanged")
}
