package doctor

import (
	"fmt"
	"net/http"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

func (f Facts) checkGraduations() Check {
	const function = "graduate"
	// For an unknown graduation, the handler must answer 404 with a code.
	switch a := f.HostAnswers.Graduate; {
	case f.HostAnswers.NoGate:
		return skip("the stage was deployed without a gate")
	case a.Err == nil && a.Status == http.StatusNotFound && a.Code != "":
		return pass("it answers")
	case a.Err == nil && a.Status == http.StatusOK:
		return fail(f.deployCommand(), "%s answers 200 for a graduation that does not exist: another handler answers at its URL", function)
	default:
		return f.checkEndpoint(function, a)
	}
}

func (f Facts) checkGateway() Check {
	switch a := f.HostAnswers.Gateway; {
	case f.HostAnswers.NoAccounts:
		return skip("the stage was deployed without accounts")
	case a.Err == nil && a.Status == http.StatusOK:
		return pass("it answers")
	default:
		return f.checkEndpoint("gateway", a)
	}
}

func (f Facts) checkGate() Check {
	// A refusal is not a failure. An execution fails only if a step crashed or timed out.
	machineName := stage.FullName(f.Stage, stage.Gate)
	switch g := f.Gate; {
	case g.Err != nil:
		return failUnread(g.Err)
	case g.NameUnknown:
		return skip("the stage was deployed without a gate")
	case g.Missing:
		return fail(f.deployCommand(), "there is no state machine %s", machineName)
	case g.Status != "ACTIVE":
		return fail(f.deployCommand(), "state machine %s is %s", machineName, g.Status)
	case g.Failed > 0:
		return warn(fmt.Sprintf("aws stepfunctions list-executions --status-filter FAILED --state-machine-arn $(aws stepfunctions list-state-machines --query \"stateMachines[?name=='%s'].stateMachineArn\" --output text)", machineName),
			"%d attempts to graduate ended without a verdict in a day, the last at %s", g.Failed, g.LastFailure.UTC().Format("2006-01-02T15:04:05Z"))
	default:
		return pass("it is active, and no attempt of a day ended without a verdict")
	}
}
