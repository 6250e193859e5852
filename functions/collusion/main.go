// Command collusion is the Lambda function of the gate's third check: the child must not be its
// parent or a sibling under another name.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.ServeStep(functions.Collusion, gate.StepCollusion) }
