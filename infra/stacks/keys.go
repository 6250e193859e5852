package stacks

import (
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

// In the policy of a key, the resource "*" means the key itself.

// administration allows administrators to manage a key, but not to use it or to grant its use to
// others.
func administration() awsiam.PolicyStatement {
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
	policyStatements := append([]awsiam.PolicyStatement{administration()}, statements...)
	props.Policy = awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &policyStatements})
	props.RemovalPolicy = removalOfEmpty(in.Settings)
	// A week is the minimum of KMS.
	if !in.Settings.RetainData {
		props.PendingWindow = awscdk.Duration_Days(num(7))
	}
	k := awskms.NewKey(s, str(id), props)
	setLogicalID(k, id)
	return k
}

func roleOf(s awscdk.Stack, in Input, function string) *string {
	// Data is deployed before the role exists, so the ARN is built from the role's name.
	return s.FormatArn(&awscdk.ArnComponents{Service: str("iam"), Region: str(""), Resource: str("role"), ResourceName: str(roleName(s, in, function))})
}

// sealKey creates the key that encrypts seeds, text keys and agents' secrets. Only functions whose
// grants allow it may use the key, and only with an encryption context whose only member is `vacancy`.
// An authorized user may decrypt text keys, to verify the tables from another machine, but no seeds.
func sealKey(s awscdk.Stack, in Input) awskms.Key {
	use := func(sid string, actions *[]*string, names ...string) awsiam.PolicyStatement {
		roles := make([]*string, len(names))
		for i, name := range names {
			roles[i] = roleOf(s, in, name)
		}
		conditions := boundOnly()
		conditions["ArnEquals"] = map[string]any{"aws:PrincipalArn": roles}
		return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Sid: str(sid), Principals: &[]awsiam.IPrincipal{awsiam.NewAccountRootPrincipal()},
			Actions: actions, Resources: strs("*"), Conditions: &conditions,
		})
	}
	verify := boundOnly()
	verify["StringLike"] = contexts(textKeys)
	var sealers, openers []string
	allowed := allGrants(in.Settings)
	for _, f := range functions.All() {
		if allowed[f].seals {
			sealers = append(sealers, f.Name)
		}
		if len(allowed[f].opens) > 0 {
			openers = append(openers, f.Name)
		}
	}
	return newKey(s, in, "SealKey", &awskms.KeyProps{
		Description:       str("Vacancy " + in.Settings.Stage + ": seals seeds, text keys and secrets of agents"),
		EnableKeyRotation: yes(),
	}, use("Seal", strs("kms:Encrypt"), sealers...), use("Open", strs("kms:Decrypt"), openers...), awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("Verify"), Principals: &[]awsiam.IPrincipal{awsiam.NewAccountRootPrincipal()},
		Actions: strs("kms:Decrypt"), Resources: strs("*"), Conditions: &verify,
	}))
}

// boundOnly returns conditions that allow only requests whose encryption context has the member
// `vacancy` and no other.
func boundOnly() map[string]any {
	return map[string]any{
		"Null":                      map[string]any{"kms:EncryptionContext:vacancy": "false"},
		"ForAllValues:StringEquals": map[string]any{"kms:EncryptionContextKeys": strs("vacancy")},
	}
}

func contexts(patterns ...string) map[string]any {
	if len(patterns) == 1 {
		return map[string]any{"kms:EncryptionContext:vacancy": patterns[0]}
	}
	return map[string]any{"kms:EncryptionContext:vacancy": strs(patterns...)}
}

// hostKey creates the host's Ed25519 identity. KMS signs messages of up to 4,096 bytes with it and
// never reveals the secret. KMS must not rotate the key, because a host with a new key would be another
// host. admin uses the key to prove the host's identity, and checkpointer to sign the log. Both use it
// to certify keys that sign receipts.
func hostKey(s awscdk.Stack, in Input) awskms.Key {
	var signers []*string
	allowed := allGrants(in.Settings)
	for _, f := range functions.All() {
		if slices.Contains(allowed[f].host, "Sign") {
			signers = append(signers, roleOf(s, in, f.Name))
		}
	}
	conditions := signOnly()
	conditions["ArnEquals"] = map[string]any{"aws:PrincipalArn": signers}
	return newKey(s, in, "HostKey", &awskms.KeyProps{
		Description: str("Vacancy " + in.Settings.Stage + ": the host's identity"),
		KeySpec:     awskms.KeySpec_ECC_NIST_EDWARDS25519, KeyUsage: awskms.KeyUsage_SIGN_VERIFY,
	}, awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("Sign"), Principals: &[]awsiam.IPrincipal{awsiam.NewAccountRootPrincipal()},
		Actions: strs("kms:Sign"), Resources: strs("*"), Conditions: &conditions,
	}))
}

func signOnly() map[string]any {
	// Others can verify plain Ed25519, but not the variant over a digest.
	return map[string]any{"StringEquals": map[string]any{"kms:SigningAlgorithm": "ED25519_SHA_512"}}
}

// atRestKey creates the key that encrypts tables, bucket, log groups and the alarms' topic. Roles
// need no grant, because these services use the key for their users.
func atRestKey(s awscdk.Stack, in Input) awskms.Key {
	region, suffix := *s.Region(), *s.UrlSuffix()
	service := func(name string) *string { return str(name + "." + region + "." + suffix) }
	var logs []*string
	for _, group := range []string{in.Settings.LogGroup("*"), gateLogGroup(in)} {
		logs = append(logs, s.FormatArn(&awscdk.ArnComponents{
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
			"kms:CallerAccount": s.Account(), "kms:ViaService": []*string{service("dynamodb"), service("s3")}}},
	}), awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("Logs"), Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(service("logs"), nil)},
		Actions:    strs("kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"),
		Resources:  strs("*"),
		Conditions: &map[string]any{"ArnLike": map[string]any{"kms:EncryptionContext:aws:logs:arn": logs}},
	}), awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: str("Alarms"), Principals: &[]awsiam.IPrincipal{awsiam.NewServicePrincipal(str("cloudwatch.amazonaws.com"), nil)},
		Actions: strs("kms:Decrypt", "kms:GenerateDataKey*"), Resources: strs("*"),
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": s.Account()}},
	}))
}
