// Command consent is the Lambda function of the gate's first check: parent and child must both have
// signed the request, and neither key may be revoked.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.ServeStep(functions.Consent, gate.StepConsent) }
