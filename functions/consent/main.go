// Command consent is the Lambda function of the gate's first check (the gate decides whether a child
// vacant may become public): parent and child must both have signed the request, and neither key may
// be revoked. The function does not write.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.ServeStep(functions.Consent, gate.StepConsent) }
