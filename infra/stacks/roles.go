package stacks

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
)

// roleName is the physical name of a function's role: the keys' policies name
// it before it is there. Roles live in no Region, so theirs is in the name.
func roleName(s awscdk.Stack, in Input, function string) string {
	return in.Settings.Name(function) + "-" + *s.Region()
}

// everyWrite are the operations that change items, whatever the language.
var everyWrite = []string{"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "PartiQLInsert", "PartiQLUpdate", "PartiQLDelete"}

// newRole is the role of a function: one inline policy, all of it here. The
// golden files in infra/policies show what comes out.
func newRole(s awscdk.Stack, in Input, d data, f function, lost awssqs.IQueue) awsiam.Role {
	statements := append(tableStatements(d, f.grants), keyStatements(d, f.grants)...)
	if f.grants.stream {
		statements = append(statements, streamStatements(d, lost)...)
	}
	statements = append(statements, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("OwnLog"), Actions: strs("logs:CreateLogStream", "logs:PutLogEvents"),
		Resources: &[]*string{s.FormatArn(&awscdk.ArnComponents{
			Service: str("logs"), Resource: str("log-group"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
			ResourceName: str(in.Settings.LogGroup(f.name) + ":log-stream:*")})},
	}))
	id := "Role-" + f.name
	r := awsiam.NewRole(s, str(id), &awsiam.RoleProps{
		RoleName:    str(roleName(s, in, f.name)),
		Description: str("Vacancy " + in.Settings.Stage + ": " + f.description),
		AssumedBy:   awsiam.NewServicePrincipal(str("lambda.amazonaws.com"), nil),
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"function": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &statements})},
	})
	named(r, logical(f.name)+"Role")
	accept(r, "AwsSolutions-IAM5", reasonForStars(f.grants))
	return r
}

func reasonForStars(g grants) string {
	reason := "Lambda names the streams in the function's own log group, so that grant ends in a star."
	if g.stream {
		reason += " AWS offers no resource for dynamodb:ListStreams."
	}
	return reason
}

// tableStatements allow what the function does with the tables. What nothing
// may do with rows is denied on top, so that no later grant, here or by hand,
// lets a row be changed: rows are put once.
func tableStatements(d data, g grants) (out []awsiam.PolicyStatement) {
	rows, docs := d.rows.TableArn(), d.docs.TableArn()
	if len(g.rows) > 0 {
		out = append(out, statement("Rows", awsiam.Effect_ALLOW, "dynamodb", g.rows, rows, nil))
	}
	denied := slices.Concat(everyWrite[1:], []string{"Scan", "PartiQLSelect"})
	if slices.Contains(g.rows, "Scan") {
		denied = everyWrite
	}
	if !slices.Contains(g.rows, "PutItem") {
		denied = slices.Compact(append([]string{"PutItem"}, denied...))
	}
	out = append(out, statement("RowsStayAsTheyAre", awsiam.Effect_DENY, "dynamodb", denied, rows, nil))
	allowed := g.docs
	if g.textKeys {
		allowed = slices.DeleteFunc(slices.Clone(g.docs), func(o string) bool { return o == "PutItem" })
		out = append(out, statement("TextKeys", awsiam.Effect_ALLOW, "dynamodb", []string{"PutItem"}, docs, map[string]any{
			"ForAllValues:StringEquals": map[string]any{"dynamodb:LeadingKeys": strs(textKeyPartition)}}))
	}
	if len(allowed) > 0 {
		out = append(out, statement("Docs", awsiam.Effect_ALLOW, "dynamodb", allowed, docs, nil))
	}
	if !slices.Contains(g.docs, "PutItem") {
		out = append(out, statement("DocsStayAsTheyAre", awsiam.Effect_DENY, "dynamodb", everyWrite, docs, nil))
	}
	return out
}

func keyStatements(d data, g grants) (out []awsiam.PolicyStatement) {
	if g.seals {
		bound := boundOnly()
		if g.textKeys {
			bound["StringLike"] = textKeysOnly()
		}
		out = append(out, statement("Seal", awsiam.Effect_ALLOW, "kms", []string{"Encrypt"}, d.seal.KeyArn(), bound))
	}
	if g.opens {
		bound := boundOnly()
		if g.textsOnly {
			bound["StringLike"] = textKeysOnly()
		}
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

// streamStatements are what Lambda itself does in the function's name to feed
// it the stream, and to keep what it could not be fed.
func streamStatements(d data, lost awssqs.IQueue) []awsiam.PolicyStatement {
	return []awsiam.PolicyStatement{
		statement("Stream", awsiam.Effect_ALLOW, "dynamodb", []string{"DescribeStream", "GetRecords", "GetShardIterator"}, d.rows.TableStreamArn(), nil),
		// ListStreams has no resource: Lambda asks for it before it polls.
		statement("Streams", awsiam.Effect_ALLOW, "dynamodb", []string{"ListStreams"}, str("*"), nil),
		statement("Lost", awsiam.Effect_ALLOW, "sqs", []string{"SendMessage"}, lost.QueueArn(), nil),
	}
}

// statement takes its conditions as one value: added one after the other, in
// the order of a map, they would make every template another.
func statement(sid string, effect awsiam.Effect, service string, operations []string, resource *string, conditions map[string]any) awsiam.PolicyStatement {
	actions := make([]*string, len(operations))
	for i, o := range operations {
		actions[i] = str(service + ":" + o)
	}
	props := &awsiam.PolicyStatementProps{Sid: str(sid), Effect: effect, Actions: &actions, Resources: &[]*string{resource}}
	if conditions != nil {
		props.Conditions = &conditions
	}
	return awsiam.NewPolicyStatement(props)
}
