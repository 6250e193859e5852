// Package echo is the substrate that repeats the question, as the reference implementation does by
// default (PROTOCOL §6.1).
package echo

import (
	"context"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

const Kind = "echo"

var Substrate substrate.Substrate = substrate.Func(func(_ context.Context, r substrate.Request) (string, error) {
	return "echo from " + r.Vacant.Short() + ": " + r.Text(), nil
})

func New(argument string) (substrate.Substrate, error) {
	if argument != "" {
		return nil, problem.Invalid("substrate", "echo without an argument", fmt.Sprintf("%.80q", Kind+":"+argument))
	}
	return Substrate, nil
}
