// Command ratelimit is the Lambda function of the gate's second check: the parent has a graduation
// left in the last 24 hours, and the child is still closed. It does not write.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.ServeStep(functions.RateLimit, gate.RateLimit) }
