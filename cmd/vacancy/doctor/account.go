package doctor

import (
	"fmt"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cdk"
)

// leastBootstrap is the version of the CDK's own stack that the templates ask
// for: the first whose assets are published by roles.
const leastBootstrap = 6

func (f Facts) account() []Check { return []Check{f.bootstrap(), f.quota()} }

func (f Facts) bootstrap() Check {
	const name = "bootstrap"
	if why := f.blind(); why != "" {
		return none(name, "%s", why)
	}
	// A deploy makes a bootstrap where there is none, and lets one be that is old.
	renew := fmt.Sprintf("npx --yes aws-cdk@%s bootstrap aws://%s/%s", cdk.Version, f.Account.ID, f.Account.Region)
	switch b := f.Bootstrap; {
	case b.Err != nil:
		return unread(name, b.Err)
	case b.Missing:
		return fail(name, f.deploy()+" --bootstrap", "the CDK has no stack CDKToolkit in %s; it keeps assets there", f.Account.Region)
	case b.Version < leastBootstrap:
		return fail(name, renew, "CDKToolkit has version %d; the templates need %d", b.Version, leastBootstrap)
	default:
		return ok(name, "CDKToolkit has version %d", b.Version)
	}
}

// unreserved is what Lambda wants left for functions that reserve nothing. It
// says 100, and of accounts that are new and may run but 10 at once it wants
// those 10.
func unreserved(limit int) int {
	if limit <= 100 {
		return 10
	}
	return 100
}

// wantedQuota is asked for where there is less: Lambda's usual one.
const wantedQuota = 1000

func (f Facts) quota() Check {
	const name = "quota"
	if why := f.blind(); why != "" {
		return none(name, "%s", why)
	}
	q := f.Quota
	left := unreserved(q.Limit)
	fix := fmt.Sprintf("aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 --desired-value %d    # or reserve nothing: %s --context concurrency=0", wantedQuota, f.deploy())
	switch {
	case q.Err != nil:
		return unread(name, q.Err)
	case q.Deployed:
		return ok(name, "the stage has reserved %d of %d concurrent executions", q.Wanted, q.Limit)
	case q.Unreserved-q.Wanted < left:
		return fail(name, fix, "the stage reserves %d concurrent executions, and Lambda wants %d left of the %d of this account that are not reserved", q.Wanted, left, q.Unreserved)
	default:
		return ok(name, "%d of %d concurrent executions are not reserved; the stage wants %d", q.Unreserved, q.Limit, q.Wanted)
	}
}

// What a stage reserves unless its context says otherwise: for calls, and for
// the other functions together.
const (
	MessageReserved = 5
	OtherReserved   = 12
)
