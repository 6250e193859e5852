// Command commit is the Lambda function of the last step of the gate, which decides whether a child
// vacant may become public. In one transaction it opens the child, or leaves the child unchanged.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.ServeStep(functions.Commit, gate.StepCommit) }
