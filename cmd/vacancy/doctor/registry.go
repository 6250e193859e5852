package doctor

import (
	"net/http"

	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func (f Facts) checkEndpoint(function string, a Answer) Check {
	switch {
	case a.Err != nil:
		return fail(f.logsCommand(function), "%s does not answer: %s", function, a.Err)
	case a.Status == http.StatusOK:
		return pass("it answers")
	case a.Status == http.StatusForbidden:
		return fail(f.deployCommand(), "%s refuses requests from CloudFront, because their secrets differ", function)
	case a.Status == http.StatusTooManyRequests:
		return warn("vacancy doctor --host aws --stage "+f.Stage+"    # in a minute", "%s answers 429: it gets more requests than it accepts", function)
	}
	return fail(f.logsCommand(function), "%s answers %d", function, a.Status)
}

func (f Facts) checkAgentCard() Check {
	a := f.HostAnswers.Agent
	// A 404 with a code means that the host's own address has no vacant.
	if a.Err == nil && a.Status == http.StatusNotFound && a.Code != "" {
		return pass("it answers; no vacant has the host's own address (vacancy root)")
	}
	return f.checkEndpoint("agent", a)
}

func (f Facts) checkLog() Check {
	// The first run of the checkpointer signs the empty log, so a new stage soon has a checkpoint.
	switch a := f.HostAnswers.Log; {
	case a.Err == nil && a.Status == http.StatusOK:
		return pass("it has a checkpoint; vacancy log verify checks it")
	case a.Err == nil && a.Status == http.StatusNotFound:
		return warn("vacancy invoke checkpointer events/checkpointer-schedule.json --stage "+f.Stage, "the log has no checkpoint yet; checkpointer runs every five minutes")
	case f.HostAnswers.Registry.Err != nil || f.HostAnswers.Registry.Status != http.StatusOK:
		return skip("needs the registry")
	case a.Err != nil:
		return fail(f.logsCommand("registry"), "the log does not answer: %s", a.Err)
	default:
		return fail(f.logsCommand("registry"), "the log answers %d", a.Status)
	}
}

func (f Facts) checkJob(function functions.Function) Check {
	name := function.Name
	switch j := f.Jobs[name]; {
	case j.Err != nil:
		return failUnread(j.Err)
	case j.Absent || j.LastRun.IsZero():
		return skip("%s has not run", name)
	// The verdict "again" is not a failure: the queue delivers the message again later.
	case j.Verdict != "ok" && j.Verdict != "again":
		return fail(f.logsCommand(name), "%s failed at %s (%s): %s", name, j.LastRun.UTC().Format("2006-01-02T15:04:05Z"), j.Verdict, function.Check.FailureEffect)
	default:
		return pass("%s ran well at %s", name, j.LastRun.UTC().Format("2006-01-02T15:04:05Z"))
	}
}
