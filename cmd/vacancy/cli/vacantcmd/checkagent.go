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

func AddNoCheckFlag(fs *pflag.FlagSet, noCheck *bool) {
	fs.BoolVar(noCheck, "no-check", false, "do not check that the vacant's agent answers, or which tools its MCP servers offer")
}

// AgentCheck is the outcome of a check of a vacant's agent.
type AgentCheck struct {
	// Failure is the reason why a call would fail now. It is nil if a call would succeed, or if the
	// check was skipped.
	Failure *call.Cause `json:"failure,omitempty"`
	// Tools contains the tools that the agent is offered. It is nil if the vacant has no agent of
	// its own, or if the tools are unknown.
	Tools *admin.Tools `json:"tools,omitempty"`
}

// CheckAgent asks the agent of a created or changed vacant one question, and its MCP servers for
// their tools. It prints warnings if a call would fail now or if tools are left out.
func CheckAgent(a *kit.App, ctx context.Context, c *kit.AdminAPI, v *admin.Vacant, skip bool) (r AgentCheck) {
	if skip {
		return r
	}
	if CanCheck(v) {
		check, err := admin.CheckVacant.Call(ctx, c, admin.VacantRef{Vacant: v.ID.String()})
		switch {
		case err == nil && check.Failure != nil:
			r.Failure = check.Failure
			warnCallsFail(a, v, r.Failure)
		case err != nil && !problem.Is(err, problem.Canceled):
			a.PrintNote("warning: the agent of %s could not be checked: %s", v.Name, kit.EscapeLine(problem.AsError(err).Text()))
		}
	}
	r.Tools = CheckTools(a, ctx, c, v)
	if r.Tools != nil && r.Failure == nil {
		r.Failure = r.Tools.Failure
	}
	return r
}

// CheckTools asks the MCP servers of a vacant's agent for their tools, and prints warnings like
// [CheckAgent].
func CheckTools(a *kit.App, ctx context.Context, c *kit.AdminAPI, v *admin.Vacant) *admin.Tools {
	t := fetchTools(a, ctx, c, v)
	if t == nil {
		return nil
	}
	if t.Failure != nil {
		warnCallsFail(a, v, t.Failure)
	}
	for _, line := range kit.OmittedToolLines(t.OmittedTools) {
		a.PrintNote("warning: the agent of %s is not offered %s", v.Name, line)
	}
	return t
}

// fetchTools returns the tools that a vacant's agent is offered. It returns nil if the vacant has
// no agent of its own or if the tools are unknown.
func fetchTools(a *kit.App, ctx context.Context, c *kit.AdminAPI, v *admin.Vacant) *admin.Tools {
	if v.AgentVersion == 0 || v.DeletedAt != "" {
		return nil
	}
	t, err := admin.GetTools.Call(ctx, c, admin.VacantRef{Vacant: v.ID.String()})
	if err != nil {
		if !problem.Is(err, problem.Canceled) {
			a.PrintNote("warning: the tools of its agent are unknown: %s", kit.EscapeLine(problem.AsError(err).Text()))
		}
		return nil
	}
	return &t
}

// warnIfNoWorker warns if a vacant with the substrate worker has no connected worker.
func warnIfNoWorker(a *kit.App, ctx context.Context, c *kit.AdminAPI, v *admin.Vacant) {
	if s, err := substrate.Parse(v.Substrate); err != nil || s.Kind != substrate.KindWorker {
		return
	}
	if check, err := admin.CheckVacant.Call(ctx, c, admin.VacantRef{Vacant: v.ID.String()}); err == nil && check.Failure != nil {
		warnCallsFail(a, v, check.Failure)
	}
}

func warnCallsFail(a *kit.App, v *admin.Vacant, failure *call.Cause) {
	a.PrintNote("warning: a call of %s would fail now: %s", v.Name, kit.EscapeLine(kit.Truncate(failure.String(), kit.MaxShownCause)))
}

// CanCheck reports whether the vacant's substrate is at a URL, or is a worker.
func CanCheck(v *admin.Vacant) bool {
	s, err := substrate.Parse(v.Substrate)
	return err == nil && (s.Endpoint() != "" || s.Kind == substrate.KindWorker)
}
