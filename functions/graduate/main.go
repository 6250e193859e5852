// Command graduate is the Lambda function of the public handler of the gate, which decides whether a
// child vacant may become public. It accepts requests signed by parent and child, starts the state
// machine, and reports the status of an attempt to both.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudgate"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func main() { onlambda.Serve(functions.Graduate, cloudgate.Handler) }
