package doctor

import (
	"strconv"
	"strings"
	"time"
)

// Oldest supported versions.
const (
	leastGo   = "1.26"
	leastNode = 20
)

func (f Facts) machine() []Check {
	return []Check{f.golang(), f.node(), f.npm(), f.credentials(), f.region(), f.clock()}
}

func (f Facts) tool(name string) Tool {
	for _, t := range f.Tools {
		if t.Name == name {
			return t
		}
	}
	return Tool{Name: name, Missing: true}
}

func (f Facts) golang() Check {
	const name, fix = "go", "install Go " + leastGo + " or newer (https://go.dev/dl/); then: go version"
	t := f.tool("go")
	switch {
	case t.Missing:
		return fail(name, fix, "go is not in the PATH; it builds the functions")
	case older(t.Version, leastGo):
		return fail(name, fix, "go %s is too old; the functions need %s", t.Version, leastGo)
	}
	return ok(name, "%s", t.Version)
}

func (f Facts) node() Check {
	const name, fix = "node", "install Node.js 22 (https://nodejs.org); then: node --version"
	t := f.tool("node")
	switch {
	case t.Missing:
		return fail(name, fix, "node is not in the PATH; the CDK runs on it")
	case older(t.Version, strconv.Itoa(leastNode)):
		return fail(name, fix, "node %s is too old; the CDK needs %d", t.Version, leastNode)
	}
	return ok(name, "%s", t.Version)
}

func (f Facts) npm() Check {
	t := f.tool("npm")
	if t.Missing {
		return fail("npm", "install npm, which comes with Node.js (https://nodejs.org); then: npm --version", "npm is not in the PATH; it installs the CDK, once")
	}
	return ok("npm", "%s", t.Version)
}

// older compares versions number by number. Anything else than a version is not
// older: custom builds choose their own names.
func older(version, least string) bool {
	have, want := numbers(version), numbers(least)
	for i := range want {
		if i >= len(have) {
			return len(have) > 0
		}
		if have[i] != want[i] {
			return have[i] < want[i]
		}
	}
	return false
}

func numbers(version string) (n []int) {
	for part := range strings.SplitSeq(strings.TrimLeft(version, "vgo"), ".") {
		end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if end >= 0 {
			part = part[:end]
		}
		i, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		n = append(n, i)
	}
	return n
}

func (f Facts) credentials() Check {
	const name = "credentials"
	a := f.Account
	switch a.Trouble {
	case NoTrouble:
		return ok(name, "account %s, %s", a.ID, a.ARN)
	case NoneFound:
		return fail(name, "aws configure    # or: aws sso login, or set AWS_PROFILE", "no AWS credentials were found")
	case Expired:
		return fail(name, "aws sso login    # or set new AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN", "the AWS credentials have expired")
	case Denied:
		return fail(name, "aws sts get-caller-identity    # check AWS_PROFILE and the keys", "AWS refuses these credentials: %s", a.Err)
	case Skewed:
		return fail(name, timeFix, "AWS refuses the signature for its time; see the clock below")
	case NoRegion:
		return none(name, "no Region to ask in")
	}
	return fail(name, "curl -sSI https://sts.amazonaws.com    # then look at the network and AWS_ENDPOINT_URL", "AWS cannot be reached: %s", a.Err)
}

func (f Facts) region() Check {
	const name = "region"
	switch a := f.Account; {
	case a.Trouble == NoRegion:
		return fail(name, "export AWS_REGION=us-east-1", "no AWS Region is set")
	case a.Region == "":
		return none(name, "no AWS configuration could be read")
	case f.Region != "" && f.Region != a.Region:
		return fail(name, "export AWS_REGION="+f.Region, "stage %s was deployed to %s, and this is %s", f.Stage, f.Region, a.Region)
	default:
		return ok(name, "%s", a.Region)
	}
}

const (
	skewWarns = 60 * time.Second
	// AWS refuses signatures that are off by more, and hosts refuse envelopes
	// signed that far ahead.
	skewFails = 300 * time.Second

	timeFix = "sudo timedatectl set-ntp true"
)

func (f Facts) clock() Check {
	const name = "clock"
	if !f.Clock.Seen {
		return none(name, "no answer of AWS to compare it with")
	}
	skew := f.Clock.Skew.Round(time.Second)
	side := "ahead of"
	if skew < 0 {
		skew, side = -skew, "behind"
	}
	switch {
	case skew > skewFails:
		return fail(name, timeFix, "this machine is %s %s AWS, which refuses signatures that are off by more than %s", skew, side, skewFails)
	case skew > skewWarns:
		return warn(name, timeFix, "this machine is %s %s AWS", skew, side)
	}
	return ok(name, "%s %s AWS", skew, side)
}

// blind is why nothing is known of AWS; "" if something is.
func (f Facts) blind() string {
	if f.Account.Trouble != NoTrouble {
		return "needs AWS credentials and a Region"
	}
	return ""
}
