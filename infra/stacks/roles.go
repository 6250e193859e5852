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
	return in.Settings.Name(function) + "-" + *s.Region()
}

// writeOperations lists all operations that change items, in every API.
var writeOperations = []string{"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"}

func newRole(s awscdk.Stack, in Input, d data, f functions.Function, g grants, lost awssqs.IQueue, q queues) awsiam.Role {
	statements := slices.Concat(rowStatements(d, g), docStatements(d, g), keyStatements(d, g),
		snapshotStatements(d, g), fileStatements(d, g), queueStatements(q, f, g), streamStatements(d, f, g, lost), gateStatements(s, in, g), thinkStatements(s, in, g))
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
	setLogicalID(r, logical(f.Name)+"Role")
	suppressRule(r, "AwsSolutions-IAM5", reasonForStars(f, g))
	return r
}

func reasonForStars(f functions.Function, g grants) string {
	reason := "Lambda names the streams in the function's own log group, so that grant ends in a star."
	if len(g.snapshots) > 0 {
		reason += " The archives of the search index have random names below search/."
	}
	if len(g.files) > 0 {
		reason += " The bytes of files have random names below workspaces/."
	}
	if g.exports {
		reason += " The usage of days has names of days and accounts below usage/."
	}
	if f.Stream != "" {
		reason += " AWS offers no resource for dynamodb:ListStreams."
	}
	if len(g.bedrock) > 0 {
		reason += " An inference profile sends requests to its model in any Region of its area."
	}
	if len(g.gate) > 0 {
		reason += " Executions of the gate are named by requests."
	}
	return reason
}

// rowStatements allows the function's operations on rows. It denies changes of rows explicitly, so
// no later grant can allow them. The policy cannot limit the streams to which a function appends,
// because IAM's conditions on partitions do not support binary keys.
func rowStatements(d data, g grants) (out []awsiam.PolicyStatement) {
	rows := d.rows.TableArn()
	if len(g.rows) > 0 {
		out = append(out, statement("Rows", awsiam.Effect_ALLOW, "dynamodb", g.rows, rows, nil))
	}
	denied := slices.Concat(writeOperations[1:], []string{"Scan", "PartiQLSelect"})
	if slices.Contains(g.rows, "Scan") {
		denied = writeOperations
	}
	if !slices.Contains(g.rows, "PutItem") {
		denied = slices.Compact(append([]string{"PutItem"}, denied...))
	}
	return append(out, statement("DenyRowMutation", awsiam.Effect_DENY, "dynamodb", denied, rows, nil))
}

// docStatements allows the function's operations on documents, and denies all writes to a function
// that only reads. Each operation has one statement, because DynamoDB may ask IAM once for all
// items of a transaction, and one statement must then allow all of their partitions.
func docStatements(d data, g grants) (out []awsiam.PolicyStatement) {
	docs, writes, anywhere := d.docs.TableArn(), false, false
	operations, partitions := mergeAccess(g.docs)
	for _, o := range operations {
		out = append(out, statement("Docs"+o, awsiam.Effect_ALLOW, "dynamodb", []string{o}, docs, partitionsOnly(partitions[o])))
		puts := o == "PutItem"
		writes, anywhere = writes || puts, anywhere || puts && partitions[o] == nil
	}
	if anywhere { // only think stores the costs of models, and only meter the costs of calls
		out = append(out, statement("DenyTotals", awsiam.Effect_DENY, "dynamodb", writeOperations, docs,
			map[string]any{"ForAnyValue:StringLike": map[string]any{"dynamodb:LeadingKeys": strs(kinds{spend.VacantDocs, usage.AllDocs}.patterns()...)}}))
	}
	if len(g.indexes) > 0 {
		var patterns []string
		for _, partition := range g.indexes {
			patterns = append(patterns, pattern(partition))
		}
		index := awscdk.Fn_Join(str(""), &[]*string{docs, str("/index/" + docsIndex)})
		out = append(out, statement("Index", awsiam.Effect_ALLOW, "dynamodb", []string{"Query"}, index, partitionsOnly(patterns)))
	}
	if !writes {
		out = append(out, statement("DenyDocMutation", awsiam.Effect_DENY, "dynamodb", writeOperations, docs, nil))
	}
	return out
}

// mergeAccess returns the operations in the order of their first occurrence, and the partition
// patterns of each operation. The patterns are nil if an operation applies to all documents.
func mergeAccess(accesses []access) (operations []string, partitions map[string][]string) {
	partitions = map[string][]string{}
	for _, a := range accesses {
		for _, o := range a.operations {
			if !slices.Contains(operations, o) {
				operations, partitions[o] = append(operations, o), []string{}
			}
			if a.documents == nil {
				partitions[o] = nil
			}
			for _, p := range a.documents.patterns() {
				if partitions[o] != nil && !slices.Contains(partitions[o], p) {
					partitions[o] = append(partitions[o], p)
				}
			}
		}
	}
	return operations, partitions
}

// partitionsOnly returns the condition for items of some partitions, or nil for all partitions.
// ForAllValues also matches a request without keys, so the operator Null excludes such requests.
func partitionsOnly(patterns []string) map[string]any {
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

func keyStatements(d data, g grants) (out []awsiam.PolicyStatement) {
	if g.seals {
		bound := boundOnly()
		if g.sealsOnly != nil {
			bound["StringLike"] = contexts(g.sealsOnly...)
		}
		out = append(out, statement("Seal", awsiam.Effect_ALLOW, "kms", []string{"Encrypt"}, d.seal.KeyArn(), bound))
	}
	if len(g.opens) > 0 {
		bound := boundOnly()
		bound["StringLike"] = contexts(g.opens...)
		out = append(out, statement("Open", awsiam.Effect_ALLOW, "kms", []string{"Decrypt"}, d.seal.KeyArn(), bound))
	}
	for _, operation := range g.host {
		if d.host == nil {
			break
		}
		var conditions map[string]any
		if operation == "Sign" {
			conditions = signOnly()
		}
		out = append(out, statement("Host"+operation, awsiam.Effect_ALLOW, "kms", []string{operation}, d.host.KeyArn(), conditions))
	}
	return out
}

// exportsOfUsage is the key prefix of daily usage in the bucket.
const exportsOfUsage = "usage/"

// snapshotStatements allows the function's operations on the search index or on daily usage in the bucket.
// Operations on the search index include s3:ListBucket, because S3 otherwise returns 403 instead of 404 for
// a missing object. That right covers only names, and only names below our prefix if the request has a
// prefix. The role needs no grant for the bucket's key, because S3 uses the key for all users of the bucket.
func snapshotStatements(d data, g grants) []awsiam.PolicyStatement {
	if g.exports {
		return []awsiam.PolicyStatement{statement("Exports", awsiam.Effect_ALLOW, "s3", []string{"PutObject", "GetObject"}, d.blobs.ArnForObjects(str(exportsOfUsage+"*")), nil)}
	}
	return objectStatements(d, "Snapshot", g.snapshots, snapshots)
}

func fileStatements(d data, g grants) []awsiam.PolicyStatement {
	// A function with files may also list their names, so S3 answers 404 for an absent name.
	return objectStatements(d, "File", g.files, workspace.Prefix)
}

func objectStatements(d data, object string, operations []string, prefix string) []awsiam.PolicyStatement {
	if len(operations) == 0 {
		return nil
	}
	return []awsiam.PolicyStatement{
		statement(object+"s", awsiam.Effect_ALLOW, "s3", operations, d.blobs.ArnForObjects(str(prefix+"*")), nil),
		statement(object+"Names", awsiam.Effect_ALLOW, "s3", []string{"ListBucket"}, d.blobs.BucketArn(), map[string]any{
			"StringLikeIfExists": map[string]any{"s3:prefix": prefix + "*"}}),
	}
}

func queueStatements(q queues, f functions.Function, g grants) (out []awsiam.PolicyStatement) {
	add := func(sid string, names, operations []string) {
		var arns, actions []*string
		for _, name := range names {
			arns = append(arns, q[name].QueueArn())
		}
		for _, o := range operations {
			actions = append(actions, str("sqs:"+o))
		}
		if len(arns) > 0 {
			out = append(out, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Sid: str(sid), Actions: &actions, Resources: &arns}))
		}
	}
	add("Sends", g.sends, []string{"SendMessage"})
	// Lambda receives messages with the function's role. The function itself sets when a message is
	// received again.
	add("Receives", f.Receives(), []string{"ReceiveMessage", "DeleteMessage", "GetQueueAttributes", "ChangeMessageVisibility"})
	return out
}

func streamStatements(d data, f functions.Function, g grants, lost awssqs.IQueue) []awsiam.PolicyStatement {
	if g.folds {
		return []awsiam.PolicyStatement{statement("Stream", awsiam.Effect_ALLOW, "dynamodb", []string{"DescribeStream", "GetRecords", "GetShardIterator"}, d.stream(functions.Rows), nil)}
	}
	if f.Stream == "" {
		return nil
	}
	// Lambda uses the function's role to read the stream, and to store events that failed.
	out := []awsiam.PolicyStatement{
		statement("Stream", awsiam.Effect_ALLOW, "dynamodb", []string{"DescribeStream", "GetRecords", "GetShardIterator"}, d.stream(f.Stream), nil),
		// Lambda calls ListStreams before it polls. IAM cannot restrict ListStreams to a stream.
		statement("Streams", awsiam.Effect_ALLOW, "dynamodb", []string{"ListStreams"}, str("*"), nil),
	}
	if f.Stream == functions.Rows {
		out = append(out, statement("Lost", awsiam.Effect_ALLOW, "sqs", []string{"SendMessage"}, lost.QueueArn(), nil))
	}
	return out
}

func thinkStatements(s awscdk.Stack, in Input, g grants) (out []awsiam.PolicyStatement) {
	if g.thinks {
		out = append(out, statement("Think", awsiam.Effect_ALLOW, "lambda", []string{"InvokeFunction"}, functionARN(s, in, functions.Think), nil))
	}
	if g.finds {
		out = append(out, statement("Find", awsiam.Effect_ALLOW, "lambda", []string{"InvokeFunction"}, functionARN(s, in, functions.Search), nil))
	}
	if len(g.functions) > 0 {
		out = append(out, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Sid: str("Functions"), Actions: strs("lambda:InvokeFunction"), Resources: strs(g.functions...)}))
	}
	var direct, profiles []*string
	var behind []*string // models behind the profiles
	for _, id := range g.bedrock {
		model, profile := substrate.FoundationModel(id)
		if !profile {
			direct = append(direct, bedrockARN(s, *s.Region(), "", "foundation-model", id))
			continue
		}
		profiles = append(profiles, bedrockARN(s, *s.Region(), *s.Account(), "inference-profile", id))
		behind = append(behind, bedrockARN(s, "*", "", "foundation-model", model))
	}
	models := func(sid string, resources []*string, conditions *map[string]any) {
		if len(resources) > 0 {
			out = append(out, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
				Sid: str(sid), Actions: strs("bedrock:InvokeModelWithResponseStream"), Resources: &resources, Conditions: conditions}))
		}
	}
	models("Models", direct, nil)
	models("Profiles", profiles, nil)
	models("ModelsOfProfiles", behind, &map[string]any{"ArnEquals": map[string]any{"bedrock:InferenceProfileArn": profiles}})
	return out
}

func functionARN(s awscdk.Stack, in Input, f functions.Function) *string {
	return s.FormatArn(&awscdk.ArnComponents{Service: str("lambda"), Resource: str("function"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME, ResourceName: str(in.Settings.Name(f.Name))})
}

func bedrockARN(s awscdk.Stack, region, account, kind, id string) *string {
	return s.FormatArn(&awscdk.ArnComponents{Service: str("bedrock"), Region: str(region), Account: str(account), Resource: str(kind), ResourceName: str(id)})
}

func statement(sid string, effect awsiam.Effect, service string, operations []string, resource *string, conditions map[string]any) awsiam.PolicyStatement {
	actions := make([]*string, len(operations))
	for i, o := range operations {
		actions[i] = str(service + ":" + o)
	}
	props := &awsiam.PolicyStatementProps{Sid: str(sid), Effect: effect, Actions: &actions, Resources: &[]*string{resource}}
	// Conditions that are added one by one in map order could change the template at each
	// synthesis.
	if conditions != nil {
		props.Conditions = &conditions
	}
	return awsiam.NewPolicyStatement(props)
}
