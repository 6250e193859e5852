// Command graduate is the Lambda function of the gate's public handler. The gate decides whether a
// child vacant may become public.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudgate"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func main() { onlambda.Serve(functions.Graduate, cloudgate.Handler) }
