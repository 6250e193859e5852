package awscmd

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/cmd/vacancy/cloud"
	"github.com/vacancy-host/vacancy/shared/front/setting"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// chooseSettings applies the flags to the settings that the stage stores. The first deploy of a
// stage asks for a mail address.
func (d *deployment) chooseSettings(ctx context.Context) error {
	overrides, err := d.flags.contextOverrides()
	if err != nil {
		return err
	}
	stored, isDeployed, err := cloud.ReadSettings(ctx, d.cloud, d.rec.Stage)
	if err != nil {
		return err
	}
	d.storedSettings = stored
	switch {
	case stored != nil:
		// The record differs if another machine has deployed the stage since the record was written,
		// or if a deploy from this machine failed.
		if d.rec.Context != nil {
			for _, c := range setting.Compare(setting.OmitDefaults(d.rec.Context), setting.OmitDeployContexts(stored)) {
				d.PrintNote("ignored %s in the record on this machine: stage %s has %s", kit.EscapeLine(c.Name+"="+c.From), d.rec.Stage, kit.EscapeLine(c.Name+"="+c.To))
			}
		}
		d.rec.Context = stored
	case isDeployed && d.rec.Context != nil:
		d.PrintNote("stage %s does not store its settings yet, so this deploy uses the settings in the record on this machine: %s", d.rec.Stage, formatContext(d.rec.Context))
	case isDeployed:
		unknownErr := problem.New(problem.Conflict, "the settings of stage %s are unknown. An earlier release deployed the stage without storing its settings, and this machine has no record of the stage", d.rec.Stage)
		if d.flags.skipQuestion {
			return kit.WithHint(unknownErr, "vacancy deploy --stage %s on the machine that deployed it last, or here without --yes", d.rec.Stage)
		}
		d.PrintNote("%s.\nIf you do not give a setting by a flag, it becomes the default. This may remove a domain, an address for alarms or a limit.", unknownErr.Text())
		if err := d.AskToConfirm(ctx, "Continue with the defaults? Type yes:", "yes"); err != nil {
			return kit.WithHint(err, "vacancy deploy --stage %s --context NAME=VALUE for each setting", d.rec.Stage)
		}
	}
	settings := mergeContext(d.rec.Context, overrides)
	if _, hasEmail := settings["email"]; !hasEmail && stored == nil && !d.flags.skipQuestion {
		address, err := d.AskLine(ctx, "Mail address for alarms and warnings about the budget (leave it empty for none):")
		if err != nil {
			return err
		}
		settings["email"] = address
	}
	d.rec.Context = settings
	return nil
}

func mergeContext(base, overrides map[string]string) map[string]string {
	merged := map[string]string{}
	maps.Copy(merged, base)
	// Omit the values that this release does not know, and the values that each deploy sets itself.
	maps.DeleteFunc(merged, func(name, _ string) bool { return !slices.Contains(setting.OperatorContexts(), name) })
	maps.Copy(merged, overrides)
	return merged
}

func formatContext(values map[string]string) string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		pairs = append(pairs, kit.EscapeLine(name+"="+values[name]))
	}
	if pairs == nil {
		return "the defaults"
	}
	return strings.Join(pairs, " ")
}

func (d *deployment) printSettingChanges() {
	if d.storedSettings == nil {
		return
	}
	for _, c := range setting.Compare(setting.OmitDeployContexts(d.storedSettings), d.rec.Context) {
		d.PrintNote("setting %s", kit.EscapeLine(c.String()))
	}
}

// checkUnchanged returns an error if another deploy has begun, because this deploy would reset the
// settings that the other deploy chose. After the check, CloudFormation refuses concurrent deploys.
func (d *deployment) checkUnchanged(ctx context.Context) error {
	conflict := func(progress string) error {
		err := problem.New(problem.Conflict, "another deploy of stage %s %s; nothing was started", d.rec.Stage, progress)
		return kit.WithHint(err, "run the same command again: it starts from the settings of the other deploy")
	}
	for _, name := range kit.StackNames(d.rec.Stage) {
		s, err := d.cloud.Stack(ctx, name)
		if err != nil && !problem.Is(err, problem.NotFound) {
			return err
		}
		if s.IsBusy() {
			return conflict("is running")
		}
	}
	current, _, err := cloud.ReadSettings(ctx, d.cloud, d.rec.Stage)
	if err == nil && !maps.Equal(current, d.storedSettings) {
		err = conflict("has ended since this deploy began")
	}
	return err
}
