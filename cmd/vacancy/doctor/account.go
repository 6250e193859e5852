package doctor

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cost"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

// Bootstrapped is the name of the check of the CDK's bootstrap stack.
const Bootstrapped = "bootstrap"

// accountRows lists the checks of an account and its Region that can run before a stage is
// deployed.
func accountRows() []row {
	return []row{
		{Bootstrapped, Facts.needsAWS, Facts.bootstrap},
		{"quota", Facts.needsAWS, Facts.quota},
		{"resource types", Facts.needsAWS, Facts.types},
		{"key spec", Facts.needsAWS, Facts.keySpec},
		{"mail address", Facts.needsSettings, Facts.mail},
	}
}

func ExamineAccount(f Facts) Report { return examine(f, accountRows()) }

// Want sets f.Settings and f.Limits of a stage in a Region from its context values. The context is
// nil if its values are unknown. If the values are invalid, Facts.Want returns an error and sets
// the default settings or limits.
func (f *Facts) Want(context map[string]string, region string) error {
	v, wrong := setting.ReadContext(context)
	if len(wrong) > 0 {
		v = setting.Defaults()
	}
	f.Settings, f.Undecided = v, context == nil
	choice, err := cost.ReadChoice(context, region)
	if err == nil {
		f.Limits, err = cost.Derive(choice)
	}
	if err != nil {
		f.Limits = standardLimits(region)
	}
	return err
}

func standardLimits(region string) cost.Limits {
	// A test ensures that the defaults are valid.
	choice, _ := cost.ChoiceOf(setting.Defaults(), region)
	limits, _ := cost.Derive(choice)
	return limits
}

// leastBootstrap is the minimum version of the CDK bootstrap stack. It is the first version in
// which roles publish assets.
const leastBootstrap = 6

func (f Facts) bootstrap() Check {
	// deploy creates a missing bootstrap stack, but does not upgrade an old one.
	renew := fmt.Sprintf("npx --yes aws-cdk@%s bootstrap aws://%s/%s", cdk.Version, f.Account.ID, f.Account.Region)
	switch b := f.Bootstrap; {
	case b.Err != nil:
		return uncheckedWarning(b.Err)
	case b.Missing:
		return fail(f.deploy()+" --bootstrap", "the CDK has no stack CDKToolkit in %s; it keeps assets there", f.Account.Region)
	case b.Version < leastBootstrap:
		return fail(renew, "CDKToolkit has version %d; the templates need %d", b.Version, leastBootstrap)
	default:
		return ok("CDKToolkit has version %d", b.Version)
	}
}

// minUnreserved returns the concurrency that Lambda requires to stay unreserved. The documentation
// says 100. In accounts with a limit of 10 or 50, however, Lambda requires the complete limit.
func minUnreserved(limit int) int { return min(limit, 100) }

// wantedQuota is the quota to request from AWS. It is Lambda's default quota.
const wantedQuota = 1000

// QuotaPage returns the URL of the console page that requests a higher quota of concurrent
// executions.
func QuotaPage(region string) string {
	return fmt.Sprintf("https://%s.console.aws.amazon.com/servicequotas/home/services/lambda/quotas/L-B99A9384", region)
}

// NoLimits describes the costs that are not limited if a stage reserves no concurrency.
const NoLimits = "then only the account's quota bounds what Lambda costs in a day, worstDay still bounds the tables, and functions of this account take instances from each other"

func (f Facts) quota() Check {
	q := f.Quota
	left := minUnreserved(q.Limit)
	wanted := 0
	if f.Settings.Reserve {
		wanted = f.Limits.ReservedConcurrency()
	}
	switch more := wanted - q.Reserved; {
	case q.Err != nil:
		return uncheckedWarning(q.Err)
	case q.Limit == 0:
		return uncheckedWarning(errors.New("no limit of the account is known to Lambda"))
	case more > 0 && q.Unreserved-more < left:
		return fail(f.raiseQuota(left), "the stage must reserve %d concurrent executions, %d more than now, but Lambda requires that %d of the %d unreserved executions of this account stay unreserved", wanted, more, left, q.Unreserved)
	case !f.Settings.Reserve:
		return ok("the stage reserves none of %d concurrent executions: worker may take %d of them, and a stream takes one for up to 14 minutes", q.Limit, f.Limits[functions.Worker.Name])
	case q.Deployed:
		return ok("the stage has reserved %d of %d concurrent executions", q.Reserved, q.Limit)
	default:
		return ok("%d of %d concurrent executions are not reserved; the stage wants %d", q.Unreserved, q.Limit, wanted)
	}
}

func (f Facts) alarmMail() Check {
	m := f.Mail
	if m.Err != nil {
		return unreadFailure(m.Err)
	}
	if m.Topic == "" {
		return skip("needs the stack watch")
	}
	if waiting := m.UnconfirmedAddresses(f.Settings.Email); len(waiting) > 0 {
		return warn(ConfirmMail(m.Topic, waiting[0]), "%s has not confirmed its subscription, so alarms do not reach it", strings.Join(waiting, ", "))
	}
	if len(m.Subscribers) == 0 {
		return skip("the stage has no mail address for alarms: %s --email ADDRESS", f.deploy())
	}
	return ok("alarms are mailed to %s", strings.Join(slices.Sorted(maps.Keys(m.Subscribers)), ", "))
}

// UnconfirmedAddresses lists the addresses that have not confirmed their subscription. If expected is not ""
// and has no subscription, it is included, because AWS removes unconfirmed subscriptions after some
// days.
func (m Mail) UnconfirmedAddresses(expected string) []string {
	waiting := map[string]bool{}
	if expected != "" && !m.Subscribers[expected] {
		waiting[expected] = true
	}
	for address, confirmed := range m.Subscribers {
		if !confirmed {
			waiting[address] = true
		}
	}
	return slices.Sorted(maps.Keys(waiting))
}

func ConfirmMail(topic, address string) string {
	return fmt.Sprintf("aws sns subscribe --topic-arn %s --protocol email --notification-endpoint %s    # sends the mail again; open the link in it", topic, address)
}

func (f Facts) roles() Check {
	switch s := f.Roles; {
	case s.Err != nil:
		return fail("aws iam simulate-custom-policy help    # these credentials need iam:SimulateCustomPolicy", "AWS did not simulate the policies: %s", s.Err)
	case len(s.Wrong) > 0:
		return fail("report it: a role of this release is wrong", "AWS decides %d of %d calls differently than intended, such as %s", len(s.Wrong), s.Calls, s.Wrong[0])
	default:
		return ok("AWS decides all %d calls as the roles of this release intend", s.Calls)
	}
}

// raiseQuota returns the text of the remedies for a quota that is too small. Its argument is the
// number of executions that must stay unreserved.
func (f Facts) raiseQuota(left int) string {
	fix := fmt.Sprintf("aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 --desired-value %d    # or %s; or at once: %s --context reserve=false (%s)",
		max(wantedQuota, f.Limits.ReservedConcurrency()+left), QuotaPage(f.Account.Region), f.deploy(), NoLimits)
	if standard := standardLimits(f.Account.Region).ReservedConcurrency(); f.Quota.Unreserved-(standard-f.Quota.Reserved) >= left {
		fix += fmt.Sprintf("; or reserve less: %s --context worstDay=%d", f.deploy(), setting.DefaultWorstDay)
	}
	return fix
}

const (
	budgetType = "AWS::Budgets::Budget"
	edgeTypes  = "AWS::CloudFront::" // prefix of the types that only the edge has
	KeyType    = "AWS::KMS::Key"
)

func ResourceTypes(v setting.Values) []string {
	types := []string{
		"AWS::CloudWatch::Alarm", "AWS::DynamoDB::GlobalTable", "AWS::Events::Rule", "AWS::IAM::Role", KeyType,
		"AWS::Lambda::EventInvokeConfig", "AWS::Lambda::EventSourceMapping", "AWS::Lambda::Function", "AWS::Lambda::Permission", "AWS::Lambda::Url",
		"AWS::Logs::LogGroup", "AWS::S3::Bucket", "AWS::S3::BucketPolicy", "AWS::SNS::Topic", "AWS::SNS::TopicPolicy",
		"AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::StepFunctions::StateMachine",
	}
	if v.Email != "" {
		types = append(types, budgetType, "AWS::SNS::Subscription")
	}
	if v.Dashboard {
		types = append(types, "AWS::CloudWatch::Dashboard")
	}
	if v.Edge {
		types = append(types, "AWS::CloudFront::CachePolicy", "AWS::CloudFront::Distribution", "AWS::CloudFront::OriginRequestPolicy", "AWS::CloudFront::ResponseHeadersPolicy",
			"AWS::SecretsManager::Secret")
	}
	if v.WAF {
		types = append(types, "AWS::WAFv2::WebACL")
	}
	return types
}

// HasBudgets reports whether the Region supports budgets. It also returns true if this is unknown.
func (t Types) HasBudgets() bool { return !slices.Contains(t.Missing, budgetType) }

func (f Facts) types() Check {
	wanted := ResourceTypes(f.Settings)
	missing := slices.DeleteFunc(slices.Clone(wanted), func(t string) bool { return !slices.Contains(f.Types.Missing, t) })
	needed := slices.DeleteFunc(slices.Clone(missing), func(t string) bool { return t == budgetType })
	switch list := strings.Join(needed, ", "); {
	case list != "" && !slices.ContainsFunc(needed, func(t string) bool { return !strings.HasPrefix(t, edgeTypes) }):
		return fail(f.deploy()+" --no-edge    # or a Region that has them: export AWS_REGION=us-east-1", "CloudFormation has no %s in Region %s", list, f.Account.Region)
	case list != "":
		return fail("export AWS_REGION=us-east-1    # or another Region that has them", "CloudFormation has no %s in Region %s", list, f.Account.Region)
	case f.Types.Err != nil:
		return uncheckedWarning(f.Types.Err)
	case len(missing) > 0:
		return warn("create a budget in the console: https://console.aws.amazon.com/costmanagement/home#/budgets",
			"CloudFormation has no %s in Region %s, so the stage gets no budget, and only a budget warns of what CloudFront costs", budgetType, f.Account.Region)
	}
	return ok("CloudFormation has all %d types of resources in Region %s", len(wanted), f.Account.Region)
}

// hostKeySpec is the KMS key spec of the host's key.
const hostKeySpec = "ECC_NIST_EDWARDS25519"

func (f Facts) keySpec() Check {
	switch specs := f.Types.KeySpecs; {
	case f.Settings.HostKey != "kms":
		return skip("the host's identity is not in KMS")
	case len(specs) == 0 && f.Types.Err != nil:
		return skip("needs the resource types")
	case len(specs) == 0:
		return uncheckedWarning(errors.New("CloudFormation lists no key specs of " + KeyType))
	case !slices.Contains(specs, hostKeySpec):
		return fail(f.deploy()+" --context hostKey=software    # the functions then hold the host's key, sealed", "KMS has no keys of the spec %s in Region %s", hostKeySpec, f.Account.Region)
	}
	return ok("KMS has keys of the spec %s", hostKeySpec)
}

func (f Facts) needsSettings() string {
	if f.Undecided {
		return "the settings of the stage are not known here"
	}
	return ""
}

func (f Facts) mail() Check {
	if f.Settings.Email == "" {
		return warn(f.deploy()+" --email you@example.org", "no mail address is set: alarms are not mailed, and the stage has no budget, and only a budget warns about the costs of CloudFront")
	}
	return ok("alarms and the budget's warnings go to %s", f.Settings.Email)
}
