// Command commit is the Lambda function of the gate's last step, which opens the child in one
// transaction.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.ServeStep(functions.Commit, gate.StepCommit) }
