// Command ratelimit is the Lambda function of the gate's second check (the gate decides whether a
// child vacant may become public): the parent must not have used all graduations that it may have
// in 24 hours, and the child must still be closed. The function does not write.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.ServeStep(functions.RateLimit, gate.StepRateLimit) }
