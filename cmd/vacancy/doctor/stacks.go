package doctor

import (
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

func (f Facts) deploy() string { return "vacancy deploy --stage " + f.Stage }

// hasEdge reports whether the stage was deployed with an edge (CloudFront in front of the functions).
// The functions of such a stage have the edge's secret.
func (f Facts) hasEdge() bool { return f.Stacks["functions"].Outputs["EdgeSecret"] != "" }

func (f Facts) stack(short string) Check {
	whole := stage.FullName(f.Stage, short)
	s := f.Stacks[short]
	switch {
	case s.Err != nil:
		return unreadFailure(s.Err)
	case s.Missing && short == "edge" && !f.Stacks["functions"].Missing && !f.hasEdge():
		return skip("the stage was deployed without an edge")
	case s.Missing:
		return fail(f.deploy(), "there is no stack %s", whole)
	}
	cause := s.Status
	if s.Reason != "" {
		cause += ": " + s.Reason
	}
	switch status := s.Status; {
	case status == "ROLLBACK_COMPLETE" || status == "ROLLBACK_FAILED" || status == "CREATE_FAILED":
		return fail(fmt.Sprintf("aws cloudformation delete-stack --stack-name %s && %s", whole, f.deploy()), "%s; its creation failed", cause)
	case status == "UPDATE_ROLLBACK_FAILED":
		return fail("aws cloudformation continue-update-rollback --stack-name "+whole, "%s", cause)
	case status == "DELETE_FAILED":
		return fail("vacancy destroy --stage "+f.Stage, "%s", cause)
	case status == "REVIEW_IN_PROGRESS":
		return fail(f.deploy(), "%s; it was never deployed", cause)
	case strings.HasSuffix(status, "_IN_PROGRESS"):
		return warn("vacancy doctor --host aws --stage "+f.Stage+"    # when CloudFormation is done", "%s", cause)
	case status == "UPDATE_ROLLBACK_COMPLETE" || status == "UPDATE_FAILED":
		return warn(f.deploy(), "%s; the last deployment failed", cause)
	}
	return ok("%s", s.Status)
}

// versions compares the versions of the stacks with each other, and with the version of this
// command if it is known.
func (f Facts) versions() Check {
	seen := ""
	for _, short := range stage.Stacks() {
		s := f.Stacks[short]
		v, there := s.Outputs["Version"]
		switch {
		case s.Missing || s.Err != nil:
			continue
		case !there:
			return fail(f.deploy(), "stack %s has no output Version", short)
		case seen != "" && v != seen:
			return warn(f.deploy(), "stack %s was deployed by %s, and those before it by %s", short, v, seen)
		case f.Version != "" && !strings.Contains(v, f.Version):
			return warn(f.deploy()+"    # or use the command of that version", "this is %s, and stack %s was deployed by %s", f.Version, short, v)
		}
		seen = v
	}
	switch {
	case seen == "":
		return skip("no stack is deployed")
	case f.Version == "":
		return ok("the stacks are of %s; this command does not know its own", seen)
	}
	return ok("the stacks are of %s, as this command is", seen)
}
