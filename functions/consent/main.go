// Command consent is the Lambda function of the gate's first check: parent and child have both
// signed the request, and neither key is revoked. It does not write.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
	"github.com/vacancy-host/vacancy/shared/trust/gate"
)

func main() { onlambda.ServeStep(functions.Consent, gate.Consent) }
