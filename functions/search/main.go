// Command search is the Lambda function of searches. It loads the index that the indexer publishes,
// applies later changes, and reads the stored registration of each hit before it returns the hit.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudindex"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func main() { onlambda.Serve(functions.Search, cloudindex.Handler) }
