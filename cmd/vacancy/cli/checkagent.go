package cli

import (
	"context"

	"github.com/spf13/pflag"

	"github.com/vacancy-host/vacancy/shared/front/admin"
	"github.com/vacancy-host/vacancy/shared/host/call"
	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// noCheckFlag adds --no-check.
func noCheckFlag(fs *pflag.FlagSet, off *bool) {
	fs.BoolVar(off, "no-check", false, "do not ask the vacant's agent once whether it is there")
}

// checkAgent asks the agent of a vacant that was made or changed one question, and
// warns if a call would fail now. It returns the failure for the result.
func (a *app) checkAgent(ctx context.Context, c *adminAPI, v *admin.Vacant, off bool) *call.Cause {
	if off || !hasEndpoint(v) {
		return nil
	}
	check, err := admin.CheckVacant.Call(ctx, c, admin.One{Vacant: v.ID.String()})
	if err != nil {
		if !problem.Is(err, problem.Canceled) {
			a.note("warning: whether its agent answers is not known: %s", printable(problem.Of(err).Text()))
		}
		return nil
	}
	if check.Failure != nil {
		a.note("warning: a call of %s would fail now: %s", v.Name, printable(clip(check.Failure.String(), maxShownCause)))
	}
	return check.Failure
}

// hasEndpoint reports whether the vacant's substrate is at a URL.
func hasEndpoint(v *admin.Vacant) bool {
	s, err := substrate.Parse(v.Substrate)
	return err == nil && s.Endpoint() != ""
}
