package stacks

import (
	"strconv"
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

	"github.com/vacancy-host/vacancy/shared/front/tamper"
	"github.com/vacancy-host/vacancy/shared/host/registry"
)

// functions are the host's functions and their triggers.
type functions struct {
	stack  awscdk.Stack
	queues queues
	urls   map[string]awslambda.FunctionUrl
	secret awssecretsmanager.Secret // the edge's secret; nil without an edge
}

func newFunctions(app constructs.Construct, in Input, d data) functions {
	f := functions{
		stack: newStack(app, in, "functions", "Vacancy "+in.Settings.Stage+": the functions and their triggers"),
		urls:  map[string]awslambda.FunctionUrl{},
	}
	if in.Settings.Edge {
		f.secret = edgeSecret(f.stack)
		output(f.stack, "EdgeSecret", f.secret.SecretArn(), "secret by which the functions recognise the edge")
	}
	f.queues = newQueues(f.stack, in)
	lost, made := deadLetters(f.stack, in), map[string]awslambda.Function{}
	for _, spec := range table(in.Settings) {
		made[spec.name] = f.add(in, d, spec, lost)
		for _, name := range spec.grants.receives {
			receive(f.stack, in, f.queues[name], name, made[spec.name])
		}
		switch spec.name {
		case "admin":
			schedule(f.stack, in, theCanary, "EverySixHours", awscdk.Duration_Hours(num(6)), made[spec.name], map[string]any{"canary": true})
		case "sweeper":
			// The logical id must not change: CloudFormation would create a second rule with the
			// same physical name before it deletes this one, and the deployment would fail.
			schedule(f.stack, in, "sweeper", "EveryHour", awscdk.Duration_Minutes(num(1)), made[spec.name], nil)
		case "meter":
			schedule(f.stack, in, "meter", "EveryMinuteFold", awscdk.Duration_Minutes(num(1)), made[spec.name], nil)
		case "checkpointer":
			schedule(f.stack, in, "checkpointer", "EveryFiveMinutes", awscdk.Duration_Minutes(num(5)), made[spec.name], nil)
		case "prober":
			schedule(f.stack, in, "prober", "EveryMinute", awscdk.Duration_Minutes(num(1)), made[spec.name], nil)
		case "tamper":
			watchRows(f.stack, d, made[spec.name], lost)
		case "indexer":
			watchDocs(f.stack, in, d, made[spec.name])
		}
	}
	newGate(f.stack, in, made)
	return f
}

// add makes one function. The CDK must not add to its role: table lists all
// grants.
func (f functions) add(in Input, d data, spec function, lost awssqs.IQueue) awslambda.Function {
	role := newRole(f.stack, in, d, spec, lost, f.queues)
	props := &awslambda.FunctionProps{
		FunctionName: str(in.Settings.Name(spec.name)),
		Description:  str(spec.description),
		Runtime:      awslambda.Runtime_PROVIDED_AL2023(), Handler: str("bootstrap"),
		Architecture: architecture(in.Settings.Arch),
		Code:         awslambda.Code_FromAsset(str(in.Zip(spec.name)), nil),
		MemorySize:   num(spec.memory), Timeout: awscdk.Duration_Seconds(num(spec.timeout)),
		Environment: f.environment(in, d, spec),
		Role:        role.WithoutPolicyUpdates(nil),
		// A line for each start and end would double the cost of logs.
		LoggingFormat: awslambda.LoggingFormat_JSON, SystemLogLevelV2: awslambda.SystemLogLevel_WARN,
		ApplicationLogLevelV2: awslambda.ApplicationLogLevel_INFO,
		LogGroup:              awslogs.LogGroup_FromLogGroupName(f.stack, str("Log-"+spec.name), str(in.Settings.LogGroup(spec.name))),
		Tracing:               awslambda.Tracing_PASS_THROUGH,
	}
	if spec.disk > 0 {
		props.EphemeralStorageSize = awscdk.Size_Mebibytes(num(spec.disk))
	}
	if n := in.Settings.Limits[spec.name]; n > 0 && in.Settings.Reserve {
		props.ReservedConcurrentExecutions = num(n)
	}
	if spec.scheduled {
		props.RetryAttempts = num(0) // the next run does what this one did not
	}
	made := awslambda.NewFunction(f.stack, str(spec.name), props)
	named(made, logical(spec.name))
	if spec.url {
		// No AWS signature is required: envelopes are signed, and the function
		// checks the operator's key.
		mode := awslambda.InvokeMode_BUFFERED
		if spec.streams {
			mode = awslambda.InvokeMode_RESPONSE_STREAM
		}
		f.urls[spec.name] = made.AddFunctionUrl(&awslambda.FunctionUrlOptions{AuthType: awslambda.FunctionUrlAuthType_NONE, InvokeMode: mode})
		output(f.stack, logical(spec.name)+"Url", f.urls[spec.name].Url(), "Function URL of "+spec.name)
	}
	return made
}

// environment is the function's environment variables, as far as this stage has
// them.
func (f functions) environment(in Input, d data, spec function) *map[string]*string {
	has := map[string]*string{
		"VACANCY_ROWS": d.rows.TableName(), "VACANCY_DOCS": d.docs.TableName(), "VACANCY_BLOBS": d.blobs.BucketName(),
		"VACANCY_SEAL_KEY": d.seal.KeyArn(),
		"VACANCY_RATE":     str(in.Settings.Rate), "VACANCY_PAIR_RATE": str(in.Settings.PairRate), "VACANCY_READS": str(reads(in.Settings)),
		"VACANCY_PAGE_READS": str(pageReads(in.Settings)), "VACANCY_BYTES": str(largeBodies(in.Settings, spec.name)),
		"VACANCY_TASKS": f.queues[tasksQueue].QueueUrl(), "VACANCY_PUSHES": f.queues[pushesQueue].QueueUrl(),
		"VACANCY_URL": f.publicURL(in), "VACANCY_GATEWAY_URL": f.gatewayURL(in), "VACANCY_GATE": gateARN(f.stack, in),
		"VACANCY_THINK": functionARN(f.stack, in, "think"), "VACANCY_SEARCH": functionARN(f.stack, in, "search"), "VACANCY_ROWS_STREAM": d.rows.TableStreamArn(),
		"VACANCY_BOOKING_PRICE": str(in.Settings.BookingPrice), "VACANCY_KEY_PREFIX": str(in.Settings.KeyPrefix), "VACANCY_AGP_KEY_PREFIX": str(in.Settings.AGPKeyPrefix), "VACANCY_MODEL_BUDGET": str(in.Settings.ModelBudget), "VACANCY_TENANT_FUNCTIONS": str(in.Settings.TenantFunctions),
	}
	if in.Settings.Fee > 0 {
		has["VACANCY_FEE"] = str(strconv.Itoa(in.Settings.Fee))
	}
	if in.Settings.Mock {
		has["VACANCY_MOCK"] = str("true")
	}
	if d.host != nil {
		has["VACANCY_HOST_KEY"] = d.host.KeyArn()
	}
	if f.secret != nil {
		has["VACANCY_EDGE_SECRET"] = secretText(f.secret, in.Settings.EdgeSecretVersion)
		if in.Settings.EdgeSecretBefore != "" {
			has["VACANCY_EDGE_SECRET_BEFORE"] = secretText(f.secret, in.Settings.EdgeSecretBefore)
		}
	}
	env := map[string]*string{"VACANCY_STAGE": str(in.Settings.Stage)}
	for _, name := range spec.environment {
		if v := has[name]; v != nil && *v != "" {
			env[name] = v
		}
	}
	return &env
}

// publicURL is the host's URL, if it is known before the edge exists: not the
// edge's own name, which `vacancy deploy` tells the host, and not to agent, whose URL it is
// without an edge.
func (f functions) publicURL(in Input) *string {
	switch agent := f.urls["agent"]; {
	case in.Settings.Domain != "":
		return str("https://" + in.Settings.Domain)
	case in.Settings.Edge || agent == nil:
		return nil
	default:
		return agent.Url()
	}
}

// gatewayURL is that of accounts and AGP; nil where publicURL is theirs too, and for the
// gateway itself, which has none while it is made.
func (f functions) gatewayURL(in Input) *string {
	gateway := f.urls["gateway"]
	if in.Settings.Domain != "" || in.Settings.Edge || gateway == nil {
		return nil
	}
	return gateway.Url()
}

func architecture(arch string) awslambda.Architecture {
	if arch == "amd64" {
		return awslambda.Architecture_X86_64()
	}
	return awslambda.Architecture_ARM_64()
}

// logical is a function's name as a logical id.
func logical(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// edgeSecret is created by Secrets Manager and read by CloudFormation; no
// template contains it.
func edgeSecret(s awscdk.Stack) awssecretsmanager.Secret {
	secret := awssecretsmanager.NewSecret(s, str("EdgeSecret"), &awssecretsmanager.SecretProps{
		Description:          str("Header value by which the functions recognise CloudFront"),
		GenerateSecretString: &awssecretsmanager.SecretStringGenerator{PasswordLength: num(48), ExcludePunctuation: yes()},
		RemovalPolicy:        awscdk.RemovalPolicy_DESTROY,
	})
	named(secret, "EdgeSecretValue")
	accept(secret, "AwsSolutions-SMG4", "vacancy deploy rotates it with each deployment: edge and functions must change in order, which a rotation by schedule cannot do.")
	return secret
}

// secretText is a reference to a version of the secret. CloudFormation reads
// the secret again only if the reference changes, so a rotation names versions;
// the first deployment has none.
func secretText(secret awssecretsmanager.ISecret, version string) *string {
	options := &awscdk.SecretsManagerSecretOptions{}
	if version != "" {
		options.VersionId = str(version)
	}
	return awscdk.SecretValue_SecretsManager(secret.SecretArn(), options).UnsafeUnwrap()
}

// theCanary is the rule by which admin writes a row that the tamper detector must
// see.
const theCanary = "canary"

// schedule starts a function at intervals, with an event if one is given.
func schedule(s awscdk.Stack, in Input, name, id string, every awscdk.Duration, f awslambda.Function, event map[string]any) {
	rule := awsevents.NewRule(s, str(id), &awsevents.RuleProps{
		RuleName:    str(in.Settings.Name(name)),
		Description: str("starts the " + name),
		Schedule:    awsevents.Schedule_Rate(every),
	})
	named(rule, id)
	props := &awseventstargets.LambdaFunctionProps{}
	if event != nil {
		props.Event = awsevents.RuleTargetInput_FromObject(event)
	}
	rule.AddTarget(awseventstargets.NewLambdaFunction(f, props))
}

// deadLetters keeps events that the tamper detector failed to handle, for two
// weeks. An alarm watches it.
func deadLetters(s awscdk.Stack, in Input) awssqs.Queue {
	q := awssqs.NewQueue(s, str("Lost"), &awssqs.QueueProps{
		QueueName:  str(in.Settings.Name("lost")),
		Encryption: awssqs.QueueEncryption_SQS_MANAGED, EnforceSSL: yes(),
		RetentionPeriod: awscdk.Duration_Days(num(14)),
	})
	named(q, "Lost")
	accept(q, "AwsSolutions-SQS3", "It receives the tamper detector's failures: a person reads it, no function does.")
	return q
}

// watchRows feeds the tamper detector with changes and removals of rows, and with
// canaries. Lambda filters other new rows without charge.
func watchRows(s awscdk.Stack, d data, f awslambda.Function, lost awssqs.IQueue) {
	m := awslambda.NewEventSourceMapping(s, str("RowsChanged"), &awslambda.EventSourceMappingProps{
		Target: f, EventSourceArn: d.rows.TableStreamArn(),
		StartingPosition: awslambda.StartingPosition_TRIM_HORIZON,
		Filters: &[]*map[string]any{awslambda.FilterCriteria_Filter(&map[string]any{
			"eventName": awslambda.FilterRule_Or(str("MODIFY"), str("REMOVE"))}), awslambda.FilterCriteria_Filter(&map[string]any{
			"eventName": awslambda.FilterRule_IsEqual(str("INSERT")),
			"dynamodb":  map[string]any{"Keys": map[string]any{"pk": map[string]any{"B": awslambda.FilterRule_IsEqual(str(tamper.Canary))}}}})},
		BatchSize: num(100), BisectBatchOnError: yes(), RetryAttempts: num(10),
		OnFailure: awslambdaeventsources.NewSqsDlq(lost),
	})
	named(m, "RowsChanged")
}

// watchDocs starts the indexer when registrations change: after a thousand
// changes, or after a while. Lambda filters other documents. Records say only
// that something changed: the indexer reads the changes since its last index,
// so a failure loses none.
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
	named(m, "RegistrationsChanged")
}
