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

func NoCheckFlag(fs *pflag.FlagSet, off *bool) {
	fs.BoolVar(off, "no-check", false, "do not check that the vacant's agent answers, or which tools its MCP servers offer")
}

// Checked is the outcome of a check of a vacant's agent.
type Checked struct {
	// Failure is the reason why a call would fail now. It is nil if a call would succeed, or if the
	// check was skipped.
	Failure *call.Cause `json:"failure,omitempty"`
	// Tools contains the tools that the agent is offered. It is nil if the vacant has no agent of
	// its own, or if the tools are unknown.
	Tools *admin.Tools `json:"tools,omitempty"`
}

// CheckAgent checks the agent of a vacant that was created or changed. It asks the agent one
// question, and asks the agent's MCP servers for their tools. It warns if a call would fail now,
// and about tools that are left out.
func CheckAgent(a *kit.App, ctx context.Context, c *kit.AdminAPI, v *admin.Vacant, off bool) (r Checked) {
	if off {
		return r
	}
	if CanCheck(v) {
		check, err := admin.CheckVacant.Call(ctx, c, admin.VacantRequest{Vacant: v.ID.String()})
		switch {
		case err == nil && check.Failure != nil:
			r.Failure = check.Failure
			warnOfFailure(a, v, r.Failure)
		case err != nil && !problem.Is(err, problem.Canceled):
			a.Note("warning: the agent of %s could not be checked: %s", v.Name, kit.Printable(problem.AsError(err).Text()))
		}
	}
	r.Tools = CheckTools(a, ctx, c, v)
	if r.Tools != nil && r.Failure == nil {
		r.Failure = r.Tools.Failure
	}
	return r
}

// CheckTools asks the MCP servers of a vacant's agent for their tools. It warns if a call would
// fail now because of a server, and about tools that are left out.
func CheckTools(a *kit.App, ctx context.Context, c *kit.AdminAPI, v *admin.Vacant) *admin.Tools {
	t := toolsOf(a, ctx, c, v)
	if t == nil {
		return nil
	}
	if t.Failure != nil {
		warnOfFailure(a, v, t.Failure)
	}
	for _, line := range kit.LeftOutLines(t.LeftOut) {
		a.Note("warning: the agent of %s is not offered %s", v.Name, line)
	}
	return t
}

// toolsOf returns the tools that a vacant's agent is offered, or nil if the vacant has no agent of
// its own. If the tools are unknown, it prints a warning and returns nil.
func toolsOf(a *kit.App, ctx context.Context, c *kit.AdminAPI, v *admin.Vacant) *admin.Tools {
	if v.Agent == 0 || v.Deleted != "" {
		return nil
	}
	t, err := admin.GetTools.Call(ctx, c, admin.VacantRequest{Vacant: v.ID.String()})
	if err != nil {
		if !problem.Is(err, problem.Canceled) {
			a.Note("warning: the tools that its agent is offered are unknown: %s", kit.Printable(problem.AsError(err).Text()))
		}
		return nil
	}
	return &t
}

// warnOfNoWorker warns if no worker is connected that would answer a vacant.
func warnOfNoWorker(a *kit.App, ctx context.Context, c *kit.AdminAPI, v *admin.Vacant) {
	if s, err := substrate.Parse(v.Substrate); err != nil || s.Kind != substrate.KindWorker {
		return
	}
	if check, err := admin.CheckVacant.Call(ctx, c, admin.VacantRequest{Vacant: v.ID.String()}); err == nil && check.Failure != nil {
		warnOfFailure(a, v, check.Failure)
	}
}

func warnOfFailure(a *kit.App, v *admin.Vacant, failure *call.Cause) {
	a.Note("warning: a call of %s would fail now: %s", v.Name, kit.Printable(kit.Clip(failure.String(), kit.MaxShownCause)))
}

// CanCheck reports whether the vacant's substrate is at a URL, or is a worker.
func CanCheck(v *admin.Vacant) bool {
	s, err := substrate.Parse(v.Substrate)
	return err == nil && (s.Endpoint() != "" || s.Kind == substrate.KindWorker)
}
