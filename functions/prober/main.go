// Command prober is the Lambda function that probes the endpoints of vacants on other hosts.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func main() { onlambda.RunJobs(functions.Prober, nil) }
