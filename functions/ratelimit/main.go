// Command ratelimit is the Lambda function of the gate's second check, which limits a parent's
// graduations in 24 hours.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.ServeStep(functions.RateLimit, gate.StepRateLimit) }
