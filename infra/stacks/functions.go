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

// functionStack contains the host's functions and their triggers.
type functionStack struct {
	stack  awscdk.Stack
	queues queues
	urls   map[functions.Function]awslambda.FunctionUrl
	secret awssecretsmanager.Secret // the edge's secret, or nil if the edge is off
}

func newFunctions(app constructs.Construct, in Input, d data) functionStack {
	f := functionStack{
		stack: newStack(app, in, "functions", "Vacancy "+in.Settings.Stage+": the functions and their triggers"),
		urls:  map[functions.Function]awslambda.FunctionUrl{},
	}
	if in.Settings.Edge {
		f.secret = edgeSecret(f.stack)
		output(f.stack, "EdgeSecret", f.secret.SecretArn(), "secret by which the functions recognise the edge")
	}
	f.queues = newQueues(f.stack, in)
	lost, allowed, made := deadLetters(f.stack, in), allGrants(in.Settings), map[functions.Function]awslambda.Function{}
	for _, row := range functions.All() {
		made[row] = f.add(in, d, row, allowed, lost)
		for _, queue := range row.Receives() {
			addQueueTrigger(f.stack, in, f.queues[queue], queue, made[row])
		}
		if row.Every > 0 {
			schedule(f.stack, in, row, made[row])
		}
		switch row.Stream {
		case functions.Rows:
			watchRows(f.stack, d, made[row], lost)
		case functions.Docs:
			watchDocs(f.stack, in, d, made[row])
		}
	}
	newGate(f.stack, in, made)
	output(f.stack, setting.StoredOutput, str(setting.FormatStored(in.Settings.Stored)), storedDescription)
	return f
}

func (f functionStack) add(in Input, d data, row functions.Function, allowed map[functions.Function]grants, lost awssqs.IQueue) awslambda.Function {
	role := newRole(f.stack, in, d, row, allowed[row], lost, f.queues)
	props := &awslambda.FunctionProps{
		FunctionName: str(in.Settings.Name(row.Name)),
		Description:  str(row.Description),
		Runtime:      awslambda.Runtime_PROVIDED_AL2023(), Handler: str("bootstrap"),
		Architecture: architecture(in.Settings.Arch),
		Code:         awslambda.Code_FromAsset(str(in.Zip(row.Name)), nil),
		MemorySize:   num(row.Memory), Timeout: awscdk.Duration_Seconds(num(row.Timeout)),
		Environment: f.environment(in, d, row),
		// The CDK must not extend the role, because allGrants lists all grants.
		Role: role.WithoutPolicyUpdates(nil),
		// A log line for each start and end would double the cost of logs.
		LoggingFormat: awslambda.LoggingFormat_JSON, SystemLogLevelV2: awslambda.SystemLogLevel_WARN,
		ApplicationLogLevelV2: awslambda.ApplicationLogLevel_INFO,
		LogGroup:              awslogs.LogGroup_FromLogGroupName(f.stack, str("Log-"+row.Name), str(in.Settings.LogGroup(row.Name))),
		Tracing:               awslambda.Tracing_PASS_THROUGH,
	}
	if row.Disk > 0 {
		props.EphemeralStorageSize = awscdk.Size_Mebibytes(num(row.Disk))
	}
	if n := in.Settings.Limits[row.Name]; n > 0 && in.Settings.Reserve {
		props.ReservedConcurrentExecutions = num(n)
	}
	if isRecursive(row, allowed) {
		// Lambda would stop the 17th message in a chain of messages that cause each other. Reserved
		// concurrency, the age of a task and the receive count of a message limit these chains
		// instead.
		props.RecursiveLoop = awslambda.RecursiveLoop_ALLOW
	}
	if row.IsScheduled() {
		props.RetryAttempts = num(0) // the next run does the work
	}
	made := awslambda.NewFunction(f.stack, str(row.Name), props)
	setLogicalID(made, logical(row.Name))
	if row.URL {
		// No AWS signature is required, because envelopes are signed and the function checks the
		// operator's key.
		mode := awslambda.InvokeMode_BUFFERED
		if row.Streams {
			mode = awslambda.InvokeMode_RESPONSE_STREAM
		}
		f.urls[row] = made.AddFunctionUrl(&awslambda.FunctionUrlOptions{AuthType: awslambda.FunctionUrlAuthType_NONE, InvokeMode: mode})
		output(f.stack, row.URLOutput(), f.urls[row].Url(), "Function URL of "+row.Name)
	}
	return made
}

func architecture(arch string) awslambda.Architecture {
	if arch == "amd64" {
		return awslambda.Architecture_X86_64()
	}
	return awslambda.Architecture_ARM_64()
}

func logical(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

func edgeSecret(s awscdk.Stack) awssecretsmanager.Secret {
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

// secretText returns a reference to a version of the secret. If version is "", it refers to the current
// version, as in the first deployment. A rotation passes the id of the new version, because
// CloudFormation reads the secret again only if the reference changes.
func secretText(secret awssecretsmanager.ISecret, version string) *string {
	options := &awscdk.SecretsManagerSecretOptions{}
	if version != "" {
		options.VersionId = str(version)
	}
	return awscdk.SecretValue_SecretsManager(secret.SecretArn(), options).UnsafeUnwrap()
}

// formerRules maps rule names to logical ids that are not derived from the name. The ids must not change,
// because CloudFormation would create a second rule with the same physical name before it deletes the
// first, and the deployment would fail.
var formerRules = map[string]string{
	"canary": "EverySixHours", "sweeper": "EveryHour", "meter": "EveryMinuteFold", "checkpointer": "EveryFiveMinutes", "prober": "EveryMinute",
}

func schedule(s awscdk.Stack, in Input, row functions.Function, f awslambda.Function) {
	id := formerRules[row.RuleName()]
	if id == "" {
		id = logical(row.RuleName()) + "Rule"
	}
	rule := awsevents.NewRule(s, str(id), &awsevents.RuleProps{
		RuleName:    str(in.Settings.Name(row.RuleName())),
		Description: str("starts the " + row.RuleName()),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(num(row.Every))),
	})
	setLogicalID(rule, id)
	props := &awseventstargets.LambdaFunctionProps{}
	if row.Event != "" {
		var event map[string]any
		if err := json.Unmarshal([]byte(row.Event), &event); err != nil {
			panic(err) // the event in the table of functions is not JSON
		}
		props.Event = awsevents.RuleTargetInput_FromObject(event)
	}
	rule.AddTarget(awseventstargets.NewLambdaFunction(f, props))
}

func deadLetters(s awscdk.Stack, in Input) awssqs.Queue {
	q := awssqs.NewQueue(s, str("Lost"), &awssqs.QueueProps{
		QueueName:  str(in.Settings.Name("lost")),
		Encryption: awssqs.QueueEncryption_SQS_MANAGED, EnforceSSL: yes(),
		RetentionPeriod: awscdk.Duration_Days(num(14)),
	})
	setLogicalID(q, "Lost")
	suppressRule(q, "AwsSolutions-SQS3", "It receives the tamper detector's failures: a person reads it, no function does.")
	return q
}

func watchRows(s awscdk.Stack, d data, f awslambda.Function, lost awssqs.IQueue) {
	m := awslambda.NewEventSourceMapping(s, str("RowsChanged"), &awslambda.EventSourceMappingProps{
		Target: f, EventSourceArn: d.rows.TableStreamArn(),
		StartingPosition: awslambda.StartingPosition_TRIM_HORIZON,
		// The function gets changes, removals and canary rows. Lambda drops other new rows free of charge.
		Filters: &[]*map[string]any{awslambda.FilterCriteria_Filter(&map[string]any{
			"eventName": awslambda.FilterRule_Or(str("MODIFY"), str("REMOVE"))}), awslambda.FilterCriteria_Filter(&map[string]any{
			"eventName": awslambda.FilterRule_IsEqual(str("INSERT")),
			"dynamodb":  map[string]any{"Keys": map[string]any{"pk": map[string]any{"B": awslambda.FilterRule_IsEqual(str(tamper.Canary))}}}})},
		BatchSize: num(100), BisectBatchOnError: yes(), RetryAttempts: num(10),
		OnFailure: awslambdaeventsources.NewSqsDlq(lost),
	})
	setLogicalID(m, "RowsChanged")
}

// watchDocs starts the indexer when registrations change: after a thousand changes, or IndexSeconds
// after the first one. Lambda drops changes of other documents. The indexer itself reads the changes
// since its last index, so a failed invocation loses no change.
func watchDocs(s awscdk.Stack, in Input, d data, f awslambda.Function) {
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
