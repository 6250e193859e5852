package stacks

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

// In the policy of a key, the resource "*" means the key itself.

// administrationStatement allows administrators to manage a key, but not to use it or grant its
// use.
func administrationStatement() awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid:        str("Administration"),
		Principals: &[]awsiam.IPrincipal{awsiam.NewAccountRootPrincipal()},
		Actions: strs("kms:DescribeKey", "kms:GetKeyPolicy", "kms:PutKeyPolicy", "kms:GetKeyRotationStatus", "kms:EnableKeyRotation",
			"kms:DisableKeyRotation", "kms:RotateKeyOnDemand", "kms:ListKeyRotations", "kms:GetPublicKey", "kms:EnableKey", "kms:DisableKey",
			"kms:UpdateKeyDescription", "kms:TagResource", "kms:UntagResource", "kms:ListResourceTags", "kms:ListGrants", "kms:RevokeGrant",
			"kms:ScheduleKeyDeletion", "kms:CancelKeyDeletion"),
		Resources: strs("*"),
	})
}

func newKey(s awscdk.Stack, in Input, id string, props *awskms.KeyProps, statements ...awsiam.PolicyStatement) awskms.Key {
	policyStatements := append([]awsiam.PolicyStatement{administrationStatement()}, statements...)
	props.Policy = awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &policyStatements})
	props.RemovalPolicy = emptyRemovalPolicy(in.Settings)
	if !in.Settings.RetainData {
		props.PendingWindow = awscdk.Duration_Days(num(7)) // the minimum of KMS
	}
	k := awskms.NewKey(s, str(id), props)
	setLogicalID(k, id)
	return k
}

func roleARN(s awscdk.Stack, in Input, function string) *string {
	// Data is deployed before the role exists, so the ARN is built from the role's name.
	return s.FormatArn(&awscdk.ArnComponents{Service: str("iam"), Region: str(""), Resource: str("role"), ResourceName: str(roleName(s, in, function))})
}

// newSealKey creates the key that encrypts seeds, text keys and agents' secrets. An authorized user
// may decrypt text keys, to verify the tables from another machine, but no seeds.
func newSealKey(s awscdk.Stack, in Input) awskms.Key {
	allowUse := func(sid string, actions *[]*string, names ...string) awsiam.PolicyStatement {
		roles := make([]*string, len(names))
		for i, name := range names {
			roles[i] = roleARN(s, in, name)
		}
		conditions := vacancyContextConditions()
		conditions["ArnEquals"] = map[string]any{"aws:PrincipalArn": roles}
		return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Sid: str(sid), Principals: &[]awsiam.IPrincipal{awsiam.NewAccountRootPrincipal()},
			Actions: actions, Resources: strs("*"), Conditions: &conditions,
		})
	}
	verifyConditions := vacancyContextConditions()
	verifyConditions["StringLike"] = contextCondition(textKeyPattern)
	var sealers, openers []string
	grantsByFunction := allGrants(in.Settings)
	for _, f := range functions.All() {
		if grantsByFunction[f].canSeal {
			sealers = append(sealers, f.Name)
		}
		if len(grantsByFunction[f].openContexts) > 0 {
			openers = append(openers, f.Name)
		}
	}
	return newKey(s, in, "SealKey", &awskms.KeyProps{
		Description:       str("Vacancy " + in.Settings.Stage + ": seals seeds, text keys and secrets of agents"),
		EnableKeyRotation: yes(),
	}, allowUse("Seal", strs("kms:Encrypt"), sealers...), allowUse("Open", strs("kms:Decrypt"), openers...), awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("Verify"), Principals: &[]awsiam.IPrincipal{awsiam.NewAccountRootPrincipal()},
		Actions: strs("kms:Decrypt"), Resources: strs("*"), Conditions: &verifyConditions,
	}))
}

// vacancyContextConditions allows only encryption contexts whose only member is `vacancy`.
func vacancyContextConditions() map[string]any {
	return map[string]any{
		"Null":                      map[string]any{"kms:EncryptionContext:vacancy": "false"},
		"ForAllValues:StringEquals": map[string]any{"kms:EncryptionContextKeys": strs("vacancy")},
	}
}

func contextCondition(patterns ...string) map[string]any {
	if len(patterns) == 1 {
		return map[string]any{"kms:EncryptionContext:vacancy": patterns[0]}
	}
	return map[string]any{"kms:EncryptionContext:vacancy": strs(patterns...)}
}

// newHostKey creates the host's Ed25519 identity, whose secret never leaves KMS. KMS must not
// rotate the key, because a host with a new key would be another host.
func newHostKey(s awscdk.Stack, in Input) awskms.Key {
	var signers []*string
	grantsByFunction := allGrants(in.Settings)
	for _, f := range functions.All() {
		if slices.Contains(grantsByFunction[f].hostKeyOperations, "Sign") {
			signers = append(signers, roleARN(s, in, f.Name))
		}
	}
	conditions := signingConditions()
	conditions["ArnEquals"] = map[string]any{"aws:PrincipalArn": signers}
	return newKey(s, in, "HostKey", &awskms.KeyProps{
		Description: str("Vacancy " + in.Settings.Stage + ": the host's identity"),
		KeySpec:     awskms.KeySpec_ECC_NIST_EDWARDS25519, KeyUsage: awskms.KeyUsage_SIGN_VERIFY,
	}, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("Sign"), Principals: &[]awsiam.IPrincipal{awsiam.NewAccountRootPrincipal()},
		Actions: strs("kms:Sign"), Resources: strs("*"), Conditions: &conditions,
	}))
}

func signingConditions() map[string]any {
	// Others can verify plain Ed25519, but not the variant over a digest.
	return map[string]any{"StringEquals": map[string]any{"kms:SigningAlgorithm": "ED25519_SHA_512"}}
}

// newAtRestKey creates the key that encrypts stored data. Roles need no grant, because the AWS
// services use the key for their users.
func newAtRestKey(s awscdk.Stack, in Input) awskms.Key {
	region, suffix := *s.Region(), *s.UrlSuffix()
	serviceName := func(name string) *string { return str(name + "." + region + "." + suffix) }
	var logGroups []*string
	for _, group := range []string{in.Settings.LogGroup("*"), gateLogGroup(in)} {
		logGroups = append(logGroups, s.FormatArn(&awscdk.ArnComponents{
			Service: str("logs"), Resource: str("log-group"), ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME, ResourceName: str(group)}))
	}
	return newKey(s, in, "AtRestKey", &awskms.KeyProps{
		Description:       str("Vacancy " + in.Settings.Stage + ": encrypts tables, bucket, logs and alarms"),
		EnableKeyRotation: yes(),
	}, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("ThroughTablesAndBucket"), Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
		Actions:   strs("kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:CreateGrant", "kms:DescribeKey"),
		Resources: strs("*"),
		Conditions: &map[string]any{"StringEquals": map[string]any{
			"kms:CallerAccount": s.Account(), "kms:ViaService": []*string{serviceName("dynamodb"), serviceName("s3")}}},
	}), awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("Logs"), Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(serviceName("logs"), nil)},
		Actions:    strs("kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"),
		Resources:  strs("*"),
		Conditions: &map[string]any{"ArnLike": map[string]any{"kms:EncryptionContext:aws:logs:arn": logGroups}},
	}), awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("Alarms"), Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(str("cloudwatch.amazonaws.com"), nil)},
		Actions: strs("kms:Decrypt", "kms:GenerateDataKey*"), Resources: strs("*"),
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": s.Account()}},
	}))
}
