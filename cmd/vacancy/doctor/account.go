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

const BootstrapCheck = "bootstrap"

// accountCheckRows lists the checks that can run before a stage is deployed.
func accountCheckRows() []checkRow {
	return []checkRow{
		{BootstrapCheck, Facts.awsSkipReason, Facts.checkBootstrap},
		{"quota", Facts.awsSkipReason, Facts.checkQuota},
		{"resource types", Facts.awsSkipReason, Facts.checkResourceTypes},
		{"key spec", Facts.awsSkipReason, Facts.checkKeySpec},
		{"mail address", Facts.settingsSkipReason, Facts.checkMailAddress},
	}
}

func ExamineAccount(f Facts) Report { return examine(f, accountCheckRows()) }

// SetContext sets Settings and Limits from a stage's context values, which may be nil. If the values are invalid, it
// returns an error and sets defaults.
func (f *Facts) SetContext(context map[string]string, region string) error {
	v, invalid := setting.ReadContext(context)
	if len(invalid) > 0 {
		v = setting.Defaults()
	}
	f.Settings, f.ContextUnknown = v, context == nil
	options, err := cost.ParseLimitOptions(context, region)
	if err == nil {
		f.Limits, err = cost.DeriveLimits(options)
	}
	if err != nil {
		f.Limits = defaultLimits(region)
	}
	return err
}

func defaultLimits(region string) cost.Limits {
	// A test ensures that the defaults are valid.
	options, _ := cost.NewLimitOptions(setting.Defaults(), region)
	limits, _ := cost.DeriveLimits(options)
	return limits
}

// minBootstrapVersion is the first version whose roles publish assets.
const minBootstrapVersion = 6

func (f Facts) checkBootstrap() Check {
	// deploy creates a missing bootstrap stack, but does not upgrade an old one.
	fix := fmt.Sprintf("npx --yes aws-cdk@%s bootstrap aws://%s/%s", cdk.Version, f.Account.ID, f.Account.Region)
	switch b := f.Bootstrap; {
	case b.Err != nil:
		return warnUnchecked(b.Err)
	case b.Missing:
		return fail(f.deployCommand()+" --bootstrap", "there is no stack CDKToolkit in %s; the CDK needs it to store assets", f.Account.Region)
	case b.Version < minBootstrapVersion:
		return fail(fix, "CDKToolkit has version %d; the templates need %d", b.Version, minBootstrapVersion)
	default:
		return pass("CDKToolkit has version %d", b.Version)
	}
}

// minUnreserved returns how many executions must stay unreserved. Lambda documents 100. An account with a lower limit
// cannot reserve any executions.
func minUnreserved(limit int) int { return min(limit, 100) }

// requestedQuota is Lambda's default quota.
const requestedQuota = 1000

// QuotaPage returns the URL of the console page that requests a higher quota.
func QuotaPage(region string) string {
	return fmt.Sprintf("https://%s.console.aws.amazon.com/servicequotas/home/services/lambda/quotas/L-B99A9384", region)
}

// UnlimitedCosts describes the consequence of reserving no concurrency.
const UnlimitedCosts = "then only the account's quota limits the daily cost of Lambda; worstDay still limits the cost of the tables; the functions of this account take instances from each other"

func (f Facts) checkQuota() Check {
	q := f.Quota
	minFree := minUnreserved(q.Limit)
	wanted := 0
	if f.Settings.ReserveConcurrency {
		wanted = f.Limits.ReservedConcurrency()
	}
	switch additional := wanted - q.Reserved; {
	case q.Err != nil:
		return warnUnchecked(q.Err)
	case q.Limit == 0:
		return warnUnchecked(errors.New("the answer of Lambda contains no limit of the account"))
	case additional > 0 && q.Unreserved-additional < minFree:
		return fail(f.quotaRemedies(minFree), "the stage must reserve %d concurrent executions, %d more than now; Lambda requires that %d of the account's %d unreserved executions stay unreserved", wanted, additional, minFree, q.Unreserved)
	case !f.Settings.ReserveConcurrency:
		return pass("the stage reserves none of %d concurrent executions: worker may take %d of them, and a stream takes one for up to 14 minutes", q.Limit, f.Limits[functions.Worker.Name])
	case q.Deployed:
		return pass("the stage has reserved %d of %d concurrent executions", q.Reserved, q.Limit)
	default:
		return pass("%d of %d concurrent executions are not reserved; the stage wants %d", q.Unreserved, q.Limit, wanted)
	}
}

func (f Facts) checkAlarmMail() Check {
	m := f.Mail
	if m.Err != nil {
		return failUnread(m.Err)
	}
	if m.Topic == "" {
		return skip("needs the stack watch")
	}
	if unconfirmed := m.UnconfirmedAddresses(f.Settings.Email); len(unconfirmed) > 0 {
		return warn(ConfirmMailCommand(m.Topic, unconfirmed[0]), "%s has not confirmed its subscription, so alarms do not reach it", strings.Join(unconfirmed, ", "))
	}
	if len(m.Subscribers) == 0 {
		return skip("the stage has no mail address for alarms: %s --email ADDRESS", f.deployCommand())
	}
	return pass("alarms are mailed to %s", strings.Join(slices.Sorted(maps.Keys(m.Subscribers)), ", "))
}

// UnconfirmedAddresses lists addresses without a confirmed subscription. It includes expected even
// if expected has no subscription, because AWS removes unconfirmed subscriptions after some days.
func (m Mail) UnconfirmedAddresses(expected string) []string {
	unconfirmed := map[string]bool{}
	if expected != "" && !m.Subscribers[expected] {
		unconfirmed[expected] = true
	}
	for address, confirmed := range m.Subscribers {
		if !confirmed {
			unconfirmed[address] = true
		}
	}
	return slices.Sorted(maps.Keys(unconfirmed))
}

func ConfirmMailCommand(topic, address string) string {
	return fmt.Sprintf("aws sns subscribe --topic-arn %s --protocol email --notification-endpoint %s    # sends the mail again; open the link in it", topic, address)
}

func (f Facts) checkRoles() Check {
	switch s := f.Roles; {
	case s.Err != nil:
		return fail("aws iam simulate-custom-policy help    # these credentials need iam:SimulateCustomPolicy", "AWS did not simulate the policies: %s", s.Err)
	case len(s.Mismatches) > 0:
		return fail("report it: a role of this release is wrong", "AWS decides %d of %d calls differently than intended, such as %s", len(s.Mismatches), s.Calls, s.Mismatches[0])
	default:
		return pass("AWS decides all %d calls as the roles of this release intend", s.Calls)
	}
}

func (f Facts) quotaRemedies(minFree int) string {
	fix := fmt.Sprintf("aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 --desired-value %d    # or %s; or at once: %s --context reserve=false (%s)",
		max(requestedQuota, f.Limits.ReservedConcurrency()+minFree), QuotaPage(f.Account.Region), f.deployCommand(), UnlimitedCosts)
	if standard := defaultLimits(f.Account.Region).ReservedConcurrency(); f.Quota.Unreserved-(standard-f.Quota.Reserved) >= minFree {
		fix += fmt.Sprintf("; or reserve less: %s --context worstDay=%d", f.deployCommand(), setting.DefaultWorstDay)
	}
	return fix
}

const (
	budgetType     = "AWS::Budgets::Budget"
	edgeTypePrefix = "AWS::CloudFront::"
	KeyType        = "AWS::KMS::Key"
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
	if v.HasEdge {
		types = append(types, "AWS::CloudFront::CachePolicy", "AWS::CloudFront::Distribution", "AWS::CloudFront::OriginRequestPolicy", "AWS::CloudFront::ResponseHeadersPolicy",
			"AWS::SecretsManager::Secret")
	}
	if v.WAF {
		types = append(types, "AWS::WAFv2::WebACL")
	}
	return types
}

// HasBudgets also returns true if it is unknown whether the Region supports budgets.
func (t TypeSupport) HasBudgets() bool { return !slices.Contains(t.Missing, budgetType) }

func (f Facts) checkResourceTypes() Check {
	wanted := ResourceTypes(f.Settings)
	missing := slices.DeleteFunc(slices.Clone(wanted), func(t string) bool { return !slices.Contains(f.Types.Missing, t) })
	needed := slices.DeleteFunc(slices.Clone(missing), func(t string) bool { return t == budgetType })
	switch list := strings.Join(needed, ", "); {
	case list != "" && !slices.ContainsFunc(needed, func(t string) bool { return !strings.HasPrefix(t, edgeTypePrefix) }):
		return fail(f.deployCommand()+" --no-edge    # or a Region that has them: export AWS_REGION=us-east-1", "CloudFormation has no %s in Region %s", list, f.Account.Region)
	case list != "":
		return fail("export AWS_REGION=us-east-1    # or another Region that has them", "CloudFormation has no %s in Region %s", list, f.Account.Region)
	case f.Types.Err != nil:
		return warnUnchecked(f.Types.Err)
	case len(missing) > 0:
		return warn("create a budget in the console: https://console.aws.amazon.com/costmanagement/home#/budgets",
			"CloudFormation has no %s in Region %s, so the stage gets no budget; only a budget warns about the cost of CloudFront", budgetType, f.Account.Region)
	}
	return pass("CloudFormation has all %d types of resources in Region %s", len(wanted), f.Account.Region)
}

const hostKeySpec = "ECC_NIST_EDWARDS25519"

func (f Facts) checkKeySpec() Check {
	switch specs := f.Types.KeySpecs; {
	case f.Settings.HostKey != "kms":
		return skip("the host's identity is not in KMS")
	case len(specs) == 0 && f.Types.Err != nil:
		return skip("needs the resource types")
	case len(specs) == 0:
		return warnUnchecked(errors.New("CloudFormation lists no key specs of " + KeyType))
	case !slices.Contains(specs, hostKeySpec):
		return fail(f.deployCommand()+" --context hostKey=software    # the functions then hold the host's key, which is stored encrypted", "KMS has no keys of the spec %s in Region %s", hostKeySpec, f.Account.Region)
	}
	return pass("KMS has keys of the spec %s", hostKeySpec)
}

func (f Facts) settingsSkipReason() string {
	if f.ContextUnknown {
		return "the settings of the stage are not known here"
	}
	return ""
}

func (f Facts) checkMailAddress() Check {
	if f.Settings.Email == "" {
		return warn(f.deployCommand()+" --email you@example.org", "no mail address is set: alarms are not mailed, and the stage has no budget; only a budget warns about the cost of CloudFront")
	}
	return pass("alarms and the budget's warnings go to %s", f.Settings.Email)
}
