// Command indexer is the Lambda function that publishes the search index.
package main

import (
	"github.com/vacancy-host/vacancy/shared/front/onlambda"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/cloudindex"
	"github.com/vacancy-host/vacancy/shared/front/onlambda/functions"
)

func main() { onlambda.RunWork(functions.Indexer, cloudindex.PublishWork) }
