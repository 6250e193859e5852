package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

// leastBootstrap is the CDK bootstrap version that the templates need: the
// first whose assets are published by roles.
const leastBootstrap = 6

func (f Facts) bootstrap() Check {
	// deploy creates a missing bootstrap stack, but does not renew an old one.
	renew := fmt.Sprintf("npx --yes aws-cdk@%s bootstrap aws://%s/%s", cdk.Version, f.Account.ID, f.Account.Region)
	switch b := f.Bootstrap; {
	case b.Err != nil:
		return unread(b.Err)
	case b.Missing:
		return fail(f.deploy()+" --bootstrap", "the CDK has no stack CDKToolkit in %s; it keeps assets there", f.Account.Region)
	case b.Version < leastBootstrap:
		return fail(renew, "CDKToolkit has version %d; the templates need %d", b.Version, leastBootstrap)
	default:
		return ok("CDKToolkit has version %d", b.Version)
	}
}

// unreserved returns the concurrency that Lambda requires to stay unreserved:
// 100, but 10 in new accounts with a limit of 10.
func unreserved(limit int) int {
	if limit <= 100 {
		return 10
	}
	return 100
}

// wantedQuota is requested if there is less: Lambda's usual quota.
const wantedQuota = 1000

func (f Facts) quota() Check {
	q := f.Quota
	left := unreserved(q.Limit)
	fix := fmt.Sprintf("aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 --desired-value %d    # or reserve less: %s --context worstDay=%d; or nothing: --context reserve=false",
		max(wantedQuota, f.Limits.Reserved()+left), f.deploy(), setting.DefaultWorstDay)
	wanted := 0
	if f.Reserve {
		wanted = f.Limits.Reserved()
	}
	switch more := wanted - q.Reserved; {
	case q.Err != nil:
		return unread(q.Err)
	case more > 0 && q.Unreserved-more < left:
		return fail(fix, "the stage is to reserve %d concurrent executions, %d more than it has, and Lambda wants %d left of the %d of this account that are not reserved", wanted, more, left, q.Unreserved)
	case q.Deployed:
		return ok("the stage has reserved %d of %d concurrent executions", q.Reserved, q.Limit)
	default:
		return ok("%d of %d concurrent executions are not reserved; the stage wants %d", q.Unreserved, q.Limit, wanted)
	}
}

func (f Facts) alarmMail() Check {
	m := f.Mail
	if m.Err != nil {
		return unread(m.Err)
	}
	if m.Topic == "" {
		return none("needs the stack watch")
	}
	if waiting := m.Unconfirmed(f.Email); len(waiting) > 0 {
		return warn(ConfirmMail(m.Topic, waiting[0]), "%s has not confirmed its subscription, so alarms do not reach it", strings.Join(waiting, ", "))
	}
	if len(m.Subscribers) == 0 {
		return none("the stage has no mail address for alarms: %s --email ADDRESS", f.deploy())
	}
	return ok("alarms are mailed to %s", strings.Join(slices.Sorted(maps.Keys(m.Subscribers)), ", "))
}

// Unconfirmed lists the addresses that have not confirmed their subscription. An expected address, which may be "", is one
// of them if it is missing, because AWS removes a subscription that is not confirmed within days.
func (m Mail) Unconfirmed(expected string) []string {
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

// ConfirmMail says how to confirm the subscription of an address to the topic of alarms.
func ConfirmMail(topic, address string) string {
	return fmt.Sprintf("aws sns subscribe --topic-arn %s --protocol email --notification-endpoint %s    # sends the mail again; open the link in it", topic, address)
}

// roles compares the decisions of AWS's policy simulator with those that this project's tests expect.
func (f Facts) roles() Check {
	switch s := f.Roles; {
	case s.Err != nil:
		return fail("aws iam simulate-custom-policy help    # these credentials need iam:SimulateCustomPolicy", "AWS cannot be asked: %s", s.Err)
	case len(s.Wrong) > 0:
		return fail("report it: a role of this release is wrong", "AWS decides %d of %d calls otherwise, such as %s", len(s.Wrong), s.Calls, s.Wrong[0])
	default:
		return ok("AWS decides all %d calls as the roles of this release intend", s.Calls)
	}
}
