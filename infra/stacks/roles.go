package stacks

import (
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/host/substrate/spend"
	"github.com/vacancy-host/vacancy/shared/host/usage"
	"github.com/vacancy-host/vacancy/shared/host/workspace"
)

func roleName(s awscdk.Stack, in Input, function string) string {
	// Roles are global, so the name includes the Region.
	return in.Settings.ResourceName(function) + "-" + *s.Region()
}

var writeOperations = []string{"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"}

func newRole(s awscdk.Stack, in Input, d dataStack, f functions.Function, g grants, lostQueue awssqs.IQueue, queues queuesByName) awsiam.Role {
	statements := slices.Concat(rowStatements(d, g), docStatements(d, g), keyStatements(d, g),
		indexAndUsageStatements(d, g), fileStatements(d, g), queueStatements(queues, f, g), streamStatements(d, f, g, lostQueue), gateStatements(s, in, g), invokeStatements(s, in, g))
	statements = append(statements, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("OwnLog"), Actions: strs("logs:CreateLogStream", "logs:PutLogEvents"),
		Resources: &[]*string{s.FormatArn(&awscdk.ArnComponents{
			Service: str("logs"), Resource: str("log-group"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
			ResourceName: str(in.Settings.LogGroup(f.Name) + ":log-stream:*")})},
	}))
	id := "Role-" + f.Name
	r := awsiam.NewRole(s, str(id), &awsiam.RoleProps{
		RoleName:    str(roleName(s, in, f.Name)),
		Description: str("Vacancy " + in.Settings.Stage + ": " + f.Description),
		AssumedBy:   awsiam.NewServicePrincipal(str("lambda.amazonaws.com"), nil),
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"function": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &statements})},
	})
	setLogicalID(r, logicalID(f.Name)+"Role")
	suppressRule(r, "AwsSolutions-IAM5", wildcardReason(f, g))
	return r
}

func wildcardReason(f functions.Function, g grants) string {
	reason := "Lambda names the streams in the function's own log group, so that grant ends in a star."
	if len(g.snapshotOperations) > 0 {
		reason += " The archives of the search index have random names below search/."
	}
	if len(g.fileOperations) > 0 {
		reason += " The bytes of files have random names below workspaces/."
	}
	if g.canExportUsage {
		reason += " The usage of days has names of days and accounts below usage/."
	}
	if f.SourceTable != "" {
		reason += " AWS offers no resource for dynamodb:ListStreams."
	}
	if len(g.bedrockModels) > 0 {
		reason += " An inference profile sends requests to its model in any Region of its area."
	}
	if len(g.gateOperations) > 0 {
		reason += " Executions of the gate are named by requests."
	}
	return reason
}

// rowStatements denies changes of rows explicitly, so no later grant can allow them. The policy
// cannot limit the streams to which a function appends, because IAM's conditions on partitions do
// not support binary keys.
func rowStatements(d dataStack, g grants) (out []awsiam.PolicyStatement) {
	tableARN := d.rows.TableArn()
	if len(g.rowOperations) > 0 {
		out = append(out, newStatement("Rows", awsiam.Effect_ALLOW, "dynamodb", g.rowOperations, tableARN, nil))
	}
	denied := slices.Concat(writeOperations[1:], []string{"Scan", "PartiQLSelect"})
	if slices.Contains(g.rowOperations, "Scan") {
		denied = writeOperations
	}
	if !slices.Contains(g.rowOperations, "PutItem") {
		denied = slices.Compact(append([]string{"PutItem"}, denied...))
	}
	return append(out, newStatement("DenyRowMutation", awsiam.Effect_DENY, "dynamodb", denied, tableARN, nil))
}

// docStatements returns one statement per operation with all of its partitions. DynamoDB may ask
// IAM once for all items of a transaction, and a single statement must then allow all of them.
func docStatements(d dataStack, g grants) (out []awsiam.PolicyStatement) {
	tableARN, canPut, canPutAll := d.docs.TableArn(), false, false
	operations, partitions := mergeAccess(g.docAccesses)
	for _, o := range operations {
		out = append(out, newStatement("Docs"+o, awsiam.Effect_ALLOW, "dynamodb", []string{o}, tableARN, partitionConditions(partitions[o])))
		isPut := o == "PutItem"
		canPut, canPutAll = canPut || isPut, canPutAll || isPut && partitions[o] == nil
	}
	if canPutAll { // only think stores the costs of models, and only meter the costs of calls
		out = append(out, newStatement("DenyTotals", awsiam.Effect_DENY, "dynamodb", writeOperations, tableARN,
			map[string]any{"ForAnyValue:StringLike": map[string]any{"dynamodb:LeadingKeys": strs(docKinds{spend.VacantTotalDocs, usage.AllDocs}.partitionPatterns()...)}}))
	}
	if len(g.indexPartitions) > 0 {
		var patterns []string
		for _, partition := range g.indexPartitions {
			patterns = append(patterns, partitionPattern(partition))
		}
		index := awscdk.Fn_Join(str(""), &[]*string{tableARN, str("/index/" + docsIndexName)})
		out = append(out, newStatement("Index", awsiam.Effect_ALLOW, "dynamodb", []string{"Query"}, index, partitionConditions(patterns)))
	}
	if !canPut {
		out = append(out, newStatement("DenyDocMutation", awsiam.Effect_DENY, "dynamodb", writeOperations, tableARN, nil))
	}
	return out
}

// mergeAccess returns nil patterns for an operation on all documents.
func mergeAccess(accessList []docAccess) (operations []string, partitions map[string][]string) {
	partitions = map[string][]string{}
	for _, a := range accessList {
		for _, o := range a.operations {
			if !slices.Contains(operations, o) {
				operations, partitions[o] = append(operations, o), []string{}
			}
			if a.docKinds == nil {
				partitions[o] = nil
			}
			for _, p := range a.docKinds.partitionPatterns() {
				if partitions[o] != nil && !slices.Contains(partitions[o], p) {
					partitions[o] = append(partitions[o], p)
				}
			}
		}
	}
	return operations, partitions
}

// partitionConditions returns the condition for items of some partitions, or nil for all partitions.
// ForAllValues also matches a request without keys, so the operator Null excludes such requests.
func partitionConditions(patterns []string) map[string]any {
	if patterns == nil {
		return nil
	}
	operator := "ForAllValues:StringEquals"
	if slices.ContainsFunc(patterns, func(p string) bool { return strings.Contains(p, "*") }) {
		operator = "ForAllValues:StringLike"
	}
	return map[string]any{
		operator: map[string]any{"dynamodb:LeadingKeys": strs(patterns...)},
		"Null":   map[string]any{"dynamodb:LeadingKeys": "false"},
	}
}

func keyStatements(d dataStack, g grants) (out []awsiam.PolicyStatement) {
	if g.canSeal {
		contextConditions := vacancyContextConditions()
		if g.sealContexts != nil {
			contextConditions["StringLike"] = contextCondition(g.sealContexts...)
		}
		out = append(out, newStatement("Seal", awsiam.Effect_ALLOW, "kms", []string{"Encrypt"}, d.sealKey.KeyArn(), contextConditions))
	}
	if len(g.openContexts) > 0 {
		contextConditions := vacancyContextConditions()
		contextConditions["StringLike"] = contextCondition(g.openContexts...)
		out = append(out, newStatement("Open", awsiam.Effect_ALLOW, "kms", []string{"Decrypt"}, d.sealKey.KeyArn(), contextConditions))
	}
	for _, operation := range g.hostKeyOperations {
		if d.hostKey == nil {
			break
		}
		var conditions map[string]any
		if operation == "Sign" {
			conditions = signingConditions()
		}
		out = append(out, newStatement("Host"+operation, awsiam.Effect_ALLOW, "kms", []string{operation}, d.hostKey.KeyArn(), conditions))
	}
	return out
}

const usageExportPrefix = "usage/"

func indexAndUsageStatements(d dataStack, g grants) []awsiam.PolicyStatement {
	if g.canExportUsage {
		return []awsiam.PolicyStatement{newStatement("Exports", awsiam.Effect_ALLOW, "s3", []string{"PutObject", "GetObject"}, d.blobs.ArnForObjects(str(usageExportPrefix+"*")), nil)}
	}
	return objectStatements(d, "Snapshot", g.snapshotOperations, snapshotPrefix)
}

func fileStatements(d dataStack, g grants) []awsiam.PolicyStatement {
	// A function with files may also list their names, because S3 otherwise answers 403 instead of
	// 404 for an absent name. ListBucket reveals only names.
	return objectStatements(d, "File", g.fileOperations, workspace.BlobPrefix)
}

func objectStatements(d dataStack, sidPrefix string, operations []string, prefix string) []awsiam.PolicyStatement {
	if len(operations) == 0 {
		return nil
	}
	return []awsiam.PolicyStatement{
		newStatement(sidPrefix+"s", awsiam.Effect_ALLOW, "s3", operations, d.blobs.ArnForObjects(str(prefix+"*")), nil),
		newStatement(sidPrefix+"Names", awsiam.Effect_ALLOW, "s3", []string{"ListBucket"}, d.blobs.BucketArn(), map[string]any{
			"StringLikeIfExists": map[string]any{"s3:prefix": prefix + "*"}}),
	}
}

func queueStatements(queues queuesByName, f functions.Function, g grants) (out []awsiam.PolicyStatement) {
	addStatement := func(sid string, names, operations []string) {
		var arns, actions []*string
		for _, name := range names {
			arns = append(arns, queues[name].QueueArn())
		}
		for _, o := range operations {
			actions = append(actions, str("sqs:"+o))
		}
		if len(arns) > 0 {
			out = append(out, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Sid: str(sid), Actions: &actions, Resources: &arns}))
		}
	}
	addStatement("Sends", g.sendQueues, []string{"SendMessage"})
	addStatement("Receives", f.QueueNames(), []string{"ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "ChangeMessageVisibility"})
	return out
}

func streamStatements(d dataStack, f functions.Function, g grants, lostQueue awssqs.IQueue) []awsiam.PolicyStatement {
	if g.canReadRowStream {
		return []awsiam.PolicyStatement{newStatement("Stream", awsiam.Effect_ALLOW, "dynamodb", []string{"DescribeStream", "GetRecords", "GetShardIterator"}, d.streamARN(functions.RowsTable), nil)}
	}
	if f.SourceTable == "" {
		return nil
	}
	out := []awsiam.PolicyStatement{
		newStatement("Stream", awsiam.Effect_ALLOW, "dynamodb", []string{"DescribeStream", "GetRecords", "GetShardIterator"}, d.streamARN(f.SourceTable), nil),
		// IAM cannot restrict ListStreams to a stream.
		newStatement("Streams", awsiam.Effect_ALLOW, "dynamodb", []string{"ListStreams"}, str("*"), nil),
	}
	if f.SourceTable == functions.RowsTable {
		out = append(out, newStatement("Lost", awsiam.Effect_ALLOW, "sqs", []string{"SendMessage"}, lostQueue.QueueArn(), nil))
	}
	return out
}

func invokeStatements(s awscdk.Stack, in Input, g grants) (out []awsiam.PolicyStatement) {
	if g.canInvokeThink {
		out = append(out, newStatement("Think", awsiam.Effect_ALLOW, "lambda", []string{"InvokeFunction"}, functionARN(s, in, functions.Think), nil))
	}
	if g.canInvokeSearch {
		out = append(out, newStatement("Find", awsiam.Effect_ALLOW, "lambda", []string{"InvokeFunction"}, functionARN(s, in, functions.Search), nil))
	}
	if len(g.agentFunctionARNs) > 0 {
		out = append(out, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Sid: str("Functions"), Actions: strs("lambda:InvokeFunction"), Resources: strs(g.agentFunctionARNs...)}))
	}
	var directModels, profiles []*string
	var profileModels []*string
	for _, id := range g.bedrockModels {
		model, isProfile := substrate.FoundationModel(id)
		if !isProfile {
			directModels = append(directModels, bedrockARN(s, *s.Region(), "", "foundation-model", id))
			continue
		}
		profiles = append(profiles, bedrockARN(s, *s.Region(), *s.Account(), "inference-profile", id))
		profileModels = append(profileModels, bedrockARN(s, "*", "", "foundation-model", model))
	}
	addModels := func(sid string, resources []*string, conditions *map[string]any) {
		if len(resources) > 0 {
			out = append(out, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
				Sid: str(sid), Actions: strs("bedrock:InvokeModelWithResponseStream"), Resources: &resources, Conditions: conditions}))
		}
	}
	addModels("Models", directModels, nil)
	addModels("Profiles", profiles, nil)
	addModels("ModelsOfProfiles", profileModels, &map[string]any{"ArnEquals": map[string]any{"bedrock:InferenceProfileArn": profiles}})
	return out
}

func functionARN(s awscdk.Stack, in Input, f functions.Function) *string {
	return s.FormatArn(&awscdk.ArnComponents{Service: str("lambda"), Resource: str("function"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME, ResourceName: str(in.Settings.ResourceName(f.Name))})
}

func bedrockARN(s awscdk.Stack, region, account, kind, id string) *string {
	return s.FormatArn(&awscdk.ArnComponents{Service: str("bedrock"), Region: str(region), Account: str(account), Resource: str(kind), ResourceName: str(id)})
}

func newStatement(sid string, effect awsiam.Effect, service string, operations []string, resource *string, conditions map[string]any) awsiam.PolicyStatement {
	actions := make([]*string, len(operations))
	for i, o := range operations {
		actions[i] = str(service + ":" + o)
	}
	props := &awsiam.PolicyStatementProps{Sid: str(sid), Effect: effect, Actions: &actions, Resources: &[]*string{resource}}
	// Adding conditions one by one in map order could change the template at each synthesis.
	if conditions != nil {
		props.Conditions = &conditions
	}
	return awsiam.NewPolicyStatement(props)
}
