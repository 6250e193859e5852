// Command graduate is the Lambda function behind the handler of the gate: it takes
// what parent and child have signed, starts the state machine, and tells both
// what has come of it.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudgate"
)

func main() { onlambda.Serve(onlambda.Graduate, cloudgate.Handler) }
