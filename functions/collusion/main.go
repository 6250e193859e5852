// Command collusion is the Lambda function of the gate's third check (the gate decides whether a child
// vacant may become public): the child must not be its parent or a sibling under another name. The
// function reads what the host recorded about these vacants, and does not write.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.ServeStep(functions.Collusion, gate.StepCollusion) }
