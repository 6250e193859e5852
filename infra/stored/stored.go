// Package stored compares the settings of a deployment with the settings that the deployed stage
// stores. `cdk deploy` starts with the defaults of cdk.json, so it would reset every setting that
// its command line does not repeat.
//
// Check is the only function of the CDK app that calls AWS.
package stored

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/infra/settings"
	"github.com/vacancy-host/vacancy/shared/front/setting"
)

// anyChange is the setting of the context value "changes" that allows every change. `vacancy
// deploy` sets it, because it compares the settings itself and asks the user.
const anyChange = "all"

// Check returns an error that lists the settings of the deployed stage that s would change, except the
// settings in s.Changes. account is the account for which the CDK has credentials. If account is "",
// Check compares no settings, and writes a message to warnings.
func Check(ctx context.Context, s settings.Settings, region, account string, open cloud.Open, notes io.Writer) error {
	if slices.Contains(s.Changes, anyChange) {
		return nil
	}
	if account == "" {
		_, err := fmt.Fprintf(notes, "without AWS credentials the settings are not compared with the settings of the deployed stage %s\n", s.Stage)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	current, isDeployed, err := read(ctx, s.Stage, region, account, open)
	switch {
	case err != nil:
		return fmt.Errorf("the settings of the deployed stage %s cannot be read: %w\n"+
			"To deploy without comparing them, add: --context changes=%s", s.Stage, err, anyChange)
	case !isDeployed:
		return nil
	case current == nil:
		return fmt.Errorf("stage %s was deployed by a release that did not store the settings in the stage. "+
			"This deployment sets everything that its command line does not give to the defaults.\n"+
			"Deploy once with \"vacancy deploy --stage %s\", which knows the settings on the machine of the last deployment,\n"+
			"or give every setting with --context NAME=VALUE, and add: --context changes=%s", s.Stage, s.Stage, anyChange)
	}
	return compare(s, current)
}

func read(ctx context.Context, stage, region, account string, open cloud.Open) (map[string]string, bool, error) {
	const profile = "a profile must be named by AWS_PROFILE, because the CDK does not pass --profile to its app"
	// These credentials may differ from the credentials of the CDK.
	c, err := open(ctx, region)
	if err != nil {
		return nil, false, fmt.Errorf("%w (%s)", err, profile)
	}
	caller, err := c.Caller(ctx)
	if err != nil {
		return nil, false, err
	}
	if caller.Account != account {
		return nil, false, fmt.Errorf("the credentials of this process are for account %s, expected account %s as in the CDK (%s)", caller.Account, account, profile)
	}
	return cloud.ReadSettings(ctx, c, stage)
}

func compare(s settings.Settings, current map[string]string) error {
	var lines, keep []string
	names := slices.Clone(s.Changes)
	for _, c := range setting.Compare(current, s.Stored) {
		if slices.Contains(s.Changes, c.Name) {
			continue
		}
		names = append(names, c.Name)
		lines = append(lines, "  "+c.String())
		if slices.Contains(settings.Names(), c.Name) { // other names belong to a later release
			keep = append(keep, "--context "+c.Name+"="+c.From)
		}
	}
	if lines == nil {
		return nil
	}
	return fmt.Errorf("this deployment would change settings of stage %s:\n%s\nTo keep them, add: %s\nTo change them, add: --context changes=%s",
		s.Stage, strings.Join(lines, "\n"), strings.Join(keep, " "), strings.Join(names, ","))
}
