// Command registry is the Lambda function behind the registry's handler: it takes
// what vacants publish and revoke, shows cards, events and lineage, and proves
// what the transparency log holds.
package main

import "github.com/vacancy-host/vacancy/shared/front/onlambda"

func main() { onlambda.Serve(onlambda.Registry, onlambda.RegistryHandler) }
