package vacantcmd

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/cmd/vacancy/cli/kit"
	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// NoCheckFlag adds --no-check.
func NoCheckFlag(fs *pflag.FlagSet, off *bool) {
	fs.BoolVar(off, "no-check", false, "do not check that the vacant's agent answers")
}

// CheckAgent asks the agent of a vacant that was made or changed one question, and
// warns if a call would fail now. It returns the failure for the result.
func CheckAgent(a *kit.App, ctx context.Context, c *kit.AdminAPI, v *admin.Vacant, off bool) *call.Cause {
	if off || !HasEndpoint(v) {
		return nil
	}
	check, err := admin.CheckVacant.Call(ctx, c, admin.One{Vacant: v.ID.String()})
	if err != nil {
		if !problem.Is(err, problem.Canceled) {
			a.Note("warning: the agent of %s could not be checked: %s", v.Name, kit.Printable(problem.Of(err).Text()))
		}
		return nil
	}
	if check.Failure != nil {
		a.Note("warning: a call of %s would fail now: %s", v.Name, kit.Printable(kit.Clip(check.Failure.String(), kit.MaxShownCause)))
	}
	return check.Failure
}

// HasEndpoint reports whether the vacant's substrate is at a URL.
func HasEndpoint(v *admin.Vacant) bool {
	s, err := substrate.Parse(v.Substrate)
	return err == nil && s.Endpoint() != ""
}
