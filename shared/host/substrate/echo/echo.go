// Package echo is the substrate that repeats the question, exactly like the default behaviour of
// the reference implementation (PROTOCOL §6.1).
package echo

import (
	"context"
	"fmt"

	"github.com/vacancy-host/vacancy/shared/host/substrate"
	"github.com/vacancy-host/vacancy/shared/problem"
)

// Kind is the kind of this substrate in a substrate.Spec.
const Kind = "echo"

// Substrate answers `echo from <short id of the vacant>: <text>`.
var Substrate substrate.Substrate = substrate.Func(func(_ context.Context, r substrate.Request) (string, error) {
	return "echo from " + r.Vacant.Short() + ": " + r.Text(), nil
})

func New(argument string) (substrate.Substrate, error) {
	if argument != "" {
		return nil, problem.Invalid("substrate", "echo without an argument", fmt.Sprintf("%.80q", Kind+":"+argument))
	}
	return Substrate, nil
}
