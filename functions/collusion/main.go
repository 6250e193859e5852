// Command collusion is the Lambda function of the gate's third check: the child is not its parent
// or a sibling under another name. It reads the host's observations and texts, and does not write.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.ServeStep(functions.Collusion, gate.Collusion) }
