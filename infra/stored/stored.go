// Package stored compares the settings of a deployment with the settings that the deployed stage
// stores. `cdk deploy` starts with the defaults of cdk.json, so it would reset every setting that
// its command line does not repeat.
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

// allowAllChanges allows every change. `vacancy deploy` sets it, because it compares the settings
// itself and asks the user.
const allowAllChanges = "all"

// Check returns an error that lists the settings of the deployed stage that s would change, except
// the settings in s.Changes. If account is "", Check only writes a message to warnings.
func Check(ctx context.Context, s settings.Settings, region, account string, open cloud.OpenFunc, warnings io.Writer) error {
	if slices.Contains(s.Changes, allowAllChanges) {
		return nil
	}
	if account == "" {
		_, err := fmt.Fprintf(warnings, "without AWS credentials the settings are not compared with the settings of the deployed stage %s\n", s.Stage)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	current, isDeployed, err := readDeployedSettings(ctx, s.Stage, region, account, open)
	switch {
	case err != nil:
		return fmt.Errorf("the settings of the deployed stage %s cannot be read: %w\n"+
			"To deploy without comparing them, add: --context changes=%s", s.Stage, err, allowAllChanges)
	case !isDeployed:
		return nil
	case current == nil:
		return fmt.Errorf("stage %s was deployed by a release that did not store the settings in the stage. "+
			"This deployment would reset all settings that are not on its command line to the defaults.\n"+
			"Deploy once with \"vacancy deploy --stage %s\", which knows the settings on the machine of the last deployment,\n"+
			"or give every setting with --context NAME=VALUE, and add: --context changes=%s", s.Stage, s.Stage, allowAllChanges)
	}
	return checkUnchanged(s, current)
}

func readDeployedSettings(ctx context.Context, stage, region, account string, open cloud.OpenFunc) (map[string]string, bool, error) {
	const profileHint = "a profile must be named by AWS_PROFILE, because the CDK does not pass --profile to its app"
	// These credentials may differ from the credentials of the CDK.
	client, err := open(ctx, region)
	if err != nil {
		return nil, false, fmt.Errorf("%w (%s)", err, profileHint)
	}
	caller, err := client.CallerIdentity(ctx)
	if err != nil {
		return nil, false, err
	}
	if caller.Account != account {
		return nil, false, fmt.Errorf("the credentials of this process are for account %s, expected account %s as in the CDK (%s)", caller.Account, account, profileHint)
	}
	return cloud.ReadSettings(ctx, client, stage)
}

func checkUnchanged(s settings.Settings, current map[string]string) error {
	var lines, keepFlags []string
	changedNames := slices.Clone(s.Changes)
	for _, c := range setting.Compare(current, s.StoredContext) {
		if slices.Contains(s.Changes, c.Name) {
			continue
		}
		changedNames = append(changedNames, c.Name)
		lines = append(lines, "  "+c.String())
		if slices.Contains(settings.ContextNames(), c.Name) { // other names belong to a later release
			keepFlags = append(keepFlags, "--context "+c.Name+"="+c.From)
		}
	}
	if lines == nil {
		return nil
	}
	return fmt.Errorf("this deployment would change settings of stage %s:\n%s\nTo keep them, add: %s\nTo change them, add: --context changes=%s",
		s.Stage, strings.Join(lines, "\n"), strings.Join(keepFlags, " "), strings.Join(changedNames, ","))
}
