package doctor

import (
	"fmt"
	"strings"

	"github.com/vacancy-host/vacancy/cmd/vacancy/stage"
)

func (f Facts) deploy() string { return "vacancy deploy --stage " + f.Stage }

func (f Facts) stacks() []Check {
	var checks []Check
	for _, short := range stage.Stacks() {
		checks = append(checks, f.stack(short))
	}
	return append(checks, f.versions())
}

// edged reports whether the stage was deployed with CloudFront: then its
// functions have the edge's secret.
func (f Facts) edged() bool { return f.Stacks["functions"].Outputs["EdgeSecret"] != "" }

func (f Facts) stack(short string) Check {
	name, whole := "stack "+short, stage.Whole(f.Stage, short)
	if why := f.blind(); why != "" {
		return none(name, "%s", why)
	}
	s := f.Stacks[short]
	switch {
	case s.Err != nil:
		return unread(name, s.Err)
	case s.Missing && short == "edge" && !f.Stacks["functions"].Missing && !f.edged():
		return none(name, "the stage was deployed without an edge")
	case s.Missing:
		return fail(name, f.deploy(), "there is no stack %s", whole)
	}
	cause := s.Status
	if s.Reason != "" {
		cause += ": " + s.Reason
	}
	switch status := s.Status; {
	case status == "ROLLBACK_COMPLETE" || status == "ROLLBACK_FAILED" || status == "CREATE_FAILED":
		return fail(name, fmt.Sprintf("aws cloudformation delete-stack --stack-name %s && %s", whole, f.deploy()), "%s; it was never whole", cause)
	case status == "UPDATE_ROLLBACK_FAILED":
		return fail(name, "aws cloudformation continue-update-rollback --stack-name "+whole, "%s", cause)
	case status == "DELETE_FAILED":
		return fail(name, "vacancy destroy --stage "+f.Stage, "%s", cause)
	case status == "REVIEW_IN_PROGRESS":
		return fail(name, f.deploy(), "%s; it was never deployed", cause)
	case strings.HasSuffix(status, "_IN_PROGRESS"):
		return warn(name, "vacancy doctor --stage "+f.Stage+"    # when CloudFormation is done", "%s", cause)
	case status == "UPDATE_ROLLBACK_COMPLETE" || status == "UPDATE_FAILED":
		return warn(name, f.deploy(), "%s; the last deployment was taken back", cause)
	}
	return ok(name, "%s", s.Status)
}

// versions compares the stacks with each other, and with this command if it
// knows its version.
func (f Facts) versions() Check {
	const name = "version"
	if why := f.blind(); why != "" {
		return none(name, "%s", why)
	}
	seen := ""
	for _, short := range stage.Stacks() {
		s := f.Stacks[short]
		v, there := s.Outputs["Version"]
		switch {
		case s.Missing || s.Err != nil:
			continue
		case !there:
			return fail(name, f.deploy(), "stack %s says no version", short)
		case seen != "" && v != seen:
			return warn(name, f.deploy(), "stack %s was deployed by %s, and those before it by %s", short, v, seen)
		case f.Version != "" && !strings.Contains(v, f.Version):
			return warn(name, f.deploy()+"    # or use the command of that version", "this is %s, and stack %s was deployed by %s", f.Version, short, v)
		}
		seen = v
	}
	switch {
	case seen == "":
		return none(name, "no stack is deployed")
	case f.Version == "":
		return ok(name, "the stacks are of %s; this command does not know its own", seen)
	}
	return ok(name, "the stacks are of %s, as this command is", seen)
}
