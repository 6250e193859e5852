package doctor

import (
	"fmt"
	"net/http"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

func (f Facts) graduate() Check {
	const function = "graduate"
	// For an unknown graduation, the handler must answer 404 with a code.
	switch a := f.Visit.Graduate; {
	case f.Visit.Ungated:
		return skip("the stage was deployed without a gate")
	case a.Err == nil && a.Status == http.StatusNotFound && a.Code != "":
		return ok("it answers")
	case a.Err == nil && a.Status == http.StatusOK:
		return fail(f.deploy(), "%s answers 200 for a graduation that does not exist: another handler answers at its URL", function)
	default:
		return f.endpoint(function, a)
	}
}

func (f Facts) gateway() Check {
	switch a := f.Visit.Gateway; {
	case f.Visit.Unpaid:
		return skip("the stage was deployed without accounts")
	case a.Err == nil && a.Status == http.StatusOK:
		return ok("it answers")
	default:
		return f.endpoint("gateway", a)
	}
}

func (f Facts) statemachine() Check {
	// An execution fails only if a step crashed or timed out.
	whole := stage.FullName(f.Stage, stage.Gate)
	switch g := f.Gate; {
	case g.Err != nil:
		return unreadFailure(g.Err)
	case g.Absent:
		return skip("the stage was deployed without a gate")
	case g.Missing:
		return fail(f.deploy(), "there is no state machine %s", whole)
	case g.Status != "ACTIVE":
		return fail(f.deploy(), "state machine %s is %s", whole, g.Status)
	case g.Failed > 0:
		return warn(fmt.Sprintf("aws stepfunctions list-executions --status-filter FAILED --state-machine-arn $(aws stepfunctions list-state-machines --query \"stateMachines[?name=='%s'].stateMachineArn\" --output text)", whole),
			"%d attempts to graduate ended without a verdict in a day, the last at %s", g.Failed, g.Last.UTC().Format("2006-01-02T15:04:05Z"))
	default:
		return ok("it is active, and no attempt of a day ended without a verdict")
	}
}
