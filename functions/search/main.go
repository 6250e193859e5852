// Command search is the Lambda function behind the handler of searches. It loads
// the index that indexer publishes, follows what has changed since, and reads
// every hit again before it shows it.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudindex"
)

func main() { onlambda.Serve(onlambda.Search, cloudindex.Handler) }
