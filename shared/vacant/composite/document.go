package composite

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
)

// inMember prefixes an error with a member's name.
func inMember(field string, err error) error {
	p := problem.Within(problem.Malformed, field, err)
	p.Field = field
	return p
}

// checkIntent checks the word that distinguishes this kind of signed bytes from all others.
func checkIntent(got, want string) error {
	if got != want {
		return problem.Invalid("intent", want, fmt.Sprintf("%.40q", got))
	}
	return nil
}
