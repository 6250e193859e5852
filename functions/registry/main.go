// Command registry is the Lambda function of the registry. It accepts publications and revocations,
// shows cards, events and lineage, and serves proofs of the transparency log.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func main() { onlambda.Serve(functions.Registry, onlambda.RegistryHandler) }
