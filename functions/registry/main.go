// Command registry is the Lambda function of the registry.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func main() { onlambda.Serve(functions.Registry, onlambda.RegistryHandler) }
