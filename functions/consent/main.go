// Command consent is the Lambda function of the gate's first step: both have signed that
// the child is to graduate, and neither key is revoked. It reads, and writes
// nothing.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.Step(onlambda.Consent, gate.Consent) }
