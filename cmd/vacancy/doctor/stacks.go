package doctor

import (
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

func (f Facts) deployCommand() string { return "vacancy deploy --stage " + f.Stage }

// hasEdge reports whether CloudFront is in front of the functions, which then have a secret.
func (f Facts) hasEdge() bool { return f.Stacks["functions"].Outputs["EdgeSecret"] != "" }

func (f Facts) checkStack(short string) Check {
	stackName := stage.FullName(f.Stage, short)
	s := f.Stacks[short]
	switch {
	case s.Err != nil:
		return failUnread(s.Err)
	case s.Missing && short == "edge" && !f.Stacks["functions"].Missing && !f.hasEdge():
		return skip("the stage was deployed without an edge")
	case s.Missing:
		return fail(f.deployCommand(), "there is no stack %s", stackName)
	}
	cause := s.Status
	if s.Reason != "" {
		cause += ": " + s.Reason
	}
	switch status := s.Status; {
	case status == "ROLLBACK_COMPLETE" || status == "ROLLBACK_FAILED" || status == "CREATE_FAILED":
		return fail(fmt.Sprintf("aws cloudformation delete-stack --stack-name %s && %s", stackName, f.deployCommand()), "%s; its creation failed", cause)
	case status == "UPDATE_ROLLBACK_FAILED":
		return fail("aws cloudformation continue-update-rollback --stack-name "+stackName, "%s", cause)
	case status == "DELETE_FAILED":
		return fail("vacancy destroy --stage "+f.Stage, "%s", cause)
	case status == "REVIEW_IN_PROGRESS":
		return fail(f.deployCommand(), "%s; it was never deployed", cause)
	case strings.HasSuffix(status, "_IN_PROGRESS"):
		return warn("vacancy doctor --host aws --stage "+f.Stage+"    # when CloudFormation is done", "%s", cause)
	case status == "UPDATE_ROLLBACK_COMPLETE" || status == "UPDATE_FAILED":
		return warn(f.deployCommand(), "%s; the last deployment failed", cause)
	}
	return pass("%s", s.Status)
}

// checkVersions compares the versions of the stacks and of this command.
func (f Facts) checkVersions() Check {
	previous := ""
	for _, short := range stage.StackNames() {
		s := f.Stacks[short]
		v, exists := s.Outputs["Version"]
		switch {
		case s.Missing || s.Err != nil:
			continue
		case !exists:
			return fail(f.deployCommand(), "stack %s has no output Version", short)
		case previous != "" && v != previous:
			return warn(f.deployCommand(), "stack %s was deployed by %s, and the stacks before it by %s", short, v, previous)
		case f.Version != "" && !strings.Contains(v, f.Version):
			return warn(f.deployCommand()+"    # or use the command of that version", "this is %s, and stack %s was deployed by %s", f.Version, short, v)
		}
		previous = v
	}
	switch {
	case previous == "":
		return skip("no stack is deployed")
	case f.Version == "":
		return pass("the stacks have version %s; the version of this command is unknown", previous)
	}
	return pass("the stacks and this command have version %s", previous)
}
