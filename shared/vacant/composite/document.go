package composite

import (
	"fmt"

	"github.com/vacancy-host/vacancy/shared/problem"
)

func withField(field string, err error) error {
	p := problem.WithPlace(problem.Malformed, field, err)
	p.Field = field
	return p
}

// checkDocument checks the intent, which distinguishes one type of signed document from all other
// types.
func checkDocument(document, intent, wantIntent string, check func() error) error {
	err := check()
	if intent != wantIntent {
		err = problem.Invalid("intent", wantIntent, fmt.Sprintf("%.40q", intent))
	}
	if err != nil {
		return problem.WithPlace(problem.Malformed, document, err)
	}
	return nil
}

func nilIfEmpty(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	return list
}
