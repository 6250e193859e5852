package doctor

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

const minGoVersion = "1.26"

// toolCheck returns a check that a program is in the PATH and has at least minVersion.
func toolCheck(name, minVersion, use, requirement, fix string) func(Facts) Check {
	return func(f Facts) Check {
		i := slices.IndexFunc(f.Tools, func(t Tool) bool { return t.Name == name })
		switch {
		case i < 0 || f.Tools[i].Missing:
			return fail(fix, "%s is not in the PATH; %s", name, use)
		case isOlder(f.Tools[i].Version, minVersion):
			return fail(fix, "%s %s is too old; %s %s", name, f.Tools[i].Version, requirement, minVersion)
		}
		return pass("%s", f.Tools[i].Version)
	}
}

// isOlder compares versions number by number. It returns false for the names of custom builds,
// which are not versions.
func isOlder(version, minVersion string) bool {
	have, want := versionNumbers(version), versionNumbers(minVersion)
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

func versionNumbers(version string) (parsed []int) {
	for part := range strings.SplitSeq(strings.TrimLeft(version, "vgo"), ".") {
		digitsEnd := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
		if digitsEnd >= 0 {
			part = part[:digitsEnd]
		}
		i, err := strconv.Atoi(part)
		if err != nil {
			break
		}
		parsed = append(parsed, i)
	}
	return parsed
}

func (f Facts) checkCredentials() Check {
	a := f.Account
	switch a.CredentialProblem {
	case CredentialsOK:
		return pass("account %s, %s", a.ID, a.ARN)
	case NoCredentials:
		return fail("aws configure    # or: aws sso login, or set AWS_PROFILE", "no AWS credentials were found")
	case ExpiredCredentials:
		return fail("aws sso login    # or set new AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN", "the AWS credentials have expired")
	case DeniedCredentials:
		return fail("aws sts get-caller-identity    # check AWS_PROFILE and the keys", "AWS refuses these credentials: %s", a.Err)
	case SkewedClock:
		return fail(timeFix, "AWS refuses the signature because of its time; see the check of the clock below")
	case NoRegion:
		return skip("no AWS Region is set")
	}
	return fail("curl -sSI https://sts.amazonaws.com    # then look at the network and AWS_ENDPOINT_URL", "AWS cannot be reached: %s", a.Err)
}

func (f Facts) checkRegion() Check {
	switch a := f.Account; {
	case a.CredentialProblem == NoRegion:
		return fail("export AWS_REGION=us-east-1", "no AWS Region is set")
	case a.Region == "":
		return skip("no AWS configuration could be read")
	case f.Region != "" && f.Region != a.Region:
		return fail("export AWS_REGION="+f.Region, "stage %s was deployed to %s, and this is %s", f.Stage, f.Region, a.Region)
	default:
		return pass("%s", a.Region)
	}
}

const (
	warnSkew = 60 * time.Second
	// AWS refuses a signature if the clocks differ by more than maxSkew.
	maxSkew = 300 * time.Second

	timeFix = "sudo timedatectl set-ntp true"
)

func (f Facts) checkClock() Check {
	if !f.Clock.Known {
		return skip("AWS sent no answer to compare the clock with")
	}
	skew := f.Clock.Skew.Round(time.Second)
	direction := "ahead of"
	if skew < 0 {
		skew, direction = -skew, "behind"
	}
	switch {
	case skew > maxSkew:
		return fail(timeFix, "this machine is %s %s AWS, which refuses signatures that are off by more than %s", skew, direction, maxSkew)
	case skew > warnSkew:
		return warn(timeFix, "this machine is %s %s AWS", skew, direction)
	}
	return pass("%s %s AWS", skew, direction)
}
